/** Which tables a query of Kysely can name, and which encrypted column a name in it stands for. */
import { refuseCall } from '../refusals.js'
import type { SealedTable } from '../table.js'
import { columnName, type Node, qualifierOf } from './nodes.js'
import { assertSpelling } from './tables.js'

/** One occurrence of such a table in a query. */
export interface Instance {
  table: SealedTable
}

/** A column of such a table. */
export interface Source {
  instance: Instance
  column: string
}

/** What one member of a result is. */
export type Output =
  | { name: string; source: Source }
  /** JSON of a query inside the selection. */
  | { name: string; inner: readonly Output[] }
  /** All columns of a table. */
  | { all: Instance }

/** A table, or the result of a query, under its name in another query. */
export interface Relation {
  find(column: string): Source | undefined
  outputs: readonly Output[]
}

/** The relations that a query can name: its own, then those around it. `undefined` stands for one without encrypted columns. */
export interface Scope {
  own: Map<string, Relation | undefined>
  /** Common table expressions, which may be named where a table may. */
  named: Map<string, Relation | undefined>
  outer: Scope | undefined
}

export function openScope(outer: Scope | undefined): Scope {
  return { own: new Map(), named: new Map(outer?.named), outer }
}

export function tableRelation(table: SealedTable): Relation {
  const instance = { table }
  return {
    outputs: [{ all: instance }],
    find(column) {
      assertSpelling(table, column)
      return { instance, column }
    },
  }
}

/** The result of a query as a relation. */
export function queryRelation(outputs: readonly Output[]): Relation | undefined {
  if (outputs.length === 0) return undefined
  return {
    outputs,
    find(column) {
      for (const output of outputs) {
        if ('all' in output) return { instance: output.all, column }
        if (output.name === column && 'source' in output) return output.source
      }
      return undefined
    },
  }
}

/** Finds the relation of a name. */
export function findRelation(scope: Scope, name: string): Relation | undefined {
  for (let at: Scope | undefined = scope; at; at = at.outer) if (at.own.has(name)) return at.own.get(name)
  return undefined
}

/** Finds what a column is of; undefined where it is of no table with encrypted columns. @throws InvalidInputError where that is not clear */
export function findSource(scope: Scope, node: Node): Source | undefined {
  const column = columnName(node)
  if (column === undefined) return undefined
  const table = qualifierOf(node)
  if (table !== undefined) return findRelation(scope, table)?.find(column)
  let isUnclear = false
  for (let at: Scope | undefined = scope; at; at = at.outer) {
    const relations = [...at.own.values()]
    const found = relations
      .flatMap((relation) => relation?.find(column) ?? [])
      .filter((one) => one.instance.table.columns.includes(one.column))
    const source = found.find(isSealed) ?? found[0]
    if (source && isUnclear && isSealed(source)) {
      const hint = 'Write it with the name of its table in front.'
      refuseCall(`the column ${JSON.stringify(column)} without its table`, hint)
    }
    if (source) return source
    isUnclear ||= relations.includes(undefined) // this table may have such a column, which then hides those around it
  }
  return undefined
}

export function isSealed({ instance, column }: Source): boolean {
  return instance.table.isSealed(column)
}

/** Lists the encrypted columns of a result, by the names that they have there. */
export function sealedColumns(outputs: readonly Output[]): { name: string; source: Source }[] {
  return outputs.flatMap((output) => {
    if ('inner' in output) return []
    if ('source' in output) return isSealed(output.source) ? [output] : []
    const { all } = output
    const names = all.table.columns.filter((column) => all.table.isSealed(column))
    return names.map((column) => ({ name: column, source: { instance: all, column } }))
  })
}
