/** How the database generates, spells and stores the values that it finds rows by, from the types of their columns. */
import {
  AS_READ,
  assertWritable,
  type IdMaker,
  inBatches,
  isPlainSpelling,
  type MadeIds,
  makeLacking,
  quoteName,
  type Row,
  refuseSpelling,
  type SealedTable,
  spellAs,
  spellRow,
} from '@eaas/sdk/adapter'
import { OrNode } from 'kysely'
import {
  columnNode,
  equal,
  inParentheses,
  type Node,
  rawNode,
  selectionNode,
  selectNode,
  unaliased,
  valueNode,
  whereNode,
} from './nodes.js'

export type Named = { table: SealedTable; node: Node }

export type Spellings = ReturnType<typeof createSpellings>

export interface Database {
  kind: 'postgres' | 'mysql' | 'sqlite' | 'sqlServer' | undefined
  known: Map<string, ColumnTypes>
  ids: IdMaker
}

/** @param run runs a query on the same connection, before the rewritten one */
export function createSpellings({ kind, known, ids }: Database, run: Run) {
  const runText = (sql: string) => run(rawNode([sql]))
  const typesOf = async ({ table, node }: Named): Promise<ColumnTypes> => {
    const read = kind === 'postgres' ? readColumnTypes : kind === 'sqlite' ? readTextColumns : undefined
    if (!read || table.bind.length === 0) return new Map()
    const name = pathOf(node)
    const types = known.get(name) ?? (await read(run, node))
    if (types.size > 0) known.set(name, types) // a missing table may be created later
    return types
  }
  const spellOne = ({ table }: Named, types: ColumnTypes, row: Row) =>
    spellRow(table, row, (column, value) => {
      const type = types.get(column)
      if (type) return spellFor(type, value)
      return isPlainSpelling(value, kind === 'sqlServer') ? value : undefined // SQL Server returns UUIDs in upper case
    })
  const readStored = async ({ table, node }: Named, rows: readonly Row[]) => {
    const found: Row[] = []
    for (const some of inBatches(rows)) found.push(...(await run(selectOf(node, table.bind, some))))
    return found
  }

  return {
    /** Whether a backslash escapes the wildcards of `like`. */
    escapes: kind === 'postgres' || kind === 'mysql',
    /** Call it before a write. @throws InvalidInputError if a trigger would change what is written */
    async assertNoTriggers({ table, node }: Named) {
      if (kind === 'postgres') await assertWritable(runText, table, { table: pathOf(node) })
    },
    /** Generates the ids that PostgreSQL would generate for rows to insert, if values are bound to them. */
    async makeIds({ table, node }: Named, rows: readonly Row[]): Promise<MadeIds> {
      if (kind !== 'postgres') return { rows: [], isAlways: false }
      // Others are members of a JSON column, and are given with it.
      const own = table.bind.filter((column) => table.columns.includes(column))
      const columns = own.map((column) => ({ name: column, column }))
      return makeLacking(ids, runText, { table: pathOf(node), columns, rows })
    },
    /** Spells rows to insert as the database will return them. @throws InvalidInputError if that is unknown */
    async spell(of: Named, rows: readonly Row[]) {
      const types = await typesOf(of)
      return rows.map((row) => spellOne(of, types, row))
    },
    /** Returns sealed values as the driver takes them: MySQL's drivers would write an object as `[object Object]`. */
    storable({ stored }: SealedTable, sealed: Row): Row {
      if (kind !== 'mysql') return sealed
      const json = stored.filter(({ column, holds }) => holds === 'json' && (sealed[column] ?? null) !== null)
      return { ...sealed, ...Object.fromEntries(json.map(({ column }) => [column, JSON.stringify(sealed[column])])) }
    },
    /** Spells the values of `bind` that an update gives for its row. Reads the row if its type does not tell the spelling. */
    async spellBound(of: Named, bound: Row): Promise<Row> {
      const { bind, name } = of.table
      if (bind.some((column) => bound[column] === undefined)) return bound // refused, or bound to a member of a column
      const types = await typesOf(of)
      if (bind.every((column) => isExact(types.get(column)))) return spellOne(of, types, bound)
      const [stored, other] = await readStored(of, [bound])
      if (other) refuseSpelling(name, bind[0] ?? '', AS_READ)
      return { ...bound, ...stored }
    },
    /** Refuses to upsert a row that the database has under another spelling. @throws InvalidInputError */
    async assertStored(of: Named, rows: readonly Row[]) {
      const { bind, name } = of.table
      const types = await typesOf(of)
      if (bind.every((column) => isExact(types.get(column)))) return
      const textOf = (row: Row) => JSON.stringify(bind.map((column) => String(row[column])))
      const given = new Set(rows.map(textOf))
      const stored = await readStored(of, rows)
      if (stored.some((row) => !given.has(textOf(row)))) refuseSpelling(name, bind[0] ?? '', AS_READ)
    },
  }
}

function selectOf(node: Node, bind: readonly string[], rows: readonly Row[]): Node {
  const conditions = rows.map((row) =>
    inParentheses(equal(bind.map((column) => [columnNode(column), valueNode(row[column])]))),
  )
  const any = conditions.reduce((all, one) => OrNode.create(all as never, one as never) as object as Node)
  return {
    ...selectNode(
      [node],
      bind.map((column) => selectionNode(columnNode(column))),
    ),
    where: whereNode(any),
  }
}

export type Run = (query: Node) => Promise<Row[]>

export interface ColumnType {
  /** The type, or a domain's base type, as PostgreSQL names it. */
  type: string
  /** `S` for text, `E` for an enum: the column `typcategory` of `pg_type`. */
  category: string
  /** Whether different values are never equal: false where a collation ignores case. */
  isDeterministic: boolean
}

export type ColumnTypes = ReadonlyMap<string, ColumnType>

const QUERY = `select a.attname as name, b.typcategory as category,
  coalesce(c.collisdeterministic, true) as is_deterministic,
  format_type(b.oid, case t.typbasetype when 0 then a.atttypmod else t.typtypmod end) as type
from pg_catalog.pg_attribute a
join pg_catalog.pg_type t on t.oid = a.atttypid
join pg_catalog.pg_type b on b.oid = case t.typbasetype when 0 then t.oid else t.typbasetype end
left join pg_catalog.pg_collation c on c.oid = a.attcollation
where a.attnum > 0 and not a.attisdropped and a.attrelid = to_regclass(`

async function readColumnTypes(run: Run, table: Node): Promise<ColumnTypes> {
  const rows = await run(rawNode([QUERY, ')'], [valueNode(pathOf(table))]))
  const types = rows as unknown as (Omit<ColumnType, 'isDeterministic'> & { name: string; is_deterministic: boolean })[]
  return new Map(
    types.map(({ name, is_deterministic: isDeterministic, ...type }) => [name, { ...type, isDeterministic }]),
  )
}

/** Selects the text columns of SQLite, the only ones whose type determines the spelling. It does not report collations. */
const QUERY_OF_SQLITE = `select name from pragma_table_info(`
const HOLD_TEXT = `) where type not like '%int%' and (type like '%char%' or type like '%clob%' or type like '%text%')`

async function readTextColumns(run: Run, table: Node): Promise<ColumnTypes> {
  const { schema, identifier } = namesIn(table)
  const names = [identifier, schema].flatMap((one) => (one ? valueNode(one.name) : []))
  const rows = await run(rawNode([QUERY_OF_SQLITE, ...names.slice(1).map(() => ', '), HOLD_TEXT], names))
  return new Map(rows.map(({ name }) => [String(name), { type: 'text', category: 'S', isDeterministic: false }]))
}

function namesIn(table: Node): Partial<Record<'schema' | 'identifier', { name: string }>> {
  return unaliased(table).table as object
}

export function pathOf(table: Node): string {
  const { schema, identifier } = namesIn(table)
  return identifier ? quoteName(identifier.name, schema?.name) : ''
}

const WHOLE = /^(smallint|integer|bigint|numeric(\(\d+,0\))?)$/
const EXACT_TEXT = /^(text|name|character( varying)?(\(\d+\))?)$/

/** Tells whether a column finds a value only in the spelling that `spellFor` returns. */
export function isExact(column: ColumnType | undefined): boolean {
  if (!column?.isDeterministic) return false
  return column.type === 'uuid' || WHOLE.test(column.type) || EXACT_TEXT.test(column.type) || column.category === 'E'
}

/** Spells a value as its column returns it, or returns undefined if that is unknown. */
export function spellFor(column: ColumnType, value: string | number | bigint) {
  const { type, category } = column
  return spellAs(WHOLE.test(type) ? 'bigint' : type, value, category === 'S' || category === 'E')
}
