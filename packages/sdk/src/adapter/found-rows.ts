/**
 * Writes whose statement does not determine the rows that their values are bound to. One transaction finds and locks
 * these rows, and changes each with values sealed to it. This file orders the steps, and an adapter supplies them.
 */
import { InvalidInputError, isEaasError } from '../errors.js'
import { isMissing, type Row } from '../input.js'
import { rememberCaller } from '../waiting.js'
import { refuseCall } from './refusals.js'
import type { SealedTable } from './sealed-table.js'

/** `Result` is what the adapter's statements return. */
export interface Change<Result> {
  change(rows: readonly Row[]): Promise<Result>
  /** How many rows a statement changed; undefined or null if the driver does not report it. */
  countOf(result: Result): number | bigint | null | undefined
  takesMany: boolean
}

/** Changes rows that were found. @throws InvalidInputError if a statement also changed others: roll it back */
export async function changeFound<Result>(
  table: SealedTable,
  rows: readonly Row[],
  { change, countOf, takesMany }: Change<Result>,
): Promise<Result[]> {
  const results: Result[] = []
  for (const some of takesMany ? inBatches(rows) : rows.map((row) => [row])) {
    const result = await change(some)
    assertOnlyFound(table, some.length, countOf(result))
    results.push(result)
  }
  return results
}

/** How a write of several statements on a connection begins, is kept, and is undone. */
export type Bracket<C> = Record<'begin' | 'keep' | 'takeBack', (connection: C) => Promise<unknown>>

/** A savepoint, with which such a write can be undone within the application's transaction. */
export function savepoint<C>(run: (connection: C, sql: string) => Promise<unknown>): Bracket<C> {
  return {
    begin: (connection) => run(connection, 'savepoint eaas_write'),
    keep: (connection) => run(connection, 'release savepoint eaas_write'),
    takeBack: (connection) => run(connection, 'rollback to savepoint eaas_write'),
  }
}

/** Runs such a write. If it fails, nothing of it is stored. */
export async function bracketed<C, T>(
  { begin, keep, takeBack }: Bracket<C>,
  connection: C,
  run: () => Promise<T>,
): Promise<T> {
  await begin(connection)
  try {
    const result = await run()
    await keep(connection)
    return result
  } catch (error) {
    // Fails where the database has already ended the transaction, as MySQL does after a deadlock: `error` says why.
    await takeBack(connection).catch(() => undefined)
    throw error
  }
}

export interface Upserting<Upsert, Result> extends Pick<Change<Result>, 'countOf'> {
  /** The columns in which a new row conflicts with the existing one. */
  targets: readonly string[]
  find(upsert: Upsert): Promise<Row | undefined>
  change(upsert: Upsert, found: Row): Promise<Result>
  /** Returns undefined if it conflicts with a row that was not found. */
  insert(upsert: Upsert): Promise<Result | undefined>
}

/**
 * Opens what a statement returned. If it wrote, and no `bracketed` undoes that, an error says so, and says not to
 * repeat the call, which would write again.
 */
export async function openReturned<T>(wrote: boolean | 'perhaps', open: () => Promise<T>): Promise<T> {
  try {
    return await open()
  } catch (error) {
    if (!wrote || !isEaasError(error)) throw error
    const hint = `Do not repeat the write: read the rows again. A transaction that the error leaves rolls it back. ${error.hint}`
    const written = wrote === 'perhaps' ? 'rows may have been written' : 'the rows were written'
    const message = `${written}, but could not be decrypted: ${error.message}`
    throw Object.assign(rememberCaller()(error) as object, { message, hint, retryable: false }) // a copy: reads may share the error
  }
}

const UPSERT_ATTEMPTS = 5

/**
 * Changes the rows that exist, and inserts the others. Finds all rows first, in the order of the values that find them
 * (from `findTarget`), so that of two upserts of the same rows one waits for the other. @throws InvalidInputError if a
 * row was neither found nor inserted, or others were also changed: roll it back
 */
export async function upsertEach<Upsert extends { target: Row }, Result>(
  table: SealedTable,
  upserts: readonly Upsert[],
  by: Upserting<Upsert, Result>,
): Promise<Result[]> {
  const upsertOne = async (upsert: Upsert, existing: Row | undefined): Promise<Result> => {
    let found = existing
    for (let attempt = 0; attempt < UPSERT_ATTEMPTS; attempt++) {
      if (found) {
        const changed = await by.change(upsert, found)
        assertOnlyFound(table, 1, by.countOf(changed))
        return changed
      }
      const inserted = await by.insert(upsert)
      if (inserted !== undefined) return inserted
      // Another transaction inserted the row after the search. The insert waited for its commit, so the row is found now.
      found = await by.find(upsert)
    }
    throw new InvalidInputError(
      `${table.name}: a row of ${by.targets.join(', ')} was neither found nor inserted, in ${UPSERT_ATTEMPTS} attempts`,
      'Others insert and delete it meanwhile, or a trigger leaves it out. Try again.',
    )
  }
  const keyed = upserts.map(({ target }, at) => ({ at, key: Object.values(target).map(String).join('\n') }))
  const existing: (Row | undefined)[] = []
  for (const { at } of keyed.sort((one, other) => (one.key < other.key ? -1 : Number(one.key > other.key)))) {
    existing[at] = await by.find(upserts[at] as Upsert)
  }
  const results: Result[] = []
  for (const [at, upsert] of upserts.entries()) results.push(await upsertOne(upsert, existing[at]))
  return results
}

const MOST_ROWS = 1_000

/** Divides rows into batches of one statement each. */
export function inBatches<T>(rows: readonly T[]): T[][] {
  return Array.from({ length: Math.ceil(rows.length / MOST_ROWS) }, (_, at) =>
    rows.slice(at * MOST_ROWS, (at + 1) * MOST_ROWS),
  )
}

/** Called before rows are read for a write. Refuses rows whose values are bound to no column that could find them again. */
export function assertFoundAgain({ name, bind }: SealedTable): void {
  if (bind.length > 0) return
  throw new InvalidInputError(
    `${name}: this write must read its rows before, and \`bind: false\` leaves no column by which they are found again`,
    'Name the column of the key in its condition, or bind values to the id.',
  )
}

/** Refuses an update that changed more rows than were read for it. The caller rolls its transaction back. */
export function assertOnlyFound(
  { name, bind }: SealedTable,
  found: number,
  changed: number | bigint | null | undefined,
): void {
  if (isMissing(changed) || changed <= found) return
  const columns = bind.join(', ')
  throw new InvalidInputError(
    `${name}: ${changed} rows, and not ${found}, have the values of ${columns} by which the update found its rows`,
    `Name ${columns} in its condition too, or bind values to columns that identify a row. Roll a transaction of your own back.`,
  )
}

/** What an upsert may change. It is sure to find the row that it would insert only if it conflicts in the columns of `bind`. */
export interface Conflict {
  /** The changed row's known values in the columns of the conflict. */
  bound: Row
  /** Adds what is made together with `columns`. @throws InvalidInputError unless row and key are surely the same, and complete */
  excluded(columns: readonly string[]): readonly string[]
}

/** Whether the columns of the conflict determine which row an upsert changes, and its key. */
export function tellsRow(table: SealedTable, targets: readonly string[]): boolean {
  const tellsKey = !table.keyByRow || targets.some((column) => !table.columns.includes(column))
  return table.bind.every((column) => targets.includes(column)) && tellsKey
}

/** @param targets the columns of the conflict @param rows the rows to insert */
export function readConflict(table: SealedTable, targets: readonly string[], rows: readonly Row[]): Conflict {
  const isSameRow = table.bind.every((column) => targets.includes(column))
  const known = rows.map((row) => Object.fromEntries(targets.map((column) => [column, row[column]])))
  const [only = {}, ...others] = known
  return {
    bound: isSameRow && others.length === 0 ? only : {},
    excluded(columns) {
      if (columns.length === 0) return []
      if (isSameRow && !known.every((row) => table.tellsKey(row))) {
        const hint = "Name the key's column in its target too, or update the row."
        return refuseCall(`an upsert by ${targets.join(', ')}, which does not tell the key of the row,`, hint)
      }
      if (isSameRow) return table.withMade(columns)
      const hint = `Its target must be ${table.bind.join(', ')}: values are bound to it.`
      return refuseCall(`an upsert by ${targets.join(', ') || 'a constraint'}`, hint)
    },
  }
}
