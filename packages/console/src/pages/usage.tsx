/** The use in a month: by day and action, by API key, and what was refused. */
import type { Entry, Usage } from '@eaas/sdk'
import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import { linkTo, param, setParams } from '../location.js'
import { saveCsv } from '../save.js'
import { client } from '../session.js'
import { attempt, Problem } from '../ui/outcome.js'
import { type Column, PlainTable } from '../ui/table.js'
import { Button, Named } from '../ui/values.js'
import 'uplot/dist/uPlot.min.css'

type Action = Entry['action']

const PLOTTED = 4 // by day; the most frequent actions
const AT_ONCE = 4
const PLOT_PX = 220

const TODAY: readonly Column<Usage['by_api_key'][number]>[] = [
  { title: 'API key', cell: ({ api_key_id }) => <Named id={api_key_id} /> },
  { title: 'What', cell: ({ kind }) => kind },
  {
    title: 'Today',
    isNumber: true,
    cell: ({ today, median }) => (
      <span class={median !== null && today > 2 * median ? 'due' : ''}>{today.toLocaleString('en')}</span>
    ),
  },
  { title: 'Median day', isNumber: true, cell: ({ median }) => median?.toLocaleString('en') ?? '–' },
]

const REFUSED: readonly Column<Usage['unrecorded'][number]>[] = [
  { title: 'Day', cell: ({ day }) => day },
  {
    title: 'Why',
    cell: ({ kind }) => <span class="alarm">{kind.replace('_refused', '').replaceAll('_', ' ')}</span>,
  },
  { title: 'API key', cell: ({ api_key_id }) => <Named id={api_key_id} /> },
  { title: 'From', cell: ({ ip_address }) => ip_address ?? 'further addresses' },
  { title: 'Calls', isNumber: true, cell: ({ count }) => count.toLocaleString('en') },
]

interface Days {
  days: readonly string[]
  actions: readonly Action[]
  /** by action, then by day */
  counts: readonly (readonly number[])[]
}

export function UsagePage() {
  const month = param('month') || new Date().toISOString().slice(0, 7)
  return (
    <>
      <div class="bar">
        <h1>Usage</h1>
        <input
          type="month"
          aria-label="Month"
          value={month}
          onChange={(event) => setParams({ month: event.currentTarget.value })}
        />
      </div>
      <Month key={month} month={month} />
    </>
  )
}

/** Reads one month once. Another month gets another component, which a late answer for this one cannot reach. */
function Month({ month }: { month: string }) {
  const usage = useSignal<Usage | undefined>(undefined)
  const days = useSignal<Days | undefined>(undefined)
  const error = useSignal<unknown>(undefined)
  useEffect(() => {
    void attempt(error, async () => {
      usage.value = await client().usage(month)
      days.value = await countDays(month, usage.value.operations)
    })
  }, [])
  return (
    <>
      <Problem error={error.value} />
      {usage.value && Object.keys(usage.value.operations).length === 0 && (
        <p class="empty">Nothing was done in this month.</p>
      )}
      {days.value && days.value.actions.length > 0 && <ByDay {...days.value} />}
      {usage.value && <Totals usage={usage.value} />}
    </>
  )
}

async function countDays(month: string, operations: Usage['operations']): Promise<Days> {
  const { audit } = client()
  const actions = Object.entries(operations)
    .sort(([, a], [, b]) => b - a)
    .slice(0, PLOTTED)
    .map(([action]) => action as Action)
  const days = listDays(month)
  const wanted = actions.flatMap((action, row) => days.map((day, column) => ({ action, day, row, column })))
  const counts = actions.map(() => days.map(() => 0))
  const count = async () => {
    for (let next = wanted.shift(); next; next = wanted.shift()) {
      const { action, day, row, column } = next
      const [date_from, date_to] = [`${day}T00:00:00.000Z`, `${day}T23:59:59.999Z`]
      const { total } = await audit.list({ action, date_from, date_to, limit: 1 })
      const line = counts[row]
      if (line) line[column] = total
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, count))
  return { days, actions, counts }
}

function listDays(month: string): string[] {
  const today = new Date().toISOString().slice(0, 10)
  const length = new Date(Date.UTC(Number(month.slice(0, 4)), Number(month.slice(5)), 0)).getUTCDate()
  const days = Array.from({ length }, (_, at) => `${month}-${String(at + 1).padStart(2, '0')}`)
  return days.filter((day) => day <= today)
}

function ByDay({ days, actions, counts }: Days) {
  const place = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const node = place.current
    if (!node) return
    const style = getComputedStyle(node)
    const colour = (name: string) => style.getPropertyValue(name)
    const axis = { stroke: colour('--soft'), grid: { stroke: colour('--line') }, ticks: { stroke: colour('--line') } }
    const plot = new uPlot(
      {
        width: node.clientWidth,
        height: PLOT_PX,
        tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1_000), 'UTC'),
        scales: { y: { range: (_, __, most) => [0, Math.max(1, most)] } },
        axes: [
          { ...axis, values: '{MM}-{DD}' },
          { ...axis, size: 56 },
        ],
        series: [
          { label: 'Day', value: '{YYYY}-{MM}-{DD}' },
          ...actions.map((label, at) => ({
            label,
            stroke: colour(`--plot-${at + 1}`),
            width: 2,
            points: { show: true, size: 6 },
          })),
        ],
      },
      [days.map((day) => Date.parse(day) / 1_000), ...counts.map((line) => [...line])],
      node,
    )
    const resize = new ResizeObserver(() => plot.setSize({ width: node.clientWidth, height: PLOT_PX }))
    resize.observe(node)
    return () => {
      resize.disconnect()
      plot.destroy()
    }
  }, [days, actions, counts])
  const saveCounts = () => {
    const cells = actions.map((action, row) => [action, (at: number) => counts[row]?.[at] ?? 0] as const)
    return saveCsv('usage', [...days.keys()], { day: (at) => days[at] ?? '', ...Object.fromEntries(cells) })
  }
  const countOf = (action: Action, row: number): Column<{ day: string; at: number }> => ({
    title: action,
    isNumber: true,
    cell: ({ day, at }) => (
      <a href={linkTo('log', { action, from: day, to: day })}>{(counts[row]?.[at] ?? 0).toLocaleString('en')}</a>
    ),
  })
  const used = days.map((day, at) => ({ day, at })).filter(({ at }) => counts.some((line) => (line[at] ?? 0) > 0))
  return (
    <>
      <div ref={place} class="plot" aria-hidden="true" />
      <h2>
        By day <Button onClick={saveCounts}>CSV</Button>
      </h2>
      <PlainTable
        label="Entries by day and action"
        rows={used.toReversed()}
        columns={[{ title: 'Day, UTC', cell: ({ day }) => day }, ...actions.map(countOf)]}
        keyOf={({ day }) => day}
      />
    </>
  )
}

function Totals({ usage: { operations, unrecorded, by_api_key } }: { usage: Usage }) {
  const refused = unrecorded.filter(({ kind }) => kind !== 'hash')
  return (
    <>
      <h2>By action</h2>
      <table class="plain" aria-label="Entries by action">
        <tbody>
          {Object.entries(operations)
            .sort(([, a], [, b]) => b - a)
            .map(([action, count]) => (
              <tr key={action}>
                <th scope="row">
                  <a href={linkTo('log', { action })}>{action}</a>
                </th>
                <td class="number">{count.toLocaleString('en')}</td>
              </tr>
            ))}
        </tbody>
      </table>
      <h2>Today by API key</h2>
      <PlainTable
        label="Today by API key"
        rows={by_api_key}
        columns={TODAY}
        keyOf={({ api_key_id, kind }) => `${api_key_id} ${kind}`}
        empty="No API key opened or hashed anything today."
      />
      <h2>Refused</h2>
      <PlainTable
        label="Refused calls"
        rows={refused}
        columns={REFUSED}
        keyOf={({ day, api_key_id, kind, ip_address }) => `${day} ${api_key_id} ${kind} ${ip_address}`}
        empty="No call was refused."
      />
    </>
  )
}
