/**
 * Updates nested in that of another row which do not determine the rows that their values are bound to. These rows are
 * read first, in the same transaction. Each gets its own nested update, which repeats the condition next to the id.
 */
import { type Row, refuseCall } from '@eaas/sdk/adapter'
import { isWholeChange, needsRow, type Relation, withRow } from './data.js'
import type { KnownModel } from './schema.js'
import { isPlain } from './values.js'
import { rewriteWhere, uncombined } from './where.js'

const NAMES = ['update', 'updateMany'] as const
type Name = (typeof NAMES)[number]

interface Nested extends Relation {
  name: Name
  where: Row
  changes: Row
}

/** Tells whether rows of a nested update must be read first. */
export function hasNested(model: KnownModel, data: unknown): boolean {
  return relationsIn(model, data).some(({ writes, ...relation }) =>
    NAMES.some((name) => [writes[name] ?? []].flat().some((args) => readNested({ ...relation, name }, args))),
  )
}

export type ReadRelation = (field: string, args: Row) => Promise<Row[]>

/** Replaces nested updates by one for each row that they change. */
export async function withNestedRows(model: KnownModel, data: unknown, read: ReadRelation): Promise<unknown> {
  const found = relationsIn(model, data).map(async ({ writes, ...relation }) => {
    const { field } = relation
    const own: Row = { ...writes }
    const given = Object.values(writes).flat()
    const isAlone = given.filter((args) => args !== undefined).length === 1
    for (const name of NAMES) {
      if (writes[name] === undefined) continue
      const isList = Array.isArray(writes[name]) || relation.isList
      const all = await Promise.all(
        [writes[name]].flat().map(async (args) => {
          const one = readNested({ ...relation, name, isList }, args)
          // Prisma finds its rows after the other writes; the adapter reads them before.
          if (one && name === 'updateMany' && !isAlone) {
            const hint = 'Write them one after another, in a transaction: `$transaction(async (tx) => …)`.'
            refuseCall(`updateMany beside other writes of the relation ${field}`, hint)
          }
          return one ? eachRow(one, read) : [args]
        }),
      )
      own[name] = isList ? all.flat() : all.flat()[0]
    }
    return [field, own] as const
  })
  return isPlain(data) ? { ...data, ...Object.fromEntries(await Promise.all(found)) } : data
}

function relationsIn(model: KnownModel, data: unknown) {
  if (!isPlain(data)) return []
  return [...model.relations].flatMap(([field, relation]) => {
    const writes = data[field]
    const isList = model.lists.has(field)
    return isPlain(writes) ? [{ field, other: model.get(relation), isList, writes }] : []
  })
}

/** Reads the arguments of a nested update; undefined if they determine the row. */
function readNested(update: Omit<Nested, 'where' | 'changes'>, args: unknown): Nested | undefined {
  if (!isPlain(args)) return undefined
  const isWhole = update.name === 'update' && isWholeChange(update, args)
  const changes = isWhole ? args : args.data
  const where = !isWhole && isPlain(args.where) ? args.where : {}
  return isPlain(changes) && needsRow(update.other, changes, where) ? { ...update, where, changes } : undefined
}

async function eachRow({ field, name, other, isList, where, changes }: Nested, read: ReadRelation): Promise<Row[]> {
  const condition = (await rewriteWhere(other, uncombined(other, where))) as Row
  const rows = await read(field, { ...(isList ? { where: condition } : {}), select: selectOf(other) })
  // An update without a row must fail as Prisma's does.
  if (rows.length === 0) return name === 'update' ? [{ where, data: {} }] : []
  return rows.map((row) => {
    const bound = boundTo(other, row)
    const both = name === 'update' ? { ...where, AND: [...[where.AND ?? []].flat(), bound] } : { AND: [where, bound] }
    return { where: both, data: withRow(changes, row) }
  })
}

/** Selects what identifies a row, what values are bound to, and what may determine the key of a row. */
export function selectOf({ sealed, ids, joins, fields, relations }: KnownModel): Row {
  const inherited = [...joins.values()].flatMap(({ isOwn, pairs }) => (isOwn ? [] : pairs.map(({ own }) => own)))
  const made = sealed?.columns.filter((column) => !sealed.bind.includes(column)) ?? []
  const plain = sealed?.keyByRow ? [...fields].filter((field) => !relations.has(field) && !made.includes(field)) : []
  return Object.fromEntries([...ids, ...(sealed?.bind ?? []), ...inherited, ...plain].map((field) => [field, true]))
}

export function boundTo({ sealed, ids }: KnownModel, row: Row): Row {
  const names = sealed ? [...ids, ...sealed.bind] : Object.keys(row)
  return Object.fromEntries(
    names.map((field) => [field, row[field] ?? refuseCall('an update of a row without an id', 'Give the row one.')]),
  )
}
