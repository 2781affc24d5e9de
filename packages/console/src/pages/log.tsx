/** The audit log: filters in the URL, endless, live. */
import { ACTIONS, visible } from '@eaas/protocol'
import type { Entry, ListEntriesOptions } from '@eaas/sdk'
import { signal } from '@preact/signals'
import type { TargetedEvent } from 'preact'
import { useEffect, useMemo } from 'preact/hooks'
import { linkTo, param, setParams, verifierUrl } from '../location.js'
import { saveCsv } from '../save.js'
import { client, findKeyId, learnNames, nameOf } from '../session.js'
import { readTime } from '../time.js'
import { attempt, Problem } from '../ui/outcome.js'
import { type Column, Table } from '../ui/table.js'
import { Button, CopyButton, Facts, Named, Time } from '../ui/values.js'

const PAGE_ENTRIES = 100
const LIVE_MS = 3_000
const CONTEXT = 'context.' // the prefix of an entry's members for its context
/** Red, since something was refused or a key left the server. */
const ALARMS: readonly string[] = ['key.export', 'envelope_only.refused', 'budget.refused', 'usage.doubled']

const COLUMNS: readonly Column<Entry>[] = [
  { title: 'Time', width: 1.4, cell: ({ created_at }) => <Time at={created_at} /> },
  { title: 'Action', width: 1.6, cell: ({ action }) => action },
  { title: 'Key', width: 1.75, cell: ({ key_id }) => key_id && <Named id={key_id} /> },
  { title: 'By', width: 1.35, wide: true, cell: ({ actor }) => <Named id={actor} /> },
  { title: 'For', width: 1.2, wide: true, cell: ({ metadata }) => textOf(metadata.on_behalf_of) },
  { title: 'Context', width: 2.6, wide: true, cell: ({ metadata }) => describeContext(metadata) },
  { title: 'From', width: 1.2, wide: true, cell: ({ ip_address }) => ip_address },
  { title: 'Entry', width: 0.9, isNumber: true, cell: ({ id }) => id },
]

const FILTERS = ['action', 'key', 'actor', 'user', 'context', 'from', 'to', 'entry'] as const

/** The filter in the URL. @throws SyntaxError if it is unreadable, since without it the page would show too much */
function readFilter(): ListEntriesOptions {
  const [action, key, actor, user, context] = FILTERS.map(param)
  const [from, to] = [readEdge('from', 'begin'), readEdge('to', 'end')]
  return {
    ...(action ? { action: action as Entry['action'] } : {}),
    ...(key ? { key_id: findKeyId(key) } : {}),
    ...(actor ? { actor } : {}),
    ...(user ? { on_behalf_of: user } : {}),
    ...(context ? { context: readContext(context) } : {}),
    ...(from ? { date_from: from } : {}),
    ...(to ? { date_to: to } : {}),
  }
}

function readEdge(name: 'from' | 'to', edge: 'begin' | 'end'): string | undefined {
  const time = readTime(param(name), edge)
  if (time === undefined && param(name) !== '')
    throw new SyntaxError(`${name} must be a day such as 2026-05-03, or a time such as 2026-05-03 14:07`)
  return time
}

/** The single entry that the URL names, or 0. @throws SyntaxError */
function readEntry(): number {
  if (/^\d{0,15}$/.test(param('entry'))) return Number(param('entry'))
  throw new SyntaxError('entry must be the number of an entry')
}

async function readPage(offset: number): Promise<{ logs: Entry[]; total: number }> {
  const entry = readEntry()
  if (entry === 0) return client().audit.list({ ...readFilter(), limit: PAGE_ENTRIES, offset })
  const { logs } = await client().audit.list({ after_id: entry - 1, order: 'asc', limit: 1 })
  // If it was purged, the list would begin with the first remaining entry.
  const found = logs.filter(({ id }) => id === entry)
  return { logs: found, total: found.length }
}

/** Reads `model=customers row=7`. */
function readContext(text: string): Record<string, string> {
  const pairs = text.split(/\s+/).filter(Boolean)
  return Object.fromEntries(
    pairs.map((pair): [string, string] => {
      const at = pair.indexOf('=')
      if (at < 1) throw new SyntaxError('Context must be pairs such as model=customers row=7')
      return [pair.slice(0, at), pair.slice(at + 1)]
    }),
  )
}

/** The entries that the URL selects, newest first, as far as they were read. */
function createEntryList() {
  const entries = signal<readonly Entry[]>([])
  const total = signal<number | undefined>(undefined)
  const isWhole = signal(false)
  const error = signal<unknown>(undefined)
  let isReading = false
  let nextOffset = 0

  /** Reads older entries than the shown ones, or the newest if none are shown. */
  const readOlder = async () => {
    if (isReading) return
    isReading = true
    await attempt(error, async () => {
      const offset = Math.max(nextOffset, entries.value.length)
      const page = await readPage(offset)
      const oldest = entries.value.at(-1)?.id ?? Number.POSITIVE_INFINITY
      entries.value = [...entries.value, ...page.logs.filter(({ id }) => id < oldest)] // new entries have shifted the page
      nextOffset = offset + page.logs.length // even if all of them are already shown
      total.value = page.total
      learnNames(page.logs)
      isWhole.value = page.logs.length < PAGE_ENTRIES
    })
    isReading = false
  }
  const readNewer = async () => {
    const [newest] = entries.value
    if (!newest) return readOlder()
    await attempt(error, async () => {
      const page = { after_id: newest.id, order: 'asc', limit: PAGE_ENTRIES } as const
      const { logs } = await client().audit.list({ ...readFilter(), ...page })
      if (logs.length === 0 || entries.value[0] !== newest) return
      learnNames(logs)
      entries.value = [...logs.toReversed(), ...entries.value]
      total.value = (total.value ?? 0) + logs.length
    })
  }
  return { entries, total, isWhole, error, readOlder, readNewer }
}

export function LogPage() {
  const query = JSON.stringify(FILTERS.map(param))
  const isOne = param('entry') !== ''
  const isLive = param('live') !== '' && !isOne
  // Another query gets another list, which late answers for the former one do not reach.
  const { entries, total, isWhole, error, readOlder, readNewer } = useMemo(createEntryList, [query])
  useEffect(() => {
    if (!isLive) return
    const timer = setInterval(readNewer, LIVE_MS)
    return () => clearInterval(timer)
  }, [isLive, query])

  return (
    <>
      <div class="bar">
        <h1>Log</h1>
        <span class="count">{total.value?.toLocaleString('en') ?? '…'}</span>
        <span class="tools">
          <Button
            aria-pressed={isLive}
            class={isLive ? 'live' : ''}
            disabled={isOne}
            onClick={() => setParams({ live: isLive ? undefined : '1' })}
          >
            Live
          </Button>
          <Button onClick={() => saveEntries(entries.value)}>CSV</Button>
        </span>
      </div>
      <Filters />
      <Problem error={error.value} />
      {entries.value.length === 0 && isWhole.value ? (
        <p class="empty">
          No entry matches.{' '}
          {query === JSON.stringify(FILTERS.map(() => '')) ? '' : <a href={linkTo('log')}>Show all</a>}
        </p>
      ) : (
        <Table
          label="Entries"
          rows={entries.value}
          columns={COLUMNS}
          keyOf={({ id }) => id}
          toneOf={({ action }) => (ALARMS.includes(action) ? 'alarm' : '')}
          open={(entry) => <Opened entry={entry} />}
          onEnd={() => {
            if (!isWhole.value && error.value === undefined) void readOlder()
          }}
        />
      )}
    </>
  )
}

function Filters() {
  const field = (name: (typeof FILTERS)[number], placeholder: string, label: string) => {
    const common = {
      placeholder,
      title: label,
      'aria-label': label,
      value: param(name),
      onChange: (event: TargetedEvent<HTMLInputElement>) => setParams({ [name]: event.currentTarget.value.trim() }),
    }
    return name === 'key' ? <input type="search" {...common} /> : <input {...common} />
  }
  return (
    <div class="filters">
      <select
        aria-label="Action"
        value={param('action')}
        onChange={(event) => setParams({ action: event.currentTarget.value })}
      >
        <option value="">any action</option>
        {ACTIONS.map((action) => (
          <option key={action}>{action}</option>
        ))}
      </select>
      {field('key', 'key  /', 'Key, by its name or id')}
      {field('actor', 'by: API key', 'By which API key, or system')}
      {field('user', 'for: end user', 'For which end user')}
      {field('context', 'context', 'Context, as pairs such as model=customers row=7')}
      {field('from', 'from: day', 'From this day or time of UTC, such as 2026-05-03')}
      {field('to', 'to: day', 'To this day or time of UTC, such as 2026-05-04')}
      {field('entry', 'entry', 'Only the entry of this number')}
    </div>
  )
}

function Opened({ entry }: { entry: Entry }) {
  const { id, action, key_id, key_version, actor, ip_address, metadata, created_at } = entry
  const { key_version: _, ...told } = metadata
  return (
    <Facts
      of={{
        Entry: id,
        Time: <Time at={created_at} isExact />,
        Action: <a href={linkTo('log', { action })}>{action}</a>,
        Key: key_id && <Linked id={key_id} href={linkTo('log', { key: key_id })} />,
        Version: key_version,
        By: <Linked id={actor} href={linkTo('log', { actor })} />,
        From: ip_address,
        ...Object.fromEntries(
          Object.entries(told).map(([name, value]) => [name, <code key={name}>{textOf(value)}</code>]),
        ),
        Proof: <Proof id={id} />,
      }}
    />
  )
}

// How to prove the entry from an export to a person who does not trust the server, whose pages prove nothing.
function Proof({ id }: { id: number }) {
  const command = `npx @eaas/audit prove EXPORT ${id} --out ${id}.proof`
  return (
    <>
      <CopyButton text={command} shown={command} label={`Copy ${command}`} /> or{' '}
      <a href={verifierUrl(id)} target="_blank" rel="noopener">
        from an export, in the browser
      </a>
    </>
  )
}

function Linked({ id, href }: { id: string; href: string }) {
  return (
    <>
      <a href={href}>{visible(nameOf(id) ?? 'its entries')}</a> <CopyButton text={id} shown={id} label={`Copy ${id}`} />
    </>
  )
}

/** The stated pairs of a wrap or unwrap (wrapped-key-v2.md 4). */
function describeContext(metadata: Entry['metadata']): string {
  const pairs = Object.entries(metadata).filter(([name]) => name.startsWith(CONTEXT))
  return pairs.map(([name, value]) => `${name.slice(CONTEXT.length)}=${textOf(value)}`).join(' ')
}

function textOf(value: unknown): string {
  return value === undefined || value === null ? '' : typeof value === 'string' ? visible(value) : JSON.stringify(value)
}

function saveEntries(list: readonly Entry[]): void {
  saveCsv('log', list, {
    entry: ({ id }) => id,
    time: ({ created_at }) => created_at,
    action: ({ action }) => action,
    key_id: ({ key_id }) => key_id,
    key: ({ key_id }) => nameOf(key_id ?? '') ?? null,
    version: ({ key_version }) => key_version,
    actor: ({ actor }) => actor,
    by: ({ actor }) => nameOf(actor) ?? null,
    from: ({ ip_address }) => ip_address,
    metadata: ({ metadata }) => JSON.stringify(metadata),
  })
}
