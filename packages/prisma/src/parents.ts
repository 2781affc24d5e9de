/**
 * The rows that new ones belong to. Prisma accepts an id of `autoincrement()` only in a row that names its parents
 * by foreign keys. Since the adapter fills in such ids, `connect` becomes the foreign key.
 */
import { type Row, refuseCall } from '@eaas/sdk/adapter'
import type { Running } from './clients.js'
import type { Join, KnownModel, Schema } from './schema.js'
import { isPlain } from './values.js'
import { rewriteWhere, uncombined } from './where.js'

/** What a new row is connected to. */
export interface Parent {
  row: Row
  field: string
  join: Join
  other: KnownModel
  where: Row
}

/** Takes the relations to parents out of a new row. @throws InvalidInputError for any but a `connect` */
export function takeParents(schema: Schema, model: KnownModel, row: Row): Parent[] {
  return [...model.joins].flatMap(([field, join]) => {
    const writes = row[field]
    if (!join.isOwn || !isPlain(writes)) return []
    const given = Object.entries(writes).filter(([, value]) => value !== undefined)
    const [name, where] = given.find(([one]) => one !== 'connect') ?? given[0] ?? []
    if (name !== undefined && name !== 'connect') {
      const keys = join.pairs.map(({ own }) => own).join(' and ')
      const hint = `In one transaction, write the other row first, and connect this one to it or give its ${keys}.`
      refuseCall(`${name} of the relation ${field} in a new ${model.name}, whose id the database makes,`, hint)
    }
    if (name !== undefined && !isPlain(where)) return []
    delete row[field]
    return isPlain(where) ? [{ row, field, join, other: schema.get(model.relations.get(field) ?? ''), where }] : []
  })
}

/** Fills the foreign key, by a separate query if the condition is not the key. */
export async function nameParent(
  schema: Schema,
  { transaction, statementIn }: Running,
  { row, field, join, other, where }: Parent,
): Promise<void> {
  const given = Object.entries(uncombined(other, where)).filter(([, value]) => value !== undefined && value !== null)
  const isKey = given.length === join.pairs.length && join.pairs.every((pair) => given.some(([n]) => n === pair.other))
  if (!isKey && transaction && transaction.kind !== 'itx') {
    const hint = 'Connect by its key, or pass a function: `$transaction(async (tx) => …)`.'
    refuseCall(`in a list of operations, connect of the relation ${field} by another field`, hint)
  }
  const select = Object.fromEntries(join.pairs.map((pair) => [pair.other, true]))
  const key = isKey
    ? Object.fromEntries(given)
    : await statementIn(transaction)(
        'findUniqueOrThrow',
        { where: await rewriteWhere(schema, other, where), select },
        other.name,
      )
  for (const pair of join.pairs) row[pair.own] = (key as Row)[pair.other]
}
