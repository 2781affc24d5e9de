/**
 * Updates and upserts whose statement does not determine the rows that its values are bound to. One transaction finds
 * the rows, locks them where the database can, and changes each with values sealed to it.
 */
import { assertFoundAgain, changeFound, type Row, refuseCall, tellsRow, upsertEach } from '@eaas/sdk/adapter'
import { and, type Column, eq, type SQL, sql } from 'drizzle-orm'
import { isFoundBySpelling, readPins, withSpellings } from './bound-row.js'
import { rewrite, run } from './conditions.js'
import { boundToMany, changedRows, findCount, mergeResults, takesMany } from './many-rows.js'
import { createRewriting } from './rewriting.js'
import { type Builder, type Call, isSync, type KnownTable, type Written } from './tables.js'
import { type ConflictUpdate, conditionsIn, isExcluded, rowsIn, runWrite, withDefaults, withUpdates } from './writes.js'

/** Returns the function that changes the rows that a write finds; undefined if the write itself determines its row. */
export function planFound(written: Written, calls: readonly Call[]): (() => Promise<unknown>) | undefined {
  const argument = (method: string) => calls.find(([name]) => name === method)?.[1][0]
  if (written.method === 'update') {
    const set = argument('set') as Row | undefined
    if (!set || !needsRows(written, set, calls)) return undefined
    return () => within(written, (inner) => updateFound(inner, calls))
  }
  const conflict = argument('onConflictDoUpdate') as ConflictUpdate | undefined
  if (!conflict || !needsConflict(written.known, conflict)) return undefined
  return () => within(written, (inner) => upsertFound(inner, calls, conflict))
}

function needsRows({ known, table }: Written, set: Row, calls: readonly Call[]): boolean {
  const changes = withUpdates(known, set)
  if (!known.sealed.needsRow(changes, {})) return false
  const conditions = conditionsIn(calls)
  const pins = conditions.length === 1 ? readPins(known, table, conditions[0]) : undefined
  return !pins || known.sealed.needsRow(changes, pins)
}

/** Runs a change in a new transaction or, within one, behind a savepoint. If it fails, nothing of it is stored. */
function within<T>(written: Written, change: (inner: Written) => Promise<T>): Promise<T> {
  const { on, known } = written
  assertFoundAgain(known.sealed)
  if (!on.transaction) {
    const hint = 'Write the query into its condition: inArray(users.id, db.select(…)).'
    return refuseCall(`with() of a write of ${known.sealed.name} whose rows must be read before`, hint)
  }
  if (isSync(on)) {
    const hint = `Read the ids first, and update each row by its own. The driver cannot wait within a transaction.`
    return refuseCall(`a write of ${known.sealed.name} whose rows must be read before`, hint)
  }
  return on.transaction((inner) => change({ ...written, on: inner, isStep: true }))
}

async function updateFound(written: Written, calls: readonly Call[]): Promise<unknown> {
  const { known } = written
  const others = calls.find(([name]) => /^(from|limit|orderBy)$|Join$/.test(name))
  if (others) {
    const hint = 'Find its rows by `where` alone, with a subquery if need be: inArray(users.id, db.select(…)).'
    refuseCall(`${others[0]} in an update of ${known.sealed.name} whose rows must be read before`, hint)
  }
  const conditions = conditionsIn(calls)
  const rows = await findRows(written, conditions.at(-1) as SQL | undefined)
  const rest = calls.filter(([name]) => name !== 'where')
  const results = await changeFound(known.sealed, rows, {
    takesMany: takesMany(known),
    countOf: findCount,
    change(some) {
      const where = some[1] ? boundToMany(known) : boundTo(known, some[0] as Row)
      return runWrite(written, [...rest, ['where', [where]]], some)
    },
  })
  return results.length > 0 ? mergeResults(results) : runNone(written, rest)
}

/** Runs an update that matches no row, to return a result in the driver's form. */
async function runNone({ known, on, table }: Written, calls: readonly Call[]): Promise<unknown> {
  const key = known.sealed.bind[0] ?? ''
  const update = on
    .update(table)
    .set?.({ [key]: sql`${known.columns[key]}` })
    .where?.(sql`false`) as Builder
  const returning = calls.find(([name]) => name === 'returning')
  return returning ? update.returning?.(...returning[1]) : update
}

/** Finds and locks rows: the columns that values are bound to, and those that may determine a row's key. */
async function findRows({ tables, known, table, on }: Written, condition: SQL | undefined): Promise<Row[]> {
  const { sealed, columns } = known
  const rewriting = createRewriting(tables, [table])
  const where = rewrite(rewriting, condition)
  await run(rewriting)
  const names = sealed.keyByRow
    ? Object.keys(columns).filter((key) => sealed.bind.includes(key) || !sealed.columns.includes(key))
    : sealed.bind
  const query = on
    .select(Object.fromEntries(names.map((key) => [key, columns[key]])))
    .from(table)
    .where(where)
    .orderBy(...sealed.bind.flatMap((key) => columns[key] ?? [])) // a fixed order, so that two such writes do not deadlock
  return query.for ? query.for('update') : query
}

function boundTo({ sealed, columns }: KnownTable, row: Row): SQL | undefined {
  return and(...sealed.bind.map((key) => eq(columns[key] as Column, row[key])))
}

function targetsOf(known: KnownTable, { target }: ConflictUpdate): string[] {
  return [target].flat().map((column) => known.keyOf(column))
}

function needsConflict(known: KnownTable, conflict: ConflictUpdate): boolean {
  const { sealed } = known
  const targets = targetsOf(known, conflict)
  if (targets.some((key) => sealed.isSealed(key))) return true
  const set = Object.entries(withUpdates(known, conflict.set)).map(([key, value]) => {
    return [key, isExcluded(known, key, value) ? '' : value] as const
  })
  const isSame = tellsRow(sealed, targets) && isFoundBySpelling(known)
  return !isSame && sealed.needsRow(Object.fromEntries(set), {})
}

async function upsertFound(written: Written, calls: readonly Call[], conflict: ConflictUpdate): Promise<unknown> {
  const { known } = written
  const targets = targetsOf(known, conflict)
  const given = rowsIn(calls.find(([name]) => name === 'values')?.[1][0])
  const conflicts = calls.flatMap(([name]) => (name.startsWith('onConflict') ? name : []))
  const other = conflict.targetWhere ? 'targetWhere' : conflicts.length > 1 ? `a second ${conflicts[1]}` : undefined
  if (other !== undefined) refuseCall(`${other} of an upsert whose row must be read before`, 'Leave it out.')
  const upserts = given.map(async (one) => {
    const row = withSpellings(known, withDefaults(known, one))
    return { row, target: await known.sealed.findTarget(row, targets) }
  })
  const columnsOf = (target: Row) => Object.keys(target).map((key) => known.columns[key] as Column)
  const kept = calls.filter(([name]) => name === 'overridingSystemValue')
  const returning = calls.filter(([name]) => name === 'returning')
  const results = await upsertEach(known.sealed, await Promise.all(upserts), {
    targets,
    countOf: findCount,
    async find({ target }) {
      const condition = and(...columnsOf(target).map((column) => eq(column, target[known.keyOf(column)])))
      return (await findRows(written, condition))[0]
    },
    change({ row }, found) {
      const where = and(boundTo(known, found), (conflict.setWhere ?? conflict.where) as SQL | undefined)
      const set = Object.fromEntries(Object.entries(conflict.set).map((one) => [one[0], ofRow(known, row, one)]))
      return runWrite({ ...written, method: 'update' }, [['set', [set]], ['where', [where]], ...returning], [found])
    },
    async insert({ row, target }) {
      const skip: Call = ['onConflictDoNothing', [{ target: columnsOf(target) }]]
      const result = await runWrite(written, [...kept, ['values', [row]], skip, ...returning])
      return changedRows(result) > 0 ? result : undefined
    },
  })
  return mergeResults(results)
}

/** Returns a value to set; `excluded.…` becomes the value of the row to insert. */
function ofRow(known: KnownTable, row: Row, [key, value]: [string, unknown]): unknown {
  if (!isExcluded(known, key, value)) return value
  if (row[key] !== undefined || known.sealed.columns.includes(key)) return row[key] ?? null
  if (!known.columns[key]?.columnType.startsWith('SQLite')) return sql`default`
  const call = `excluded.${key} in an upsert whose row must be read before, of a row without ${key},`
  return refuseCall(call, 'Give its value in the row, or leave the column out of what the upsert sets.')
}
