/** Inserts, updates and deletes of Drizzle, from the calls that `builders.ts` records. */
import {
  assertWritable,
  type MadeIds,
  makeLacking,
  openReturned,
  type Row,
  readConflict,
  refuseCall,
  refuseComputed,
} from '@eaas/sdk/adapter'
import { and, type Column, eq, getTableColumns, is, SQL, StringChunk, sql } from 'drizzle-orm'
import { assertSpelled, isFoundBySpelling, readPins, withSpellings } from './bound-row.js'
import { assertOrder, assertPlain, type Rewriting, rewrite, run } from './conditions.js'
import { runCalls, setMany } from './many-rows.js'
import { leavesOf, readSelection, withBound } from './results.js'
import { createRewriting, visitSource } from './rewriting.js'
import { type Call, type Database, isColumn, isExpression, type KnownTable, sqlName, type Written } from './tables.js'

/** Runs a write with encrypted values, and opens what it returns. `rows` are those that it changes, if already read. */
export async function runWrite(written: Written, calls: readonly Call[], rows?: readonly Row[]): Promise<unknown> {
  const { tables, known } = written
  const returning = calls.find(([name]) => name === 'returning')
  const fields = returning && withBound(tables, (returning[1][0] as Row) ?? known.columns)
  const open = fields && readSelection(tables, fields)
  const translated = (await translate(written, calls, rows)).map(([name, args]): Call => {
    return [name, name === 'returning' && returning?.[1][0] !== undefined ? [fields] : args]
  })
  if (written.method !== 'delete') await assertNoTriggers(written)
  const result = await runCalls(written, translated)
  return open ? openReturned(!written.isStep, () => open(result as Row[])) : result
}

async function translate(written: Written, calls: readonly Call[], rows: readonly Row[] = []): Promise<Call[]> {
  const { tables, known } = written
  const { sealed } = known
  const read = calls.filter(([name]) => name === 'from' || name.endsWith('Join'))
  const rewriting = createRewriting(tables, [written.table, ...read.map(([, [source]]) => source)])
  let given: Row[] = []
  const out: Call[] = []
  for (const [name, args] of calls) {
    const [first] = args
    if (name === 'values') {
      const whole = rowsIn(first).map((one) => withDefaults(known, one))
      const made = await makeIds(written, whole)
      if (made.isAlways) out.unshift(['overridingSystemValue', []])
      given = whole.map((one, at) => withSpellings(known, { ...one, ...made.rows[at] }))
      for (const one of given) assertNotComputed(known, one)
      out.push([name, [(await sealed.sealRows(given)).map((one) => rewriteRow(rewriting, one))]])
    } else if (name === 'set') {
      assertNotComputed(known, first as Row)
      const changes = withUpdates(known, first as Row)
      const many = rows.length > 1 ? await setMany(known, changes, rows) : undefined
      const set =
        many?.set ?? (await sealed.sealChanges(changes, rows[0] ?? (await findBound(written, changes, calls))))
      out.push([name, [rewriteRow(rewriting, set)]], ...(many ? [['from', [many.from]] satisfies Call] : []))
    } else if (name === 'onConflictDoUpdate') {
      out.push([name, [await conflictUpdate(rewriting, known, first as ConflictUpdate, given)]])
    } else if (name === 'onConflictDoNothing') {
      out.push([name, args.map((arg) => conflictSkip(rewriting, known, arg as ConflictSkip))])
    } else if (name === 'onDuplicateKeyUpdate') {
      refuseCall(name, 'Update the row by its key, or insert it.')
    } else out.push([name, args.map((arg) => rewriteArgument(rewriting, name, arg))])
  }
  await run(rewriting)
  return out
}

export function rowsIn(given: unknown): Row[] {
  return (Array.isArray(given) ? given : [given]) as Row[]
}

function rewriteArgument(rewriting: Rewriting, name: string, arg: unknown): unknown {
  if (name === 'where') return rewrite(rewriting, arg)
  if (name === 'returning') {
    for (const { leaf } of leavesOf((arg as Row | undefined) ?? {})) if (!isColumn(leaf)) assertPlain(rewriting, leaf)
  } else if (name === 'orderBy') assertOrder(rewriting, arg)
  else if (typeof arg === 'function') refuseCall(`a function in ${name} of a write`, 'Pass the condition itself.')
  else if (name.endsWith('Join') && is(arg, SQL)) return rewrite(rewriting, arg)
  else if (typeof arg === 'object') visitSource(rewriting, arg)
  return arg
}

/** Rewrites SQL expressions in a row, such as a subquery for a column that is not encrypted. */
function rewriteRow(rewriting: Rewriting, row: Row): Row {
  const rewritten = Object.entries(row).flatMap(([key, value]) =>
    isExpression(value) ? [[key, rewrite(rewriting, value)] as const] : [],
  )
  return rewritten.length > 0 ? { ...row, ...Object.fromEntries(rewritten) } : row
}

/** Finds the changed row's values in the columns of `bind`, if a value is sealed to them. */
async function findBound({ known, table, on }: Written, changes: Row, calls: readonly Call[]): Promise<Row> {
  const { sealed } = known
  const columns = getTableColumns(table) as Record<string, Column>
  const conditions = conditionsIn(calls)
  if (!sealed.isBound(changes) || conditions.length === 0) return {}
  const pins = conditions.length === 1 ? readPins(known, table, conditions[0]) : undefined
  if (!pins) {
    const hint = `Say which row by one \`where\` of Drizzle's own comparisons, joined by \`and\`: eq(${sealed.name}.${sealed.bind[0]}, …).`
    return refuseCall('SQL as text, a subquery or a second `where` in the condition of an update', hint)
  }
  const bound = withSpellings(known, pins)
  const keys = sealed.bind.filter((key) => columns[key])
  if (isFoundBySpelling(known) || !keys.every((key) => key in bound)) return bound
  const found = keys.map((key) => [key, columns[key] as Column] as const)
  const condition = and(...found.map(([key, column]) => eq(column, bound[key])))
  const rows = await on.select(Object.fromEntries(found)).from(table).where(condition)
  for (const row of rows) assertSpelled(known, row, bound)
  return bound
}

export function conditionsIn(calls: readonly Call[]): unknown[] {
  return calls.filter(([name]) => name === 'where').map(([, [condition]]) => condition)
}

type ConflictSkip = { target?: Column | Column[]; where?: unknown }

/** Replaces an encrypted conflict column by its index: encrypted values are never equal. */
function conflictSkip(rewriting: Rewriting, known: KnownTable, skip: ConflictSkip = {}): ConflictSkip {
  const { sealed, columns } = known
  const target = [skip.target ?? []].flat().map((column) => {
    const key = known.keyOf(column)
    return sealed.isSealed(key) ? (columns[sealed.planEqual(key, '=', []).column] as Column) : column
  })
  const out = skip.target === undefined ? skip : { ...skip, target }
  assertPlain(rewriting, Object.values(out))
  return out
}

export interface ConflictUpdate {
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
  const conflict = readConflict(known.sealed, isFoundBySpelling(known) ? targets : [], given)
  const sealedKeys = Object.keys(update.set).filter((key) => known.sealed.isSealed(key))
  const taken = sealedKeys.filter((key) => isExcluded(known, key, update.set[key]))
  const moved = Object.fromEntries(conflict.excluded(taken).map((column) => [column, excluded(known, column)]))
  const plain = Object.fromEntries(Object.entries(update.set).filter(([key]) => !Object.hasOwn(moved, key)))
  assertNotComputed(known, plain)
  const sealed = await known.sealed.sealChanges(withUpdates(known, plain), conflict.bound)
  const out = { ...update, set: { ...rewriteRow(rewriting, sealed), ...moved } }
  for (const name of ['where', 'targetWhere', 'setWhere'] as const) {
    if (out[name] !== undefined) out[name] = rewrite(rewriting, out[name])
  }
  return out
}

/** Tells whether a value is `excluded.…` of the same column, so the encrypted value of the row to insert. */
export function isExcluded({ nameIn }: KnownTable, key: string, value: unknown): boolean {
  if (!is(value, SQL)) return false
  const text = value.queryChunks
    .map((chunk) => (is(chunk, StringChunk) ? chunk.value.join('') : String((chunk as { value?: unknown })?.value)))
    .join('')
  return text.replaceAll(/["`\s]/g, '') === `excluded.${nameIn(key)}`
}

function excluded({ nameIn }: KnownTable, key: string): SQL {
  return sql`excluded.${sql.identifier(nameIn(key))}`
}

/** Refuses SQL for a column that is encrypted or bound to. */
function assertNotComputed({ sealed }: KnownTable, row: Row): void {
  for (const key of [...Object.keys(row).filter((one) => sealed.isSealed(one)), ...sealed.bind]) {
    const value = row[key]
    if (isExpression(value)) refuseComputed(sealed.name, key)
  }
}

/** Adds the values that Drizzle would generate for an insert: encrypted values may be bound to them. */
export function withDefaults({ columns }: KnownTable, row: Row): Row {
  const made = Object.entries(columns).flatMap(([key, column]) => {
    if (row[key] !== undefined) return []
    const make = column.defaultFn ?? column.onUpdateFn
    return make ? [[key, make()] as const] : []
  })
  return { ...row, ...Object.fromEntries(made) }
}

export function withUpdates({ columns }: KnownTable, changes: Row): Row {
  const made = Object.entries(columns).flatMap(([key, column]) =>
    changes[key] === undefined && column.onUpdateFn ? [[key, column.onUpdateFn()] as const] : [],
  )
  return Object.fromEntries(
    Object.entries({ ...changes, ...Object.fromEntries(made) }).filter(([, value]) => value !== undefined),
  )
}

async function assertNoTriggers({ known, table, on }: Written): Promise<void> {
  const { sealed, columns, nameIn } = known
  const isPostgres = Object.values(columns).some(({ columnType }) => columnType.startsWith('Pg'))
  if (!isPostgres || !on.execute) return
  await assertWritable((text) => runText(on, text), sealed, { table: sqlName(table), nameIn })
}

function makeIds({ tables, known, table, on }: Written, rows: readonly Row[]): Promise<MadeIds> {
  const columns = known.sealed.bind
    .filter((key) => isMade(known.columns[key]))
    .map((name) => {
      const read = (value: unknown) => known.columns[name]?.mapFromDriverValue(value)
      return { name, column: known.nameIn(name), read }
    })
  const run = (text: string) => {
    const call = `with() of an insert into ${known.sealed.name} whose id the database makes`
    if (!on.execute) refuseCall(call, 'Give the rows their ids.')
    return runText(on, text)
  }
  return makeLacking(tables.ids, run, { table: sqlName(table), columns, rows })
}

function isMade(column: Column | undefined): boolean {
  if (column === undefined || !column.columnType.startsWith('Pg')) return false
  return column.hasDefault || column.generatedIdentity !== undefined
}

/** Runs SQL as text. Returns the rows, which drivers return in different forms. */
async function runText(on: Database, text: string): Promise<Row[]> {
  const result = await on.execute(sql.raw(text))
  return (Array.isArray(result) ? result : (result as { rows: Row[] }).rows) as Row[]
}
