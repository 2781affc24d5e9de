/** SQL text within a query: refused where it names an encrypted column, or all columns of a row. */
import { refuseCall, refuseExpression, refuseOrder } from './refusals.js'
import { type Mention, namesInSql, positionsInSql } from './sql-text.js'

/** A name in the query, and the encrypted field whose values it has. */
export interface SealedColumn {
  name: string
  model: string
  field: string
}

/** A table or an inner query, under its name in the query. */
export interface NamedRelation {
  alias: string
  sealed: readonly SealedColumn[]
  /** The names of its other columns, if known: a name means the innermost relation that has such a column. */
  plain?: readonly string[]
}

/** The relations of the query, then those around it. */
export type NamedRelations = readonly NamedRelation[]
const HINT = "Select its columns by the ORM's own methods."

/** Checks SQL text in a query. @throws InvalidInputError if it names something encrypted, or is unclear */
export function assertSqlPart(
  text: string,
  relations: NamedRelations,
  { hint = HINT, refuse = refuseExpression }: { hint?: string; refuse?: (model: string, field: string) => never } = {},
): void {
  const mentions = namesInSql(text)
  for (const [at, mention] of mentions.entries()) {
    if (isNullTest(mentions, at)) continue
    const whole = findWhole(relations, mention)
    if (whole !== undefined) refuseCall(`SQL as text that names all columns of ${whole}`, hint)
    const found = findNamed(relations, mention)
    if (found) refuse(found.model, found.field)
  }
}

/** Tells whether a name is only compared with null, which is stored as null. */
export function isNullTest(mentions: readonly Mention[], at: number): boolean {
  const [is, not, end] = mentions.slice(at + 1, at + 4).map(({ name }) => name)
  return is === 'is' && (not === 'null' || (not === 'not' && end === 'null'))
}

/** Finds a relation whose columns are all meant: by `*`, or by its name alone, which stands for a row. */
function findWhole(relations: NamedRelations, mention: Mention): string | undefined {
  const { name, qualifier, isQualifier, isCall } = mention
  if (name !== '*' && (qualifier !== undefined || isQualifier || isCall)) return undefined
  const meant = relationsOf(relations, name === '*' ? qualifier : name, name === '*')
  return meant.find(({ sealed }) => sealed.length > 0)?.alias
}

function findNamed(relations: NamedRelations, { name, qualifier, isCall }: Mention): SealedColumn | undefined {
  if (isCall) return undefined
  const isIt = (one: string) => one.toLowerCase() === name
  const found = relationsOf(relations, qualifier, true).find(
    ({ sealed, plain = [] }) => plain.some(isIt) || sealed.some((column) => isIt(column.name)),
  )
  return found?.sealed.find((column) => isIt(column.name))
}

/** Returns the innermost relation with a name. If there is none, and that is allowed, returns all. */
function relationsOf(relations: NamedRelations, name: string | undefined, mayBeNone: boolean): NamedRelations {
  const found = relations.find(({ alias }) => alias.toLowerCase() === name)
  if (found) return [found]
  return mayBeNone ? relations : []
}

export interface SealedPlaces {
  places: readonly (readonly SealedColumn[])[]
  /** Columns that may follow at any place, as where all columns of a table are selected. */
  later?: readonly SealedColumn[]
}

/** Checks an `order by`, `group by` or `distinct on`, which may name a column of the result, even by its position. */
export function assertSqlOrder(text: string, relations: NamedRelations, { places, later = [] }: SealedPlaces): void {
  const outputs = { alias: '', sealed: [...places.flat(), ...later] }
  assertSqlPart(text, [outputs, ...relations], { refuse: refuseOrder })
  for (const position of positionsInSql(text)) {
    const [sealed] = places[position - 1] ?? later
    if (sealed) refuseOrder(sealed.model, sealed.field)
  }
}
