/** Which tables a query of Kysely can name, and which encrypted column a name in it means. */
import { InvalidInputError } from '@eaas/sdk'
import { type NamedRelation, refuseCall, type SealedColumn, type SealedTable } from '@eaas/sdk/adapter'
import { columnName, type Node, qualifierOf, tableNames } from './nodes.js'

/** One occurrence of such a table in a query. */
export type Instance = { table: SealedTable }

export type Source = { instance: Instance; column: string }

export type Output =
  | { name: string; source: Source; isHidden?: boolean }
  /** JSON that an inner query makes. */
  | { name: string; inner: readonly Output[] }
  | { all: Instance }

export function instanceOf(output: Exclude<Output, { inner: readonly Output[] }>): Instance {
  return 'all' in output ? output.all : output.source.instance
}

/** A table, or the result of a query, under its name in another query. */
export interface Relation {
  find(column: string): Source | undefined
  outputs: readonly Output[]
}

/** The outputs of a common table expression; `later` if it can be named already but is defined further on. */
export type Named = readonly Output[] | 'later'

/** The relations that a query can name: its own, then those around it; `undefined` for one without encrypted columns. */
export interface Scope {
  own: Map<string, Relation | undefined>
  /** Common table expressions, which may be named where a table may. */
  named: Map<string, Named>
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

/** Makes a relation of a query's result. Each name gets its own instances, since it means other rows. */
export function queryRelation(result: readonly Output[]): Relation | undefined {
  if (result.length === 0) return undefined
  const outputs = withOwnInstances(result, new Map())
  const named = outputs.flatMap((output) => ('source' in output ? [output] : []))
  const whole = outputs.flatMap((output) => ('all' in output ? [output.all] : []))
  return {
    outputs,
    find(column) {
      const source = named.find(({ name }) => name === column)?.source
      if (source) return source
      const instance = whole.find(({ table }) => table.columns.includes(column)) ?? whole[0]
      if (instance) assertSpelling(instance.table, column)
      return instance && { instance, column }
    },
  }
}

function withOwnInstances(outputs: readonly Output[], copies: Map<Instance, Instance>): Output[] {
  const copyOf = (instance: Instance) => {
    const copy = copies.get(instance) ?? { ...instance }
    copies.set(instance, copy)
    return copy
  }
  return outputs.map((output) => {
    if ('all' in output) return { all: copyOf(output.all) }
    if ('inner' in output) return { ...output, inner: withOwnInstances(output.inner, copies) }
    return { ...output, source: { ...output.source, instance: copyOf(output.source.instance) } }
  })
}

export function findRelation(scope: Scope, name: string): Relation | undefined {
  for (let at: Scope | undefined = scope; at; at = at.outer) if (at.own.has(name)) return at.own.get(name)
  return undefined
}

/** Finds a column by the name that a relation of the query has for it; with an alias, only in that relation. */
export function findInScope(
  scope: Scope,
  { instance, column }: Source,
  qualifier?: string,
): { alias: string; column: string } | undefined {
  for (let at: Scope | undefined = scope; at; at = at.outer) {
    for (const [alias, relation] of at.own) {
      if (qualifier !== undefined && alias !== qualifier) continue
      for (const output of relation?.outputs ?? []) {
        if ('inner' in output || instanceOf(output) !== instance) continue
        if ('all' in output) return { alias, column }
        if (output.source.column === column) return { alias, column: output.name }
      }
    }
  }
  return undefined
}

/** Finds the table and column that a node names, if the table has a model. @throws InvalidInputError if that is unclear */
export function findSource(scope: Scope, node: Node): Source | undefined {
  const { column, table } = namedBy(node)
  if (column === undefined) return undefined
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
    isUnclear ||= relations.includes(undefined) // this table may have such a column, which would hide outer ones
  }
  return undefined
}

/** The column that a value names. The argument of `jsonAgg('email')` is a table node that names a column. */
function namedBy(node: Node): { column: string | undefined; table: string | undefined } {
  if (node.kind !== 'TableNode') return { column: columnName(node), table: qualifierOf(node) }
  const { schema } = node.table as { schema?: { name: string } }
  return { column: tableNames(node)?.table, table: schema?.name }
}

/** Finds the JSON of an inner query that a column of a relation holds. */
export function findInner(scope: Scope, node: Node): readonly Output[] | undefined {
  const { column, table } = namedBy(node)
  if (column === undefined) return undefined
  const relations: (Relation | undefined)[] = []
  if (table !== undefined) relations.push(findRelation(scope, table))
  else for (let at: Scope | undefined = scope; at; at = at.outer) relations.push(...at.own.values())
  for (const output of relations.flatMap((relation) => relation?.outputs ?? [])) {
    if ('inner' in output && output.name === column) return output.inner
  }
  return undefined
}

/** Refuses a table's name as a value, as in `to_json(users)`: it means all columns of a row. @throws InvalidInputError */
export function assertNoWholeRow(scope: Scope, node: Node): void {
  const isTable = node.kind === 'TableNode'
  const name = isTable ? tableNames(node)?.alias : qualifierOf(node) === undefined ? columnName(node) : undefined
  const relation = name === undefined ? undefined : findRelation(scope, name)
  const isColumn = relation?.outputs.some((one) => !('all' in one) && one.name === name)
  if (!relation || isColumn || sealedIn(relation.outputs).length === 0) return
  const source = isTable ? undefined : findSource(scope, node)
  if (source?.instance.table.columns.includes(source.column)) return
  refuseCall(`${JSON.stringify(name)} as a value, which is a whole row,`, 'Name the columns, with the table in front.')
}

export function isSealed({ instance, column }: Source): boolean {
  return instance.table.isSealed(column)
}

/** Lists the encrypted columns of a result, including those in JSON. */
export function sealedIn(outputs: readonly Output[]): Source[] {
  return outputs.flatMap((output) =>
    'inner' in output ? sealedIn(output.inner) : sealedColumns([output]).map(({ source }) => source),
  )
}

/** The same with their names in the result, without those in JSON. */
export function sealedColumns(outputs: readonly Output[]): { name: string; source: Source }[] {
  return outputs.flatMap((output) => {
    if ('inner' in output) return []
    if ('source' in output) return isSealed(output.source) ? [output] : []
    const { all } = output
    const names = all.table.columns.filter((column) => all.table.isSealed(column))
    return names.map((column) => ({ name: column, source: { instance: all, column } }))
  })
}

/** Lists what text must not name in a result: encrypted columns, and JSON that contains some. */
export function sealedNames(outputs: readonly Output[]): SealedColumn[] {
  return outputs.flatMap((output) => {
    const named =
      'inner' in output
        ? sealedIn([output])
            .slice(0, 1)
            .map((source) => ({ ...output, source }))
        : sealedColumns([output])
    return named.map(({ name, source }) => ({ name, model: source.instance.table.name, field: source.column }))
  })
}

/** Lists the relations that SQL as text can name: the query's own, then those around it. */
export function relationsIn(scope: Scope | undefined): NamedRelation[] {
  if (!scope) return []
  const own = [...scope.own].map(([alias, relation]) => ({ alias, sealed: sealedNames(relation?.outputs ?? []) }))
  return [...own, ...relationsIn(scope.outer)]
}

export type Models = ReadonlyMap<string, SealedTable>

/** Finds the model of a table. @throws InvalidInputError if a model has its name in another spelling */
export function findTable(models: Models, name: string): SealedTable | undefined {
  return models.get(name) ?? refuseOtherName('table', name, models.keys())
}

/** @throws InvalidInputError if an encrypted column has this name in another spelling, or after that of its table */
export function assertSpelling(table: SealedTable, column: string): void {
  if (table.columns.includes(column)) return
  const sealed = table.columns.filter((one) => table.isSealed(one))
  const last = column.slice(column.lastIndexOf('.') + 1)
  if (last !== column && sealed.includes(last)) {
    throw new InvalidInputError(
      `${JSON.stringify(column)} is not a column`,
      `Name the column alone: ${JSON.stringify(last)}.`,
    )
  }
  refuseOtherName(`column of ${table.name}`, column, sealed)
}

function refuseOtherName(kind: string, name: string, others: Iterable<string>): undefined {
  const other = [...others].find((one) => inSnakeCase(one) === inSnakeCase(name))
  if (other === undefined) return undefined
  throw new InvalidInputError(
    `the ${kind} is ${JSON.stringify(name)} in the database, and ${JSON.stringify(other)} in the models`,
    'Name tables, fields, indexes and `bind` as the database does, also with a plugin that renames them.',
  )
}

function inSnakeCase(name: string): string {
  return name.replaceAll(/(\p{Ll}|\p{N})(\p{Lu})/gu, '$1_$2').toLowerCase()
}
