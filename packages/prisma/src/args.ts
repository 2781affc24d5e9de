/**
 * The arguments of Prisma's operations: rows are sealed, conditions rewritten, and what the database cannot
 * do is refused.
 */
import { type Row, refuseCall, refuseExpression, refuseOrder } from '@eaas/sdk/adapter'
import { sealData, sealUpdate } from './data.js'
import type { KnownModel, Schema } from './schema.js'
import { isPlain } from './values.js'
import { rewriteWhere } from './where.js'

const CREATES = ['create', 'createMany', 'createManyAndReturn']
const UPDATES = ['update', 'updateMany', 'updateManyAndReturn']
const OTHERS = ['upsert', 'delete', 'deleteMany', 'count', 'aggregate', 'groupBy']
const READS = ['findUnique', 'findUniqueOrThrow', 'findFirst', 'findFirstOrThrow', 'findMany']
const COUNTS = ['count', 'aggregate', 'groupBy', 'createMany', 'updateMany', 'deleteMany']
const COMPUTED = ['_min', '_max', '_sum', '_avg']

export async function rewriteArgs(schema: Schema, model: KnownModel, operation: string, args: unknown): Promise<Row> {
  if (![...CREATES, ...UPDATES, ...OTHERS, ...READS].includes(operation)) {
    refuseCall(`${operation} of ${model.name}`, 'Use another operation of Prisma.')
  }
  const given = isPlain(args) ? args : {}
  const out = await rewriteRead(schema, model, given)
  if (!COUNTS.includes(operation)) assertReadable(model, given)
  if (CREATES.includes(operation)) out.data = await sealData(schema, model, given.data)
  if (UPDATES.includes(operation)) out.data = await sealUpdate(schema, model, given.data, given.where)
  if (operation === 'upsert') {
    out.create = await sealData(schema, model, given.create)
    out.update = await sealUpdate(schema, model, given.update, given.where)
  }
  return out
}

/** Rewrites what finds, orders and selects rows, on any level. */
async function rewriteRead(schema: Schema, model: KnownModel, args: Row): Promise<Row> {
  const out: Row = { ...args }
  assertOrder(schema, model, [args.orderBy, args.cursor, args.having])
  for (const list of [args.distinct, args.by]) assertNamed(model, list, refuseOrder)
  for (const name of COMPUTED) assertNamed(model, isPlain(args[name]) ? Object.keys(args[name]) : [], refuseExpression)
  for (const name of ['where', 'having']) {
    if (args[name] !== undefined) out[name] = await rewriteWhere(schema, model, args[name])
  }
  for (const name of ['select', 'include']) {
    if (isPlain(args[name])) out[name] = await rewriteSelection(schema, model, args[name])
  }
  return out
}

async function rewriteSelection(schema: Schema, model: KnownModel, selection: Row, isCount = false): Promise<Row> {
  const all = Object.entries(selection).map(async ([field, value]) => {
    const relation = model.relations.get(field)
    if (!isPlain(value)) return [field, value]
    if (field === '_count' && isPlain(value.select)) {
      return [field, { ...value, select: await rewriteSelection(schema, model, value.select, true) }]
    }
    if (relation === undefined) return [field, value]
    if (!isCount) assertReadable(schema.get(relation), value)
    return [field, await rewriteRead(schema, schema.get(relation), value)]
  })
  return Object.fromEntries(await Promise.all(all))
}

/** Refuses, before anything is written, to return an encrypted field without what it is bound to. */
function assertReadable({ sealed, fields, omitted }: KnownModel, { select, omit }: Row): void {
  if (!sealed) return
  const left: Row = { ...omitted, ...(isPlain(omit) ? omit : {}) }
  sealed.assertReadable(
    [...fields].filter((field) => (isPlain(select) ? Boolean(select[field]) : left[field] !== true)),
  )
}

/** Refuses an encrypted field by which rows would be sorted, on any level. */
function assertOrder(schema: Schema, model: KnownModel, part: unknown): void {
  if (Array.isArray(part)) for (const one of part) assertOrder(schema, model, one)
  else if (isPlain(part)) {
    for (const [field, value] of Object.entries(part)) {
      const relation = model.relations.get(field)
      if (value === undefined) continue
      assertNamed(model, [field], refuseOrder)
      if (field === 'fields') assertNamed(model, value, refuseOrder) // of `_relevance`
      assertOrder(schema, relation === undefined ? model : schema.get(relation), value)
    }
  }
}

function assertNamed({ sealed }: KnownModel, fields: unknown, refuse: (model: string, field: string) => never): void {
  if (!sealed) return
  for (const field of [fields ?? []].flat()) if (sealed.isSealed(String(field))) refuse(sealed.name, String(field))
}
