/** The arguments of Prisma's operations: seals rows, rewrites conditions, and refuses what encryption makes impossible. */
import { type Filter, type Row, refuseCall, refuseExpression, refuseOrder } from '@eaas/sdk/adapter'
import { sealData, sealUpdate } from './data.js'
import { newShape, type Shape } from './results.js'
import type { KnownModel } from './schema.js'
import { isPlain } from './values.js'
import { rewriteWhere } from './where.js'

const CREATES = ['create', 'createMany', 'createManyAndReturn']
const UPDATES = ['update', 'updateMany', 'updateManyAndReturn']
const OTHERS = ['upsert', 'delete', 'deleteMany', 'count', 'aggregate', 'groupBy']
const READS = ['findUnique', 'findUniqueOrThrow', 'findFirst', 'findFirstOrThrow', 'findMany']
const COUNTS = ['count', 'aggregate', 'groupBy', 'createMany', 'updateMany', 'deleteMany']
const COMPUTED = ['_min', '_max', '_sum', '_avg']

export interface Rewritten {
  args: Row
  shape: Shape
  filters: readonly Filter[]
}

const FILTERED = ['findMany', 'findFirst', 'findFirstOrThrow', 'count']

/** @param row the changed row's values in the fields of `bind`, if it was read before */
export async function rewriteArgs(
  { model, operation, args }: { model: KnownModel; operation: string; args: Row },
  row?: Row,
): Promise<Rewritten> {
  if (![...CREATES, ...UPDATES, ...OTHERS, ...READS].includes(operation))
    refuseCall(`${operation} of ${model.name}`, 'Use another operation of Prisma.')
  const shape = newShape()
  const filters: Filter[] = []
  const out = await rewriteRead(model, args, {
    shape: COUNTS.includes(operation) ? undefined : shape,
    filters: FILTERED.includes(operation) ? filters : undefined,
  })
  if (CREATES.includes(operation)) out.data = await sealData(model, args.data)
  if (UPDATES.includes(operation)) out.data = await sealUpdate(model, args.data, { where: args.where, row })
  if (operation === 'upsert') {
    out.create = await sealData(model, args.create)
    out.update = await sealUpdate(model, args.update, { where: args.where })
  }
  return { args: out, shape, filters }
}

interface Notes {
  /** Collects what is selected beyond the application's request; undefined where no row is read. */
  shape: Shape | undefined
  /** Collects what the rows must match; undefined where they cannot be filtered. */
  filters?: Filter[] | undefined
}

/** Rewrites the conditions, orders and selections of an operation, on every level. */
async function rewriteRead(model: KnownModel, args: Row, { shape, filters }: Notes): Promise<Row> {
  const out: Row = { ...args }
  assertOrder(model, [args.orderBy, args.cursor, args.having])
  for (const list of [args.distinct, args.by]) assertNamed(model, list, refuseOrder)
  for (const name of COMPUTED) {
    const fields = isPlain(args[name]) ? args[name] : {}
    const computed = Object.keys(fields).filter((field) => fields[field])
    assertNamed(model, computed, refuseExpression)
  }
  if (args.where !== undefined) out.where = await rewriteWhere(model, args.where, filters)
  if (args.having !== undefined) out.having = await rewriteWhere(model, args.having)
  for (const name of ['select', 'include']) {
    if (isPlain(args[name])) out[name] = await rewriteSelection(model, args[name], shape)
  }
  return shape ? selectBound(model, out, { shape, filters }) : out
}

async function rewriteSelection(model: KnownModel, selection: Row, shape: Shape | undefined): Promise<Row> {
  const all = Object.entries(selection).map(async ([field, given]) => {
    const relation = model.relations.get(field)
    // `true` becomes an object, so that fields can be added to the relation's selection.
    const value = given === true && relation !== undefined && shape ? {} : given
    if (!isPlain(value)) return [field, value]
    if (field === '_count' && isPlain(value.select))
      return [field, { ...value, select: await rewriteSelection(model, value.select, undefined) }]
    if (relation === undefined) return [field, value]
    const inner = shape && newShape()
    if (inner) shape.inner.set(field, inner)
    return [field, await rewriteRead(model.get(relation), value, { shape: inner })]
  })
  return Object.fromEntries(await Promise.all(all))
}

/** Selects what encrypted fields are bound to, and the fields that the filters read. */
function selectBound({ sealed, fields, omitted }: KnownModel, args: Row, { shape, filters = [] }: Notes): Row {
  if (!sealed || !shape) return args
  const { select, omit } = args
  const left: Row = { ...omitted, ...(isPlain(omit) ? omit : {}) }
  const isSelected = (field: string) => (isPlain(select) ? Boolean(select[field]) : left[field] !== true)
  // Only Prisma knows which fields a computed field of an extension needs.
  const computes =
    isPlain(select) && Object.keys(select).some((name) => name !== '_count' && !fields.has(name) && select[name])
  const selected = [...fields].filter((field) => isSelected(field) || (computes && sealed.isSealed(field)))
  const filtered = filters.map(({ field }) => field).filter((field) => !selected.includes(field))
  const more = [...new Set([...filtered, ...sealed.readsToo([...selected, ...filtered])])]
  for (const field of more) shape.hidden.add(field)
  if (more.length === 0) return args
  const all = (value: boolean) => Object.fromEntries(more.map((field) => [field, value]))
  if (isPlain(select)) return { ...args, select: { ...select, ...all(true) } }
  return { ...args, omit: { ...(isPlain(omit) ? omit : {}), ...all(false) } }
}

function assertOrder(model: KnownModel, part: unknown): void {
  if (Array.isArray(part)) for (const one of part) assertOrder(model, one)
  else if (isPlain(part)) {
    for (const [field, value] of Object.entries(part)) {
      const relation = model.relations.get(field)
      if (value === undefined) continue
      assertNamed(model, [field], refuseOrder)
      if (field === 'fields') assertNamed(model, value, refuseOrder) // of `_relevance`
      assertOrder(relation === undefined ? model : model.get(relation), value)
    }
  }
}

function assertNamed({ sealed }: KnownModel, fields: unknown, refuse: (model: string, field: string) => never): void {
  if (!sealed) return
  for (const field of [fields ?? []].flat()) if (sealed.isSealed(String(field))) refuse(sealed.name, String(field))
}
