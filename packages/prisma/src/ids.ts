/**
 * Fills the ids that `@default` would make, in new rows on every level: encrypted values are bound to them, so
 * they must be known before a row is sealed.
 */
import { assertWritable, createIdMaker, type Row, type RunSql, refuseCall } from '@eaas/sdk/adapter'
import { clientOf, type Running } from './clients.js'
import { isWholeChange, type Relation } from './data.js'
import type { Operation } from './found-rows.js'
import type { Join, KnownModel, Schema } from './schema.js'
import { isPlain } from './values.js'
import { rewriteWhere, uncombined } from './where.js'

/** The new rows of a write that lack ids, by their model. */
type Lacking = Map<KnownModel, Row[]>

/** The members of a nested write that hold its new rows, and its changes. */
const NEW: Readonly<Record<string, string>> = {
  create: '',
  createMany: 'data',
  connectOrCreate: 'create',
  upsert: 'create',
}
const CHANGES: Readonly<Record<string, string>> = { update: 'data', upsert: 'update' }
const OF_ARGUMENTS: Readonly<Record<string, [member: string, isNew: boolean][]>> = {
  create: [['data', true]],
  createMany: [['data', true]],
  createManyAndReturn: [['data', true]],
  update: [['data', false]],
  upsert: [
    ['create', true],
    ['update', false],
  ],
}

/** @throws InvalidInputError if a trigger would change what is written; a nested write may be of any table */
export async function assertNoTriggers({ ofPostgres }: Schema, running: Running, operation: string): Promise<void> {
  if (!/^(create|update|upsert)/.test(operation)) return
  for (const { sealed, ...named } of ofPostgres) await assertWritable(runIn(running), sealed, named)
}

const maker = new WeakMap<Schema, ReturnType<typeof createIdMaker>>()

/** Returns the arguments of an operation with ids in all rows that it creates. */
export async function withIds(schema: Schema, running: Running, { model, operation, args }: Operation): Promise<Row> {
  const lacking: Lacking = new Map()
  const parents: Parent[] = []
  const members = (OF_ARGUMENTS[operation] ?? []).map(([member, isNew]) => {
    return [member, copyRows(schema, model, args[member], { lacking, parents, isNew })]
  })
  if (lacking.size === 0) return args
  for (const parent of parents) await nameParent(schema, running, parent)
  for (const [of, rows] of lacking) await fill(schema, of, rows, runIn(running))
  return { ...args, ...Object.fromEntries(members) } as Row
}

function runIn(running: Running): RunSql {
  return (sql) => clientOf(running).$queryRawUnsafe(sql)
}

interface Copying {
  lacking: Lacking
  parents: Parent[]
  isNew: boolean
}

/** Copies rows, or the changes of some, with what is nested in them. */
function copyRows(schema: Schema, model: KnownModel, rows: unknown, copying: Copying): unknown {
  if (Array.isArray(rows)) return rows.map((one) => copyRows(schema, model, one, copying))
  if (!isPlain(rows)) return rows
  const row = { ...rows }
  const made = copying.isNew ? [...model.made].filter(([field]) => row[field] === undefined) : []
  if (made.length > 0) copying.lacking.set(model, [...(copying.lacking.get(model) ?? []), row])
  if (made.some(([, { isUnchecked }]) => isUnchecked)) copying.parents.push(...takeParents(schema, model, row))
  for (const [field, relation] of model.relations) {
    const to = { field, other: schema.get(relation), isList: model.lists.has(field) }
    if (isPlain(row[field])) row[field] = copyWrites(schema, to, row[field], copying)
  }
  return row
}

function copyWrites(schema: Schema, relation: Relation, writes: Row, copying: Copying): Row {
  const { other } = relation
  const copied = Object.entries(writes).map(([name, args]) => {
    const one = (value: unknown): unknown => {
      const isWhole = NEW[name] === '' || (name === 'update' && isPlain(value) && isWholeChange(relation, value))
      if (isWhole) return copyRows(schema, other, value, { ...copying, isNew: name !== 'update' })
      if (!isPlain(value)) return value
      const out = { ...value }
      for (const [member, isNew] of [
        [NEW[name], true],
        [CHANGES[name], false],
      ] as const) {
        if (member) out[member] = copyRows(schema, other, value[member], { ...copying, isNew })
      }
      return out
    }
    return [name, Array.isArray(args) ? args.map(one) : one(args)]
  })
  return Object.fromEntries(copied)
}

/** Fills the ids of rows, by one query for all that the database makes. */
async function fill(schema: Schema, model: KnownModel, rows: readonly Row[], run: RunSql): Promise<void> {
  const ofDatabase: string[] = []
  for (const [field, { make }] of model.made) {
    if (!make && rows.some((row) => row[field] === undefined)) ofDatabase.push(field)
    else if (make) for (const row of rows) row[field] ??= make()
  }
  if (ofDatabase.length === 0) return
  const ids = maker.get(schema) ?? createIdMaker()
  maker.set(schema, ids)
  const columns = ofDatabase.map((field) => model.made.get(field)?.column ?? field)
  const { rows: made } = await ids.make(run, model.table, { columns, count: rows.length, cannotOverride: model.name })
  for (const [at, row] of rows.entries()) {
    for (const [number, field] of ofDatabase.entries()) {
      const id = model.spell(field, made[at]?.[columns[number] ?? ''])
      row[field] ??= typeof id === 'bigint' && Number.isSafeInteger(Number(id)) ? Number(id) : id
    }
  }
}

/** What a new row is connected to. */
interface Parent {
  row: Row
  field: string
  join: Join
  other: KnownModel
  where: Row
}

/**
 * Takes the relations to parents out of a new row. Prisma accepts an id of `autoincrement()` only in a row that names its
 * parents by foreign keys. Since the adapter fills in such ids, `connect` becomes the foreign key.
 *
 * @throws InvalidInputError for any but a `connect`
 */
function takeParents(schema: Schema, model: KnownModel, row: Row): Parent[] {
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
async function nameParent(
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
