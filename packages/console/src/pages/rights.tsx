/** Who could do what at a time, and the differences between two times, from the entries that changed rights. */
import { createRightsSectionReader, type Row, type Section, type Table, withNames } from '@eaas/audit'
import { visible } from '@eaas/protocol'
import type { Entry } from '@eaas/sdk'
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { linkTo, param, setParams } from '../location.js'
import { saveCsv } from '../save.js'
import { client, learnNames } from '../session.js'
import { readTime } from '../time.js'
import { attempt, Problem } from '../ui/outcome.js'
import { Button, Named } from '../ui/values.js'

/** The actions that create or change an API key, or change what any API key of the tenant can do. */
const CHANGES: readonly Entry['action'][] = [
  'api_key.create',
  'api_key.update',
  'api_key.revoke',
  'api_key.restate',
  'tenant.update',
  'tenant.restate',
]
const MOST_ENTRIES = 20_000

interface Read {
  section: Section
  names: ReadonlyMap<string, string> // at the later time
}

export function RightsPage() {
  const today = new Date().toISOString().slice(0, 10)
  const [at, before] = [param('at') || today, param('before')]
  const now = useSignal(new Date().toISOString())
  const to = readPast(at, now.value)
  const from = before === '' ? to : readPast(before, now.value)
  const field = (name: string, label: string, value: string) => (
    <label>
      {label}{' '}
      <input
        class="date"
        value={value}
        placeholder="2026-05-03"
        onChange={(event) => setParams({ [name]: event.currentTarget.value.trim() })}
      />
    </label>
  )
  return (
    <>
      <div class="bar">
        <h1>Rights</h1>
        {field('at', 'at the end of', at)}
        {field('before', 'compared with the end of', before)}
      </div>
      <p class="soft">
        From the entries that the server lists; times are UTC. For a proof, take an export of the log to the page
        Verify.
      </p>
      <Rights key={`${from} ${to}`} from={from} to={to} isCompared={before !== ''} />
    </>
  )
}

type RightsProps = { from: string | undefined; to: string | undefined; isCompared: boolean }

// Reads the rights at two times once. Other times get another component, which a late answer for these cannot reach.
function Rights({ from, to, isCompared }: RightsProps) {
  const read = useSignal<Read | 'too many' | undefined>(undefined)
  const error = useSignal<unknown>(undefined)
  useEffect(() => {
    void attempt(error, async () => {
      if (to === undefined || from === undefined) throw new Error('A date is written 2026-05-03, or 2026-05-03 14:00')
      read.value = await readRights({ from: from < to ? from : to, to: from < to ? to : from })
    })
  }, [])
  return (
    <>
      <Problem error={error.value} />
      {read.value === 'too many' ? (
        <p class="due">
          There are more than {MOST_ENTRIES} changes of rights, which is more than this page reads. Export the log, and
          run <code>npx @eaas/audit rights FILE --at {to}</code> on the export.
        </p>
      ) : (
        read.value && <Tables {...read.value} isCompared={isCompared} />
      )}
    </>
  )
}

/** Reads a time. Returns now for a future one, since the log says nothing about it. */
function readPast(text: string, now: string): string | undefined {
  const time = readTime(text, 'end')
  return time !== undefined && time > now ? now : time
}

async function readRights(period: { from: string; to: string }): Promise<Read | 'too many'> {
  const { audit } = client()
  const entries: Entry[] = []
  for (const action of CHANGES) {
    for await (const entry of audit.entries({ action, order: 'asc', date_to: period.to })) {
      // Without some changes, a revoked API key would be shown as active.
      if (entries.length >= MOST_ENTRIES) return 'too many'
      entries.push(entry)
    }
  }
  learnNames(entries)
  const [first] = (await audit.list({ order: 'asc', limit: 1 })).logs
  const after_id = (first?.id ?? 1) - 1 // a purge may have deleted the entries before
  const reader = createRightsSectionReader(period)
  for (const { metadata, ...entry } of entries.sort((a, b) => a.id - b.id))
    reader.read({ ...entry, metadata: JSON.stringify(metadata) })
  return { section: reader.section(after_id), names: reader.names() }
}

function Tables({ section: { tables, about }, names, isCompared }: Read & { isCompared: boolean }) {
  const shown = tables.filter(({ name }) => isCompared || name !== 'rights-changes')
  return (
    <>
      {about.map((text) => (
        <p key={text} class="soft">
          {text}
        </p>
      ))}
      {shown.map(({ name, title, columns, rows, empty }) => (
        <section key={name}>
          <h2>
            {title}{' '}
            {rows.length > 0 && (
              <Button onClick={() => saveTable({ name, title, columns, rows, empty }, names)}>CSV</Button>
            )}
          </h2>
          {rows.length === 0 ? (
            <p class="empty">{empty}</p>
          ) : (
            // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard (axe: scrollable-region-focusable)
            <section class="scroll" tabIndex={0} aria-label={title}>
              <table class={`plain ${name}`}>
                <thead>
                  <tr>
                    {columns.map((column) => (
                      <th key={column.name} scope="col" class={column.kind === 'mark' ? 'mark' : ''}>
                        <span>{column.title}</span>
                      </th>
                    ))}
                  </tr>
                </thead>
                <tbody>
                  {rows.map((row, at) => (
                    <tr key={`${name} ${at}`}>
                      {columns.map((column, place) => (
                        <td key={column.name} class={column.kind === 'mark' ? 'mark' : ''}>
                          <CellOf kind={column.kind} cell={row.cells[place]} names={names} />
                        </td>
                      ))}
                    </tr>
                  ))}
                </tbody>
              </table>
            </section>
          )}
        </section>
      ))}
    </>
  )
}

function saveTable(table: Table, names: Read['names']): void {
  const { name, columns, rows } = withNames(table, names)
  const cells = columns.map(({ title }, at) => [title, (row: Row) => row.cells[at] ?? null] as const)
  saveCsv(name, rows, Object.fromEntries(cells))
}

type CellProps = { kind: string; cell: Row['cells'][number] | undefined; names: ReadonlyMap<string, string> }

/** Links an entry's number to the entry. */
function CellOf({ kind, cell, names }: CellProps) {
  if (cell === null || cell === undefined || typeof cell === 'object') return null
  if (kind === 'id') return <Named id={String(cell)} name={names.get(String(cell))} />
  if (typeof cell === 'number') return <a href={linkTo('log', { entry: String(cell) })}>{cell}</a>
  return <>{visible(cell)}</>
}
