/** Refuses to sort or group rows by encrypted columns, and SQL as text that names something encrypted. */
import {
  assertSqlOrder,
  assertSqlPart,
  assertStatement,
  namesInSql,
  refuseCall,
  refuseOrder,
  type SealedPlaces,
} from '@eaas/sdk/adapter'
import { columnName, isNode, type Node, qualifierOf, rawText } from './nodes.js'
import { findSource, isSealed, type Models, relationsIn, type Scope, sealedNames } from './scope.js'
import { isWhole, type Selections } from './selections.js'

/** @throws InvalidInputError if rows would be sorted or grouped by an encrypted column */
export function assertOrder(scope: Scope, query: Node, selections: Selections): void {
  const sealed = placesOf(selections)
  const names = sealedNames(selections.outputs)
  const assertText = (part: Node) => assertSqlOrder(rawText(part), relationsIn(scope), sealed)
  const assertPart = (part: unknown): void => {
    if (Array.isArray(part)) for (const one of part) assertPart(one)
    if (!isNode(part)) return
    const source = findSource(scope, part)
    if (source && isSealed(source)) refuseOrder(source.instance.table.name, source.column)
    // `order by` may name a selected column by its alias.
    const found = qualifierOf(part) === undefined ? names.find(({ name }) => name === columnName(part)) : undefined
    if (found) refuseOrder(found.model, found.field)
    if (part.kind === 'RawNode') assertText(part)
    if (part.kind !== 'ReferenceNode') for (const member of Object.values(part)) assertPart(member)
  }
  const order = [query.orderBy, query.groupBy, query.distinctOn, query.frontModifiers, query.endModifiers]
  for (const value of order.flatMap(valuesIn)) if (value.kind === 'ValueNode') assertText(value)
  assertPart(order)
}

function valuesIn(part: unknown): Node[] {
  if (Array.isArray(part)) return part.flatMap(valuesIn)
  if (!isNode(part)) return []
  const inner = part.items ?? part.orderBy ?? part.groupBy ?? (part.kind === 'ParensNode' ? part.node : undefined)
  return inner === undefined ? [part] : valuesIn(inner)
}

/** Returns where the encrypted columns are in a result. After `*`, places are unknown. */
function placesOf({ nodes, places, outputs }: Selections): SealedPlaces {
  const at = nodes.findIndex((one) => isWhole(one.selection as Node))
  if (at < 0) return { places: places.map(sealedNames) }
  return { places: places.slice(0, at).map(sealedNames), later: sealedNames(outputs) }
}

const HINT =
  'Write it by methods of Kysely, or execute it on a Kysely of the dialect itself, which sees what is stored.'

/** Checks raw SQL that is a part of a query. @throws InvalidInputError when it names an encrypted column or its table */
export function assertRawPart(models: Models, scope: Scope, raw: Node): void {
  const text = rawText(raw)
  const tables = new Map([...models.keys()].map((table) => [table.toLowerCase(), table]))
  const named = namesInSql(text).find(({ name, isQualifier }) => !isQualifier && tables.has(name))
  if (named) refuseCall(`SQL as text that names the table ${tables.get(named.name)}`, HINT)
  assertSqlPart(text, relationsIn(scope), { hint: HINT })
}

export function assertRawStatement(models: Models, raw: Node): void {
  const tables = [...models].map(([table, { columns, isSealed }]) => {
    const sealed = columns.filter((column) => isSealed(column)).map((column) => column.toLowerCase())
    return [table, (column: string) => sealed.includes(column)] as const
  })
  assertStatement(rawText(raw), tables, HINT)
}
