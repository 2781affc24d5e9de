/** Generates the ids of `@default` for new rows on every level, since values are bound to them before the insert. */
import { assertWritable, makeLacking, type Row, type RunSql, refuseCall } from '@eaas/sdk/adapter'
import { clientOf, type Running } from './clients.js'
import { isWholeChange, type Relation } from './data.js'
import type { Operation } from './found-rows.js'
import type { Join, KnownModel, Schema } from './schema.js'
import { isPlain } from './values.js'
import { rewriteWhere, uncombined } from './where.js'

type Lacking = Map<KnownModel, Row[]>

/** The nested writes that create rows, each with the member that holds them; likewise for changes below. */
const NEW: Readonly<Record<string, string>> = {
  create: '',
  createMany: 'data',
  connectOrCreate: 'create',
  upsert: 'create',
}
const CHANGES: Readonly<Record<string, string>> = { update: 'data', upsert: 'update' }
const NEW_OF_OPERATION: Readonly<Record<string, string>> = {
  create: 'data',
  createMany: 'data',
  createManyAndReturn: 'data',
  upsert: 'create',
}

/** @throws InvalidInputError if a trigger would change what is written. A nested write may go to any table */
export async function assertNoTriggers({ ofPostgres }: Schema, running: Running, operation: string): Promise<void> {
  if (!/^(create|update|upsert)/.test(operation)) return
  for (const { sealed, ...named } of ofPostgres) await assertWritable(runIn(running), sealed, named)
}

/** Returns the arguments of an operation with ids in all rows that it creates. */
export async function withIds(schema: Schema, running: Running, { model, operation, args }: Operation): Promise<Row> {
  const lacking: Lacking = new Map()
  const parents: Parent[] = []
  const out = copyMembers(model, args, { lacking, parents }, [NEW_OF_OPERATION[operation], CHANGES[operation]])
  if (lacking.size === 0) return args
  for (const parent of parents) await nameParent(running, parent)
  for (const [of, rows] of lacking) await fill(schema, of, rows, runIn(running))
  return out
}

function runIn(running: Running): RunSql {
  return (sql) => clientOf(running).$queryRawUnsafe(sql)
}

type Copying = { lacking: Lacking; parents: Parent[] }

function copyMembers(
  model: KnownModel,
  args: Row,
  copying: Copying,
  [created, changed]: readonly (string | undefined)[],
): Row {
  const out = { ...args }
  if (created) out[created] = copyRows(model, args[created], copying, true)
  if (changed) out[changed] = copyRows(model, args[changed], copying, false)
  return out
}

/** Copies rows or changes, with everything nested in them. */
function copyRows(model: KnownModel, rows: unknown, copying: Copying, isNew: boolean): unknown {
  if (Array.isArray(rows)) return rows.map((one) => copyRows(model, one, copying, isNew))
  if (!isPlain(rows)) return rows
  const row = { ...rows }
  const made = isNew ? [...model.made].filter(([field]) => row[field] === undefined) : []
  if (made.length > 0) copying.lacking.set(model, [...(copying.lacking.get(model) ?? []), row])
  if (made.some(([, { isUnchecked }]) => isUnchecked)) copying.parents.push(...takeParents(model, row))
  for (const [field, relation] of model.relations) {
    const to = { field, other: model.get(relation), isList: model.lists.has(field) }
    if (isPlain(row[field])) row[field] = copyWrites(to, row[field], copying)
  }
  return row
}

function copyWrites(relation: Relation, writes: Row, copying: Copying): Row {
  const { other } = relation
  const copied = Object.entries(writes).map(([name, args]) => {
    const one = (value: unknown): unknown => {
      const isWhole = NEW[name] === '' || (name === 'update' && isPlain(value) && isWholeChange(relation, value))
      if (isWhole) return copyRows(other, value, copying, name !== 'update')
      return isPlain(value) ? copyMembers(other, value, copying, [NEW[name], CHANGES[name]]) : value
    }
    return [name, Array.isArray(args) ? args.map(one) : one(args)]
  })
  return Object.fromEntries(copied)
}

async function fill({ ids }: Schema, model: KnownModel, rows: readonly Row[], run: RunSql): Promise<void> {
  const columns = [...model.made].map(([name, { column, make }]) => {
    const read = (text: unknown) => {
      const id = model.spell(name, text)
      return typeof id === 'bigint' && Number.isSafeInteger(Number(id)) ? Number(id) : id
    }
    return { name, column, make, read }
  })
  const made = await makeLacking(ids, run, { table: model.table, columns, rows, cannotOverride: model.name })
  for (const [at, row] of rows.entries()) Object.assign(row, made.rows[at])
}

type Parent = { row: Row; field: string; join: Join; other: KnownModel; where: Row }

/**
 * Takes the relations to parents out of a new row: Prisma accepts an `autoincrement()` id only next to foreign keys,
 * not next to relations. `connect` becomes the foreign key; other writes are refused.
 */
function takeParents(model: KnownModel, row: Row): Parent[] {
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
    return isPlain(where) ? [{ row, field, join, other: model.get(model.relations.get(field) ?? ''), where }] : []
  })
}

/** Fills the foreign key, with a query of its own if the condition does not give it. */
async function nameParent(
  { transaction, statementIn }: Running,
  { row, field, join, other, where }: Parent,
): Promise<void> {
  const given = Object.entries(uncombined(other, where)).filter(([, value]) => value !== undefined && value !== null)
  const isKey = given.length === join.pairs.length && join.pairs.every((pair) => given.some(([n]) => n === pair.other))
  if (!isKey && transaction && transaction.kind !== 'itx') {
    const hint = 'Connect by its key, or pass a function: `$transaction(async (tx) => …)`.'
    refuseCall(`in a list of operations, connect of the relation ${field} by another field`, hint)
  }
  const find = async () => {
    const select = Object.fromEntries(join.pairs.map((pair) => [pair.other, true]))
    const args = { where: await rewriteWhere(other, where), select }
    return statementIn(transaction)('findUniqueOrThrow', args, other.name)
  }
  const key = (isKey ? Object.fromEntries(given) : await find()) as Row
  for (const pair of join.pairs) row[pair.own] = key[pair.other]
}
