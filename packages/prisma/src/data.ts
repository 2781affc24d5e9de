/**
 * Seals the values of rows, of changes, and of nested writes. Where values are bound to a foreign key, they are sealed
 * to the value that Prisma will fill in, and a write that would change it is refused.
 */
import { type Row, refuseCall, refuseComputed, refuseSpelling, type SealedTable } from '@eaas/sdk/adapter'
import type { Join, KnownModel } from './schema.js'
import { DB_NULL, isNull, isPlain, mapOneOrMany, readObject } from './values.js'
import { pinnedBy, rewriteWhere } from './where.js'

async function sealRows(model: KnownModel, rows: readonly Row[], inherited: Row = {}): Promise<Row[]> {
  const { sealed } = model
  const filled = rows.map((row) => filledFields(model, row, inherited))
  const values = rows.map((row, at) => readValues(model, { ...row, ...filled[at] }))
  const out = sealed ? await sealed.sealRows(values) : values
  return Promise.all(
    out.map(async (row, at) => {
      const own = Object.entries(row).filter(([field]) => !Object.hasOwn(filled[at] ?? {}, field))
      const inner = await nested(model, rows[at], { known: values[at] ?? {}, isNew: true })
      return { ...absentIn(rows[at]), ...withNulls(model, Object.fromEntries(own), rows[at]), ...inner }
    }),
  )
}

/** Returns the fields of a new row that Prisma fills from the row around it, or from one nested in it. */
function filledFields(model: KnownModel, row: Row, inherited: Row): Row {
  const found: Row = { ...inherited }
  for (const [field, { isOwn, pairs }] of model.joins) {
    const other = model.get(model.relations.get(field) ?? model.name)
    const writes = row[field]
    if (!isOwn || !isPlain(writes)) continue
    for (const pair of pairs) {
      const { create, connect } = writes
      const value = isPlain(create) ? create[pair.other] : pinned(other, connect)[pair.other]
      if (value !== undefined) found[pair.own] = other.spell(pair.other, value)
    }
  }
  return Object.fromEntries(Object.entries(found).filter(([field]) => row[field] === undefined))
}

/** Returns the values that a condition gives for a row, in fields that have one spelling only. */
function pinned(model: KnownModel, where: unknown): Row {
  return Object.fromEntries(Object.entries(pinnedBy(model, where)).filter(([field]) => model.exact.has(field)))
}

export async function sealData(model: KnownModel, data: unknown, inherited?: Row): Promise<unknown> {
  const rows = [data].flat().map((one) => readObject(one, 'data'))
  if (!Array.isArray(data) && !rows[0]) return undefined
  const all = rows.map((row) => row ?? {})
  const sealed = await sealRows(model, all, inherited)
  return Array.isArray(data) ? sealed : sealed[0]
}

/** The rows to change: those of a condition, or one that was read. */
export type Found = { where: unknown; row?: Row | undefined }

/** Rows that were read for nested changes, by the objects of the changes. */
const rowsOf = new WeakMap<object, Row>()

/** Returns nested changes that are later sealed to this row. */
export function withRow(changes: Row, row: Row): Row {
  const own = { ...changes }
  rowsOf.set(own, row)
  return own
}

export async function sealUpdate(model: KnownModel, data: unknown, found: Found): Promise<unknown> {
  const changes = readObject(data, 'data')
  if (!changes) return undefined
  const { sealed } = model
  const values = readValues(model, changes)
  const row = found.row ?? rowsOf.get(changes)
  const out = sealed ? await sealed.sealChanges(values, row ?? pinnedExactly(model, values, found.where)) : values
  const known = row ?? pinned(model, found.where)
  assertReferredTo(model, { values, known })
  const inner = await nested(model, changes, { known, isNew: false })
  return { ...absentIn(changes), ...withNulls(model, out, changes), ...inner }
}

/**
 * Tells whether the changed rows must be read first: the condition does not give every value that something is bound
 * to. That may be a value of the rows themselves, of nested new rows, or of rows that refer to them.
 */
export function needsRow(model: KnownModel, data: unknown, where: unknown): boolean {
  if (!isPlain(data)) return false
  const { sealed } = model
  const known = pinned(model, where)
  if (sealed?.needsRow(readValues(model, data), { ...pinnedBy(model, where), ...bindOf(model, known) })) return true
  return [...model.joins].some(([field, { isOwn, pairs }]) => {
    const writes = data[field]
    const other = model.get(model.relations.get(field) ?? model.name)
    if (isOwn) return false
    const creates = isPlain(writes) && CREATES.some((name) => writes[name] !== undefined)
    return pairs.some(
      ({ own, other: inherited }) =>
        (creates || data[own] !== undefined) && other.sealed?.bind.includes(inherited) && known[own] === undefined,
    )
  })
}

const CREATES = ['create', 'createMany', 'connectOrCreate', 'upsert']

/** Returns the values of `bind` that are known exactly, and undefined for the others. */
function bindOf({ sealed }: KnownModel, known: Row): Row {
  return Object.fromEntries((sealed?.bind ?? []).map((field) => [field, known[field]]))
}

/** @throws InvalidInputError where the database may find the row by another spelling of its id */
function pinnedExactly(model: KnownModel, changes: Row, where: unknown): Row {
  const bound = pinnedBy(model, where)
  if (model.sealed?.isBound(changes)) {
    const inexact = model.sealed.bind.find((field) => field in bound && !model.exact.has(field))
    const hint = 'Give the column a type with one spelling: a number, a UUID, or text that is compared exactly.'
    if (inexact !== undefined) refuseSpelling(model.sealed.name, inexact, hint)
  }
  return bound
}

/** Reads a row's values, without its relations. @throws InvalidInputError for one that the database would compute */
function readValues({ sealed, relations, json, spell }: KnownModel, row: Row): Row {
  const own = Object.entries(row).filter(([field, value]) => value !== undefined && !relations.has(field))
  return Object.fromEntries(
    own.map(([field, value]) => {
      if (!sealed?.isSealed(field) && !sealed?.bind.includes(field)) return [field, value]
      if (isNull(value)) return [field, null]
      if (!isPlain(value) || json.has(field) || sealed?.takesObjects(field)) return [field, spell(field, value)]
      return [field, 'set' in value ? spell(field, value.set) : refuseComputed(sealed.name, field)]
    }),
  )
}

/** The undefined members of a row, which Prisma ignores or refuses, as the application configured it. */
function absentIn(row: Row = {}): Row {
  return Object.fromEntries(Object.entries(row).filter(([, value]) => value === undefined))
}

/** Restores Prisma's kind of null for JSON, where the stored value is null; `null` itself, or no field, means DbNull. */
function withNulls({ json, sealed }: KnownModel, row: Row, given: Row | undefined): Row {
  return Object.fromEntries(
    Object.entries(row).map(([field, value]) => {
      const own = given?.[field] ?? null
      if (value !== null || !isNull(own)) return [field, value]
      return [field, own ?? (sealed?.columns.includes(field) && json.has(field) ? DB_NULL : null)]
    }),
  )
}

type Outer = { known: Row; isNew: boolean }

async function nested(model: KnownModel, row: Row | undefined, outer: Outer): Promise<Row> {
  const own = Object.entries(row ?? {}).flatMap(([field, value]) => {
    const relation = model.relations.get(field)
    const writes = relation === undefined ? undefined : readObject(value, `the relation ${field}`)
    return relation === undefined || !writes ? [] : [[field, model.get(relation), writes] as const]
  })
  const writes = own.map(async ([field, other, value]) => {
    const all = Object.entries(value).map(async ([name, args]) => {
      const write = WRITES[name]
      if (!write) return refuseCall(`${name} of the relation ${field}`, 'Write its rows by themselves.')
      if (args === undefined) return [name, args]
      const join = model.joins.get(field)
      if (join) assertNotMoved(join.isOwn ? model : other, join, { name, field, isNew: outer.isNew })
      const inherited = join && !join.isOwn ? inheritedFrom(outer.known, join) : {}
      const relation = { field, other, isList: model.lists.has(field) }
      const isWhole = (one: unknown) => name === 'update' && isPlain(one) && isWholeChange(relation, one)
      const change = (one: unknown) => (isWhole(one) ? sealNested(other, one, undefined) : write(other, one, inherited))
      return [name, await mapOneOrMany(args, change)]
    })
    return [field, Object.fromEntries(await Promise.all(all))]
  })
  return Object.fromEntries(await Promise.all(writes))
}

function inheritedFrom(known: Row, { pairs }: Join): Row {
  return Object.fromEntries(pairs.flatMap(({ own, other }) => (known[own] === undefined ? [] : [[other, known[own]]])))
}

/** Nested writes that change which row another one refers to. */
const MOVES = ['connect', 'connectOrCreate', 'disconnect', 'set']
const MOVES_ITSELF = [...MOVES, 'create', 'delete']

/** Refuses to change a field of an existing row that values are bound to, or that determines its key. */
function assertNotMoved(
  { sealed }: KnownModel,
  { isOwn, pairs }: Join,
  { name, field, isNew }: { name: string; field: string; isNew: boolean },
): void {
  if (!sealed || !(isOwn ? !isNew && MOVES_ITSELF.includes(name) : MOVES.includes(name))) return
  for (const pair of pairs) assertKept(sealed, isOwn ? pair.own : pair.other, `${name} of the relation ${field}`)
}

/**
 * Refuses to change a field that other rows refer to. With `onUpdate: Cascade`, Prisma's default, they get the new
 * value.
 * @throws InvalidInputError if encrypted values of these rows are bound to it, or their key depends on it
 */
function assertReferredTo(model: KnownModel, { values, known }: { values: Row; known: Row }): void {
  for (const [field, { isOwn, pairs }] of model.joins) {
    const { sealed } = model.get(model.relations.get(field) ?? model.name)
    for (const { own, other } of isOwn || !sealed ? [] : pairs) {
      const value = values[own]
      const set = isPlain(value) && 'set' in value ? value.set : value
      const isSame = known[own] !== undefined && String(model.spell(own, set)) === String(known[own])
      if (set !== undefined && !isSame && sealed) assertKept(sealed, other, `a change of ${model.name}.${own}`)
    }
  }
}

function assertKept(sealed: SealedTable, changed: string, call: string): void {
  if (sealed.bind.includes(changed)) {
    const hint = 'Encrypted values of the row are bound to it: create a new row, and delete this one.'
    refuseCall(`${call}, which changes ${sealed.name}.${changed},`, hint)
  }
  sealed.assertKeepsKey({ [changed]: {} }, {})
}

type Write = (model: KnownModel, args: unknown, inherited: Row) => Promise<unknown>

/** Rewrites the members that the arguments have. @throws InvalidInputError for any other member */
async function rewrite(args: unknown, members: Readonly<Record<string, (value: unknown) => unknown>>) {
  const out: Row = { ...readObject(args, 'a nested write') }
  for (const [member, value] of Object.entries(out)) {
    if (value === undefined) continue
    const change = members[member] ?? refuseCall(`${member} in a nested write`, 'Leave it out.')
    out[member] = await change(value)
  }
  return out
}

/** Rewrites a condition; a boolean names the related row, and stays. */
const find: Write = async (model, where) => (typeof where === 'boolean' ? where : rewriteWhere(model, where))

/** @throws InvalidInputError where the row of a nested change would first have to be read */
function sealNested(model: KnownModel, changes: unknown, where: unknown): Promise<unknown> {
  if (isPlain(changes) && !rowsOf.has(changes) && needsRow(model, changes, where)) {
    const by = model.sealed?.bind.map((field) => JSON.stringify(field)).join(' and ') ?? 'its id'
    const hint = `Name its row by ${by}, or write ${model.name} by itself. An update nested in an update, one level deep, needs neither.`
    refuseCall(`a nested write of ${model.name} whose row must be read before`, hint)
  }
  return sealUpdate(model, changes, { where })
}

const updateMany: Write = (model, args) =>
  rewrite(args, {
    where: (where) => find(model, where, {}),
    data: (data) => sealNested(model, data, isPlain(args) ? args.where : undefined),
  })

export type Relation = { field: string; other: KnownModel; isList: boolean }

/**
 * Tells whether a nested update is given as the changes themselves, which a relation to one row allows, or as `{ where,
 * data }`. @throws InvalidInputError where it could be both or neither
 */
export function isWholeChange({ field, other, isList }: Relation, args: Row): boolean {
  if (isList) return false
  const given = Object.keys(args).filter((name) => args[name] !== undefined)
  const isWhole = given.every((name) => other.fields.has(name))
  const hasData = isPlain(args.data) && given.every((name) => name === 'where' || name === 'data')
  if (isWhole === hasData && (other.sealed || other.relations.has('data'))) {
    const hint = 'Write `update: { where: {}, data: { … } }`.'
    refuseCall(`an update of the relation ${field} that could be changes or { where, data }`, hint)
  }
  return !hasData
}

const WRITES: Readonly<Record<string, Write>> = {
  create: sealData,
  createMany: (model, args, inherited) =>
    rewrite(args, { data: (data) => sealData(model, data, inherited), skipDuplicates: (skips) => skips }),
  connect: find,
  connectOrCreate: (model, args, inherited) =>
    rewrite(args, {
      where: (where) => find(model, where, {}),
      create: (row) => sealData(model, row, inherited),
    }),
  delete: find,
  deleteMany: find,
  disconnect: find,
  set: find,
  update: updateMany,
  updateMany,
  upsert: (model, args, inherited) =>
    rewrite(args, {
      where: (where) => find(model, where, {}),
      create: (row) => sealData(model, row, inherited),
      update: (data) => sealNested(model, data, isPlain(args) ? args.where : undefined),
    }),
}
