/**
 * Inserts, updates and deletes of Drizzle. Encrypting takes time, and Drizzle takes values at once: so the calls are remembered, and
 * repeated on Drizzle's own builder, with encrypted values, when the query is awaited.
 */
import { type Column, is, QueryPromise, SQL, StringChunk, sql } from 'drizzle-orm'
import type { Row } from '../../input.js'
import { readConflict } from '../conflicts.js'
import { refuseCall, refuseComputed } from '../refusals.js'
import { type Rewriting, rewrite, run } from './conditions.js'
import { pinnedBy } from './pins.js'
import { readSelection } from './results.js'
import { createRewriting } from './rewriting.js'
import type { KnownTable, KnownTables } from './tables.js'

type Call = [name: string, args: unknown[]]

interface Builder {
  [name: string]: (...args: unknown[]) => Builder & PromiseLike<unknown>
}

const REFUSED = ['select', 'prepare', 'toSQL', 'getSQL', 'as', '_prepare', 'all', 'get', 'run']

/** Remembers the calls on a builder of Drizzle, which `begin` makes, and repeats them when it is awaited. */
export function wrapWrite(tables: KnownTables, known: KnownTable, begin: () => object): object {
  const calls: Call[] = []
  const waiting = new Write(async () => {
    const repeated = await translate(tables, known, calls)
    let builder = begin() as Builder
    for (const [name, args] of repeated) builder = builder[name]?.(...args) as Builder
    const result: unknown = await builder
    const returning = repeated.find(([name]) => name === 'returning')
    if (!returning) return result
    return readSelection(tables, (returning[1][0] as Row) ?? known.columns)(result as Row[])
  })
  const wrapped: object = new Proxy(waiting, {
    get(target, name) {
      if (typeof name === 'symbol' || name in target) return Reflect.get(target, name)
      if (REFUSED.includes(name)) return () => refuseCall(`${name}() of a write`, 'Await the query itself.')
      return (...args: unknown[]) => {
        calls.push([name, args])
        return wrapped
      }
    },
  })
  return wrapped
}

class Write extends QueryPromise<unknown> {
  readonly execute: () => Promise<unknown>

  constructor(run: () => Promise<unknown>) {
    super()
    this.execute = run
  }
}

async function translate(tables: KnownTables, known: KnownTable, calls: readonly Call[]): Promise<Call[]> {
  const { sealed } = known
  const rewriting = createRewriting(tables)
  const condition = calls.find(([name]) => name === 'where')?.[1][0]
  let given: Row[] = []
  const out: Call[] = []
  for (const [name, args] of calls) {
    const [first] = args
    if (name === 'values') {
      given = (Array.isArray(first) ? first : [first]).map((row) => withDefaults(known, row))
      for (const row of given) assertNotComputed(known, row)
      out.push([name, [await sealed.sealRows(given)]])
    } else if (name === 'set') {
      assertNotComputed(known, first as Row)
      out.push([name, [await sealed.sealChanges(withUpdates(known, first as Row), pinnedBy(known, condition))]])
    } else if (name === 'onConflictDoUpdate') {
      out.push([name, [await conflictUpdate(rewriting, known, first as ConflictUpdate, given)]])
    } else if (name === 'onDuplicateKeyUpdate') {
      refuseCall(name, 'Update the row by its key, or insert it.')
    } else if (name === 'where' || name.endsWith('Join')) {
      out.push([name, args.map((arg) => rewrite(rewriting, arg))])
    } else out.push([name, args])
  }
  await run(rewriting)
  return out
}

interface ConflictUpdate {
  target: Column | Column[]
  set: Row
  where?: unknown
  targetWhere?: unknown
  setWhere?: unknown
}

async function conflictUpdate(
  rewriting: Rewriting,
  known: KnownTable,
  update: ConflictUpdate,
  given: readonly Row[],
): Promise<ConflictUpdate> {
  const targets = [update.target].flat().map((column) => known.keyOf(column))
  const conflict = readConflict(known.sealed, targets, given)
  const moved: Row = {}
  const plain: Row = {}
  for (const [key, value] of Object.entries(update.set)) {
    if (known.sealed.isSealed(key) && isExcluded(known, key, value)) {
      for (const column of conflict.excluded(key)) moved[column] = excluded(known, column)
    } else plain[key] = value
  }
  assertNotComputed(known, plain)
  const sealed = await known.sealed.sealChanges(withUpdates(known, plain), conflict.bound)
  const out = { ...update, set: { ...sealed, ...moved } }
  for (const name of ['where', 'targetWhere', 'setWhere'] as const) {
    if (out[name] !== undefined) out[name] = rewrite(rewriting, out[name])
  }
  return out
}

/** Tells whether a value is `excluded.…` of the same column: the value of the row that was to be inserted, which is encrypted. */
function isExcluded({ columns }: KnownTable, key: string, value: unknown): boolean {
  if (!is(value, SQL)) return false
  const text = value.queryChunks
    .map((chunk) => (is(chunk, StringChunk) ? chunk.value.join('') : String((chunk as { value?: unknown })?.value)))
    .join('')
  return text.replaceAll(/["`\s]/g, '') === `excluded.${columns[key]?.name}`
}

function excluded({ columns }: KnownTable, key: string): SQL {
  return sql`excluded.${sql.identifier(columns[key]?.name ?? key)}`
}

/** Refuses SQL where a value is encrypted, or bound to. */
function assertNotComputed({ sealed }: KnownTable, row: Row): void {
  for (const key of [...Object.keys(row).filter((one) => sealed.isSealed(one)), ...sealed.bind]) {
    const value = row[key]
    if (typeof value === 'object' && value !== null && 'getSQL' in value) refuseComputed(sealed.name, key)
  }
}

/** Adds the values that Drizzle would make at the insert: encrypted values may be bound to them. */
function withDefaults({ columns }: KnownTable, row: Row): Row {
  const made = Object.entries(columns).flatMap(([key, column]) => {
    if (row[key] !== undefined) return []
    const make = column.defaultFn ?? column.onUpdateFn
    return make ? [[key, make()] as const] : []
  })
  return { ...row, ...Object.fromEntries(made) }
}

function withUpdates({ columns }: KnownTable, changes: Row): Row {
  const made = Object.entries(columns).flatMap(([key, column]) =>
    changes[key] === undefined && column.onUpdateFn ? [[key, column.onUpdateFn()] as const] : [],
  )
  return Object.fromEntries(
    Object.entries({ ...changes, ...Object.fromEntries(made) }).filter(([, value]) => value !== undefined),
  )
}
