// All rows of an installation as lines of JSON, read in one snapshot, and a database filled from such lines: for
// backups and moves. First comes a header. For each table follow its columns and, for each row, an array of texts as
// PostgreSQL writes them. Last come the number of rows of each table and the SHA-256 of all lines before.
import { createHash } from 'node:crypto'
import { splitLines } from '@eaas/audit/formats'
import { encodeHex, readJson } from '@eaas/protocol'
import { assertInserted, exists, type Queryable, type Sql, type Transaction } from '../../core/store/db.js'
import { GRANTED_TABLES } from '../../core/store/grants.js'
import { findSchemaVersion, makeTables } from '../../core/store/migrations.js'

/** Other tables refer to the first one. The header has the version of the schema. */
const TABLES = ['store_keys', ...GRANTED_TABLES.filter((name) => name !== 'store_keys' && name !== 'schema_version')]

const FORMAT = 1
const PAGE_ROWS = 500
const PAGE_LENGTH = 4 * 1_048_576 // rows are collected up to about this many characters, then inserted

/** No restore could read a longer row. Those of a server are shorter than a hundredth of this. */
const MOST_LINE_LENGTH = 4 * 1_048_576

export interface RowsHeader {
  format: 1
  schema: number // the schema of the rows
  version: string // of the server that read them
  created_at: string // the time of the snapshot, by the database's clock
}

export type RowCounts = Record<string, number>

export interface WrittenRows {
  header: RowsHeader
  counts: RowCounts
  /** the columns of the lines that the schema lacks, each with its table; their values are dropped */
  leftOut: string[]
}

export function countAll(counts: RowCounts): number {
  return Object.values(counts).reduce((sum, rows) => sum + rows, 0)
}

/** Thrown if lines are not as they were written; nothing that was read is used then. */
export class RowsError extends Error {
  override readonly name = 'RowsError'
}

export class UsedDatabaseError extends Error {
  override readonly name = 'UsedDatabaseError'
}

/** Reads all rows in one snapshot, during which the embedded database serves no other client. @throws RowsError */
export async function* readAllRows(
  sql: Sql,
  { version, onRows }: { version: string; onRows?: (rows: number) => void },
): AsyncGenerator<string, { header: RowsHeader; counts: RowCounts }> {
  const session = await sql.reserve()
  const hash = createHash('sha256')
  const counts: RowCounts = {}
  let rows = 0
  const hashed = (text: string) => {
    hash.update(text)
    return text
  }
  try {
    const tables = await beginSnapshot(session)
    // Row security would silently drop rows; with this setting, that is an error.
    await session`
      select pg_catalog.set_config(name, value, true) from (values
        ('statement_timeout', '0'), ('idle_in_transaction_session_timeout', '0'), ('row_security', 'off'),
        ('DateStyle', 'ISO, MDY'), ('TimeZone', 'UTC'), ('bytea_output', 'hex')) as s (name, value)`
    const header = await readHeader(session, version)
    yield hashed(`${JSON.stringify(header)}\n`)
    for (const table of tables) {
      const columns = await listColumns(session, table)
      yield hashed(`${JSON.stringify({ table, columns })}\n`)
      counts[table] = 0
      for await (const lines of readTable(session, table, columns)) {
        counts[table] += lines.length
        rows += lines.length
        onRows?.(rows)
        yield hashed(`${lines.join('\n')}\n`)
      }
    }
    yield `${JSON.stringify({ rows: counts, sha256: encodeHex(hash.digest()) })}\n`
    return { header, counts }
  } finally {
    await session`rollback`.catch(() => undefined)
    session.release()
  }
}

/** Returns the tables of which the snapshot has all rows. */
async function beginSnapshot(session: Queryable): Promise<string[]> {
  for (;;) {
    const tables = await listTables(session)
    await session`begin isolation level repeatable read read only`
    // Locks them before the first query, which takes the snapshot: that would lack the rows of a table that is rewritten later.
    if (tables.length > 0) await session`lock table ${session(tables)} in access share mode`.simple()
    if ((await listTables(session)).join() === tables.join()) return tables
    await session`rollback`
  }
}

async function readHeader(sql: Queryable, version: string): Promise<RowsHeader> {
  const [row] = await sql<{ has_instance: boolean; now: string }[]>`
    select pg_catalog.to_regclass('instance') is not null as has_instance, pg_catalog.clock_timestamp() as now`
  const schema = await findSchemaVersion(sql)
  if (!row?.has_instance || schema === 0) throw new RowsError('There is no installation in this database yet.')
  return { format: FORMAT, schema, version, created_at: new Date(row.now).toISOString() }
}

async function listTables(sql: Queryable): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select name from pg_catalog.unnest(${TABLES}::text[]) as t (name) where pg_catalog.to_regclass(name) is not null`
  const found = new Set(rows.map(({ name }) => name))
  return TABLES.filter((name) => found.has(name))
}

export async function listColumns(sql: Queryable, table: string): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select attname as name from pg_catalog.pg_attribute
    where attrelid = pg_catalog.to_regclass(${table})::oid and attnum > 0 and not attisdropped and attgenerated = ''
    order by attnum`
  return rows.map(({ name }) => name)
}

async function* readTable(sql: Queryable, table: string, columns: readonly string[]): AsyncGenerator<string[]> {
  const [first = '', ...others] = columns
  const texts = others.reduce((all, name) => sql`${all}, ${sql(name)}::text`, sql`${sql(first)}::text`)
  await sql`declare eaas_rows no scroll cursor for
    select pg_catalog.json_build_array(${texts})::text as line from ${sql(table)}`
  for (;;) {
    const rows = await sql<{ line: string }[]>`fetch 500 from eaas_rows`.simple()
    if (rows.some(({ line }) => line.length > MOST_LINE_LENGTH))
      throw new RowsError(
        `A row of ${table} is longer than ${MOST_LINE_LENGTH} characters, which no restore reads and no server writes. Look for it, or for a column that was added.`,
      )
    if (rows.length > 0) yield rows.map(({ line }) => line)
    if (rows.length < PAGE_ROWS) break
  }
  await sql`close eaas_rows`
}

interface WriteOptions {
  directory: URL
  /** called in the transaction once every row is inserted; if it throws, the database stays empty */
  check: (transaction: Transaction) => Promise<void>
  onRows?: (rows: number) => void
}

/** Fills an empty database in one transaction. @throws RowsError, UsedDatabaseError, SchemaVersionError */
export async function writeAllRows(
  sql: Sql,
  chunks: AsyncIterable<Uint8Array>,
  { directory, check, onRows }: WriteOptions,
): Promise<WrittenRows> {
  const lines = readLines(chunks)
  const first = await lines.next()
  const header = asHeader(first.done ? undefined : first.value.value)
  return sql.begin(async (transaction) => {
    await transaction`
      select pg_catalog.set_config('statement_timeout', '0', true),
             pg_catalog.set_config('idle_in_transaction_session_timeout', '0', true)`
    await makeEmpty(transaction)
    await makeTables(transaction, directory, header.schema)
    const { counts, leftOut } = await insertAll(transaction, lines, onRows)
    await assertCounts(transaction, counts)
    await check(transaction)
    return { header, counts, leftOut }
  })
}

export async function isEmptyDatabase(sql: Queryable): Promise<boolean> {
  return (await listTables(sql)).length === 0 && (await findSchemaVersion(sql)) === 0
}

// Drops empty tables of a new embedded database or a failed first start, since the lines may be of another schema.
// @throws UsedDatabaseError if there is a row
async function makeEmpty(sql: Transaction): Promise<void> {
  if (await isEmptyDatabase(sql)) return
  const tables = await listTables(sql)
  if (tables.length > 0) await sql`lock table ${sql(tables)} in access exclusive mode`.simple()
  const isUsed = await Promise.all(tables.map((table) => exists(sql, sql`select from ${sql(table)}`)))
  if (tables.length === 0 || isUsed.includes(true))
    throw new UsedDatabaseError(
      'This database has rows of eaas already, and nothing was changed. Rows are written into an empty database only: create another one, and run neither eaas migrate nor a server on it first.',
    )
  await sql`drop table if exists schema_version, ${sql(tables)}`.simple()
}

interface Line {
  value: unknown
  before: () => string // computes the SHA-256 of all lines before; call it before taking the next line
}

async function* readLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Line> {
  const hash = createHash('sha256')
  for await (const text of splitLines(chunks)) {
    yield { value: parse(text), before: () => encodeHex(hash.copy().digest()) }
    hash.update(`${text}\n`)
  }
}

function parse(text: string): unknown {
  const value = readJson(text)
  if (value !== undefined) return value
  throw new RowsError('A line is not JSON: this is no backup, or it was changed or cut short.')
}

function asHeader(value: unknown): RowsHeader {
  const { format, schema, version, created_at } = (value ?? {}) as Partial<RowsHeader>
  const isHeader = Number.isSafeInteger(schema) && typeof version === 'string' && typeof created_at === 'string'
  if (!isHeader || format === undefined) throw new RowsError('This is no backup of eaas.')
  if (format !== FORMAT) throw new RowsError(`This backup has format ${format}, and this version reads ${FORMAT} only.`)
  return { format, schema: schema as number, version, created_at }
}

/** Returns the numbers of rows, which the last line must match. */
async function insertAll(
  sql: Transaction,
  lines: AsyncGenerator<Line>,
  onRows: WriteOptions['onRows'],
): Promise<Omit<WrittenRows, 'header'>> {
  const leftOut: string[] = []
  const awaited = new Set(await listTables(sql))
  const counts: RowCounts = {}
  let rows = 0
  let page: Page | undefined
  const flush = async () => {
    if (page) await insertPage(sql, page)
  }
  for await (const { value, before } of lines) {
    if (Array.isArray(value)) {
      if (!page) throw new RowsError('A row stands before the name of its table.')
      page.rows.push(asRow(value, page.columns))
      page.length += value.reduce((length: number, text: string | null) => length + (text?.length ?? 0), 0)
      counts[page.table] = (counts[page.table] ?? 0) + 1
      rows += 1
      if (page.rows.length < PAGE_ROWS && page.length < PAGE_LENGTH) continue
      await flush()
      Object.assign(page, { rows: [], length: 0 })
      onRows?.(rows)
      continue
    }
    await flush()
    page = undefined
    const line = (value ?? {}) as { table?: unknown; columns?: unknown; rows?: unknown; sha256?: unknown }
    if (line.table === undefined) {
      if (line.sha256 !== before()) throw new RowsError('The SHA-256 of the backup is another one: it was changed.')
      if (JSON.stringify(line.rows) !== JSON.stringify(counts) || awaited.size > 0) {
        throw new RowsError('The backup lacks rows or tables that it names.')
      }
      if (!(await lines.next()).done) throw new RowsError('The backup goes on after its end.')
      return { counts, leftOut }
    }
    page = await beginTable(sql, line, awaited)
    const { table, columns, own } = page
    counts[table] = 0
    leftOut.push(...columns.filter((name) => !own.includes(name)).map((name) => `${table}.${name}`))
  }
  throw new RowsError('The backup was cut short.')
}

interface Page {
  table: string
  columns: string[] // the columns in the lines
  own: string[] // the columns in the schema, all of which are in the lines
  rows: Record<string, string | null>[]
  length: number
}

// Names come from the file, so no statement contains one: the new tables have their own names.
async function beginTable(
  sql: Transaction,
  { table, columns }: { table?: unknown; columns?: unknown },
  awaited: Set<string>,
): Promise<Page> {
  if (typeof table !== 'string' || !awaited.delete(table))
    throw new RowsError('The backup has a table twice, or one that its schema does not have.')
  const own = await listColumns(sql, table)
  const names: unknown[] = Array.isArray(columns) ? columns : []
  if (!isTexts(names) || new Set(names).size < names.length || !own.every((name) => names.includes(name)))
    throw new RowsError(`The backup does not have every column of ${table} once.`)
  return { table, columns: names, own, rows: [], length: 0 }
}

function isTexts(values: readonly unknown[]): values is string[] {
  return values.every((value) => typeof value === 'string')
}

function asRow(values: readonly unknown[], columns: readonly string[]): Record<string, string | null> {
  const isRow = values.length === columns.length && values.every((each) => each === null || typeof each === 'string')
  if (!isRow) throw new RowsError('A row of the backup does not have the columns of its table.')
  return Object.fromEntries(columns.map((name, at) => [name, values[at] as string | null]))
}

// The database reads each text by the type of its column, and drops values of other columns.
async function insertPage(sql: Transaction, { table, own, rows }: Page): Promise<void> {
  if (rows.length === 0) return
  const result = await sql`
    insert into ${sql(table)} (${sql(own)})
    select ${sql(own)} from pg_catalog.json_populate_recordset(null::${sql(table)}, ${JSON.stringify(rows)}::text::json)`
  assertInserted(result, table, rows.length)
}

/** A trigger may have dropped or doubled rows. */
async function assertCounts(sql: Transaction, counts: RowCounts): Promise<void> {
  for (const [table, rows] of Object.entries(counts)) {
    const [row] = await sql<{ count: number }[]>`select pg_catalog.count(*) as count from ${sql(table)}`
    if (row?.count !== rows)
      throw new RowsError(`The number of rows of ${table} is ${row?.count} now, and not ${rows}.`)
  }
}

/** Whether `sql` has the last entry of every log in `from`, and so is the same installation in the same or a later state. */
export async function continues(sql: Sql, from: Sql): Promise<boolean> {
  const heads = await from<{ tenant_id: string; last_id: number; hash: Uint8Array }[]>`
    select tenant_id, last_id, hash from heads where last_id > 0 order by tenant_id`
  for (let at = 0; at < heads.length; at += PAGE_ROWS) {
    const page = heads.slice(at, at + PAGE_ROWS)
    const [row] = await sql<{ found: number }[]>`
      select pg_catalog.count(*) as found
      from unnest(${page.map(({ tenant_id }) => tenant_id)}::uuid[], ${page.map(({ last_id }) => String(last_id))}::bigint[],
                  ${page.map(({ hash }) => encodeHex(hash))}::text[]) as h (tenant_id, last_id, hash)
      join audit_log as e on e.tenant_id = h.tenant_id and e.id = h.last_id
      where pg_catalog.encode(e.hash, 'hex') = h.hash`
    if (row?.found !== page.length) return false
  }
  return heads.length > 0
}

/** Notes when a backup was taken, unless a newer one is noted. Replaces a noted time in the future, which is wrong. */
export async function noteBackup(sql: Queryable, takenAt: string): Promise<void> {
  await sql`
    update instance set backed_up_at = ${takenAt} where id = 1 and (backed_up_at is null
      or backed_up_at not between ${takenAt} and pg_catalog.statement_timestamp())`
}
