/** SQL text as a part of a query: refused where it names an encrypted column, or all columns of a row. */
import { refuseCall, refuseExpression, refuseOrder } from './refusals.js'
import { type Mention, namesInSql, positionsInSql } from './sql-text.js'

/** By its name in the query, and the encrypted field whose values it has. */
export interface SealedColumn {
  name: string
  model: string
  field: string
}

/** A table or an inner query, by its name in the query. */
export interface NamedRelation {
  alias: string
  sealed: readonly SealedColumn[]
  /** The names of its other columns, if they are known: the innermost relation that has a column is meant. */
  plain?: readonly string[]
}

/** The relations of the query, then those around it. */
export type NamedRelations = readonly NamedRelation[]
const HINT = "Select its columns by the ORM's own methods."

/** Checks the text of a part of a query. @throws InvalidInputError if it names something encrypted, or is unclear */
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

/** Tells whether a name is compared with null, which is stored as null. */
export function isNullTest(mentions: readonly Mention[], at: number): boolean {
  const [is, not, end] = mentions.slice(at + 1, at + 4).map(({ name }) => name)
  return is === 'is' && (not === 'null' || (not === 'not' && end === 'null'))
}

/** Finds a relation of which all columns are meant: by `*`, or by its name alone, which stands for a row. */
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

/** Returns the relation of a name, the innermost of several; or all where the name is of none, if it may be. */
function relationsOf(relations: NamedRelations, name: string | undefined, mayBeNone: boolean): NamedRelations {
  const found = relations.find(({ alias }) => alias.toLowerCase() === name)
  if (found) return [found]
  return mayBeNone ? relations : []
}

export interface SealedPlaces {
  places: readonly (readonly SealedColumn[])[]
  /** Those that may be at any place after these, as where all columns of a table are selected. */
  later?: readonly SealedColumn[]
}

/** Checks an `order by`, `group by` or `distinct on`, which may also name a column of the result, or its position. */
export function assertSqlOrder(text: string, relations: NamedRelations, { places, later = [] }: SealedPlaces): void {
  const outputs = { alias: '', sealed: [...places.flat(), ...later] }
  assertSqlPart(text, [outputs, ...relations], { refuse: refuseOrder })
  for (const position of positionsInSql(text)) {
    const [sealed] = places[position - 1] ?? later
    if (sealed) refuseOrder(sealed.model, sealed.field)
  }
}
