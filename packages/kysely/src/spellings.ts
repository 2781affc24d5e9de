/**
 * How the database spells the values by which it finds rows. It finds a UUID or a number in any spelling but returns
 * it in one: a value sealed to another spelling would never open again.
 */

import {
  assertWritable,
  type IdMaker,
  inBatches,
  isPlainSpelling,
  type MadeIds,
  type Row,
  refuseSpelling,
  type SealedTable,
} from '@eaas/sdk/adapter'
import { ColumnNode, OrNode, ParensNode, RawNode, SelectionNode, SelectQueryNode, ValueNode, WhereNode } from 'kysely'
import {
  type ColumnType,
  type ColumnTypes,
  isExact,
  pathOf,
  type Run,
  readColumnTypes,
  readTextColumns,
  spellFor,
} from './column-types.js'
import { equal } from './many-rows.js'
import type { Node } from './nodes.js'

const HINT = 'Pass it as it was read. Bind values to a column of uuid, whole numbers or text.'

/** A table with a model, and its node in a query. */
export interface Named {
  table: SealedTable
  node: Node
}

export interface Spellings {
  /** Whether a backslash escapes the wildcards of `like`. */
  readonly escapes: boolean
  /** Call it before a write. @throws InvalidInputError if a trigger would change what is written */
  assertNoTriggers(of: Named): Promise<void>
  /** Makes the ids that PostgreSQL would make for rows to insert, if values are bound to them. */
  makeIds(of: Named, rows: readonly Row[]): Promise<MadeIds>
  /** Spells rows to insert as the database will return them. @throws InvalidInputError if that is unknown */
  spell(of: Named, rows: readonly Row[]): Promise<Row[]>
  /** Returns sealed values as the driver takes them: those of MySQL write an object as `[object Object]`. */
  storable(table: SealedTable, sealed: Row): Row
  /**
   * Spells the values that an update gives for its row, in the columns of `bind`; reads the row if the type does not
   * determine the spelling.
   */
  spellBound(of: Named, bound: Row): Promise<Row>
  /** Refuses rows to upsert if the database has one of them in another spelling. @throws InvalidInputError */
  assertStored(of: Named, rows: readonly Row[]): Promise<void>
}

/** What the adapter knows of a database. */
export interface Database {
  isPostgres: boolean
  isSqlite: boolean
  /** It returns UUIDs in upper case. */
  isSqlServer: boolean
  isMysql: boolean
  /** The types that were already read, by table. */
  known: Map<string, ColumnTypes>
  ids: IdMaker
}

/** @param run runs a query on the connection of the rewritten one, before it */
export function createSpellings(
  { isPostgres, isSqlite, isSqlServer, isMysql, known, ids }: Database,
  run: Run,
): Spellings {
  const runText = (sql: string) => run(RawNode.create([sql], []) as unknown as Node)
  const typesOf = async ({ table, node }: Named): Promise<ColumnTypes> => {
    const read = isPostgres ? readColumnTypes : isSqlite ? readTextColumns : undefined
    if (!read || table.bind.length === 0) return new Map()
    const name = pathOf(tableOf(node))
    const types = known.get(name) ?? (await read(run, tableOf(node)))
    if (types.size > 0) known.set(name, types) // a missing table may be created later
    return types
  }
  const spellOne = (type: ColumnType | undefined, value: string | number | bigint) => {
    if (type) return spellFor(type, value)
    return isPlainSpelling(value, isSqlServer) ? value : undefined
  }
  const spellRow = ({ table }: Named, types: ColumnTypes, row: Row): Row => {
    const spelled = columnsOf(table, row).map((column) => {
      const value = row[column]
      if (!isText(value)) return [column, value]
      return [column, spellOne(types.get(column), value) ?? refuseSpelling(table.name, column, HINT)]
    })
    return { ...row, ...Object.fromEntries(spelled) }
  }
  const readStored = async ({ table, node }: Named, rows: readonly Row[]) => {
    const found: Row[] = []
    for (const some of inBatches(rows)) found.push(...(await run(selectOf(node, table.bind, some))))
    return found
  }

  return {
    escapes: isPostgres || isMysql,
    async assertNoTriggers({ table, node }) {
      if (isPostgres) await assertWritable(runText, table, { table: pathOf(tableOf(node)) })
    },
    async makeIds({ table, node }, rows) {
      // A member of a JSON column is given with the column.
      const own = table.bind.filter((column) => table.columns.includes(column))
      const columns = own.filter((column) => rows.some((row) => row[column] === undefined))
      if (!isPostgres || columns.length === 0) return { rows: [], isAlways: false }
      const made = await ids.make(runText, pathOf(tableOf(node)), { columns, count: rows.length })
      const given = (at: number) => Object.entries(rows[at] ?? {}).filter(([column]) => columns.includes(column))
      return {
        ...made,
        rows: made.rows.map((row, at) => {
          const known = new Set(given(at).flatMap(([column, value]) => (value === undefined ? [] : [column])))
          return Object.fromEntries(Object.entries(row).filter(([column]) => !known.has(column)))
        }),
      }
    },
    async spell(of, rows) {
      const types = await typesOf(of)
      return rows.map((row) => spellRow(of, types, row))
    },
    storable({ stored }, sealed) {
      if (!isMysql) return sealed
      const json = stored.filter(({ column, holds }) => holds === 'json' && (sealed[column] ?? null) !== null)
      return { ...sealed, ...Object.fromEntries(json.map(({ column }) => [column, JSON.stringify(sealed[column])])) }
    },
    async spellBound(of, bound) {
      const columns = columnsOf(of.table, bound)
      if (columns.length < of.table.bind.length) return bound // refused, or bound to a member of a column
      const types = await typesOf(of)
      if (columns.every((column) => isExact(types.get(column)))) return spellRow(of, types, bound)
      const [stored, other] = await readStored(of, [bound])
      if (other) refuseSpelling(of.table.name, columns[0] ?? '', HINT)
      return { ...bound, ...stored }
    },
    async assertStored(of, rows) {
      const { table } = of
      const types = await typesOf(of)
      if (table.bind.every((column) => isExact(types.get(column)))) return
      const given = new Set(rows.map((row) => textOf(table, row)))
      for (const row of await readStored(of, rows)) {
        if (!given.has(textOf(table, row))) refuseSpelling(table.name, table.bind[0] ?? '', HINT)
      }
    },
  }
}

function tableOf(node: Node): Node {
  return node.kind === 'AliasNode' ? (node.node as Node) : node
}

/** Lists the columns of `bind` that a row has. A member of a JSON column is stored unchanged. */
function columnsOf({ bind }: SealedTable, row: Row): string[] {
  return bind.filter((column) => row[column] !== undefined)
}

function textOf({ bind }: SealedTable, row: Row): string {
  return JSON.stringify(bind.map((column) => String(row[column])))
}

function isText(value: unknown): value is string | number | bigint {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'bigint'
}

/** Selects the columns of `bind` of rows, as the database spells them. */
function selectOf(node: Node, bind: readonly string[], rows: readonly Row[]): Node {
  const conditions = rows.map((row) => {
    const pairs = bind.map((column) => [ColumnNode.create(column), ValueNode.create(row[column])] as const)
    return ParensNode.create(equal(pairs) as never)
  })
  const any = conditions.reduce<ParensNode | OrNode | undefined>(
    (all, one) => (all ? OrNode.create(all, one) : one),
    undefined,
  )
  const select = SelectQueryNode.cloneWithSelections(
    SelectQueryNode.createFrom([node]),
    bind.map((column) => SelectionNode.create(ColumnNode.create(column) as never)),
  )
  return { ...select, where: WhereNode.create(any as never) } as unknown as Node
}
