/** Seals the rows of a model: checks all values first, then seals the fields of each row under one DEK. */
import { encodeSealed, type SealedParts } from '@eaas/protocol'
import { type EaasError, InvalidInputError } from '../errors.js'
import { isMissing, type Row } from '../input.js'
import { createBacklog, type Pace } from '../pace.js'
import { assertIndexColumn } from '../records/blind-indexes.js'
import { attempt, restAndReport, withDeks } from '../records/blocks.js'
import type { MakeSeal } from '../records/envelopes.js'
import { getAt, type Path, withValues } from '../records/paths.js'
import { assertPath } from '../records/plain-rows.js'
import { assertNoColumn, assertNoLookalike, assertNoNullObject } from '../records/presence.js'
import { textOf } from '../records/read-envelope.js'
import type { NamedUse } from '../uses.js'
import { isPromise } from '../waiting.js'
import { bindField, bindRow, findUses } from './bindings.js'
import { assertKind, encodeField, isNothing } from './codecs.js'
import { assertHeaderColumn, packRow } from './compact-rows.js'
import type { Definition, PlacedField } from './definition.js'
import type { IndexColumn } from './index-columns.js'
import { type ColumnTexts, makeColumnTexts, makePartText } from './index-texts.js'
import type { GetValue } from './index-values.js'
import type { ModelDeps, RowsOptions } from './model-deps.js'
import { naming } from './named-errors.js'
import { findLacking } from './pick.js'
import { assertSealColumn, SEAL_FIELD, sealPlaintext } from './row-seal.js'

export interface SealOptions extends RowsOptions {
  /** Whether to seal under a new DEK instead of the key's shared one. */
  ownDek?: boolean
}

/**
 * What is hashed for each index column of a row, in the order of the columns; undefined where a value is
 * missing.
 */
export type RowTexts = readonly (ColumnTexts | undefined)[]

/** What is made of a row before anything is sent. */
export interface RowRead {
  row: Row
  texts: RowTexts
  /** The fields that have a value to seal. */
  present: readonly PlacedField[]
  /** The key of its values; undefined where it has none to seal. */
  keyId: string | undefined
  /** What its values are bound to: see `bindRow`. */
  binding: Uint8Array | undefined
  /** What its DEK is wrapped for. */
  use?: NamedUse | undefined
}

/**
 * Checks every value of each row, and makes the texts of its index columns and what its values are bound to.
 */
export function* readEach(
  definition: Definition,
  rows: readonly Row[],
  indexes: readonly number[],
): Generator<RowRead | EaasError, void, undefined> {
  for (const [at, row] of rows.entries()) {
    yield attempt(() => naming(definition, undefined, () => readRow(definition, row, indexes[at] ?? at)))
  }
}

function readRow(definition: Definition, row: Row, index: number): RowRead {
  const { fields, whole } = definition
  if (whole) assertPicked(definition, whole, row, index)
  const texts = readTexts(definition, row, index)
  const present = fields.filter(({ path, spec }) => !isNothing(spec.missing, getAt(row, path)))
  // Picked fields without a value are bound to nothing, and need no column of the row.
  const mayBeUnbound = whole && (!definition.rowSeal || fields.length === 0)
  if (mayBeUnbound && present.length === 0) return { row, texts, present, keyId: undefined, binding: undefined }
  const keyId = definition.keyOf(row, index)
  const { use } = findUses(definition, row, index) ?? {}
  return { row, texts, present, keyId, binding: bindRow(definition, row, index), use }
}

/**
 * Refuses picked fields of a row with plaintext in other fields, or with an index that no longer fits.
 * @throws InvalidInputError
 */
function assertPicked({ fields, columns, names }: Definition, whole: Definition, row: Row, index: number) {
  const isPicked = ({ name }: PlacedField) => fields.some((field) => field.name === name)
  const others = whole.fields.filter((field) => !isPicked(field))
  const refuse = (field: string, message: string) => {
    throw new InvalidInputError(message, 'Give what belongs together, such as all fields of a sealed row.', {
      index,
      field,
    })
  }
  for (const field of others) {
    assertPath(row, field.path, index)
    if (getAt(row, field.path) !== undefined) refuse(field.name, 'it was not picked, but has a value')
    assertNoLookalike(row, field, names, index)
  }
  const lacking = findLacking(whole, isPicked)
  if (lacking) refuse(lacking.field, lacking.message)
  const stale = whole.columns.find(
    (one) => row[one.column] !== undefined && !columns.some(({ column }) => column === one.column),
  )
  if (stale) refuse(stale.column, 'the index of a field that was not picked')
}

function readTexts(definition: Definition, row: Row, index: number): RowTexts {
  const { name: model, fields, columns, names, format, header } = definition
  for (const field of fields) {
    const { path, spec } = field
    assertPath(row, path, index)
    const value = getAt(row, path)
    if (isMissing(value)) assertNoLookalike(row, field, names, index)
    else assertNoColumn(row, field, index)
    if (value === undefined && !spec.missing.includes(undefined)) assertNoNullObject(row, field, index)
    if (!isNothing(spec.missing, value)) assertKind(spec, value, { index, field: field.name })
  }
  if (format === 'compact') assertHeaderColumn(row, header, index)
  if (definition.rowSeal) assertSealColumn(row, index)
  return columns.map((column) => {
    assertIndexColumn(row, column, { index, field: column.fields[0]?.name ?? '' })
    return findColumnTexts(model, column, row, index)
  })
}

function findColumnTexts(model: string, column: IndexColumn, row: Row, index: number): ColumnTexts | undefined {
  const texts: string[] = []
  for (const field of column.fields) {
    const value = getAt(row, field.path)
    if (isMissing(value)) return undefined
    texts.push(makePartText(column, field, value, index))
  }
  return makeColumnTexts(model, column, texts, { index, field: column.fields[0]?.name ?? '' })
}

export async function sealRows(
  deps: ModelDeps,
  definition: Definition,
  read: readonly RowRead[],
  options: SealOptions & { pace: Pace; indexing: Promise<GetValue> },
): Promise<Row[]> {
  const { envelopes } = deps
  const { fields, format, header, keyByRow } = definition
  const { pace, signal } = options
  const dek = options.ownDek && definition.dek === 'shared' ? 'call' : definition.dek
  const paths = [...fields.map(({ path }) => path), ...(definition.rowSeal ? [SEAL_FIELD.path] : [])]
  const backlog = createBacklog(envelopes.isSync() && !keyByRow) // with a key for each row, many DEKs are wrapped at a time
  const out: Row[] = []
  const encode = format === 'text' ? textOf : encodeSealed
  const put = (at: number, row: Row, present: readonly PlacedField[], sealed: readonly SealedParts[]) => {
    const values = sealed.map((parts, number): [Path, unknown] => [present[number]?.path ?? [], encode(parts)])
    const isSealed = definition.rowSeal && fields.length > 0 // without a field, the stored seal stays
    const full = withValues(isSealed ? { [SEAL_FIELD.name]: null, ...row } : row, values)
    out[at] = format === 'compact' && fields.length > 0 ? packRow(full, paths, header, at) : full
  }
  let isCollecting = false
  const keyOf = (at: number) => read[at]?.keyId
  const useOf = (at: number) => read[at]?.use
  const getValue = definition.rowSeal ? await options.indexing : undefined // the seals are made from the indexes
  await withDeks(deps, { keyOf, useOf, dek, count: read.length, signal }, async (start, end, dekOf) => {
    for (const [number, { row, present, keyId = '', binding, use }] of read.slice(start, end).entries()) {
      const at = start + number
      // Not before the first row: its wrap must be requested in the same turn as the hashes. Nor while wraps of rows
      // with their own keys are collected, which would then go out in many small requests.
      if (at > 0 && !isCollecting && pace.due())
        await restAndReport(deps, pace, options, { done: at, total: read.length })
      const plaintexts = present.map(({ path, name, spec }) => ({
        bytes: encodeField(spec, getAt(row, path), { index: at, field: name }),
        aad: binding && bindField(definition, keyId, name, binding),
      }))
      const own = dekOf(at)
      const makeSeal: MakeSeal | undefined =
        getValue &&
        binding &&
        ((values) => {
          const cellOf = ({ name }: PlacedField) => values[present.findIndex((field) => field.name === name)]
          return sealPlaintext(definition, keyId, { row: indexesOf(definition, read[at], getValue), binding, cellOf })
        })
      const sealed = own
        ? envelopes.sealAllWith(own, plaintexts, makeSeal)
        : plaintexts.length === 0 && !makeSeal
          ? []
          : envelopes.sealAll(plaintexts, { keyId, signal, seal: makeSeal, use })
      const placed = makeSeal ? [...present, SEAL_FIELD] : present
      if (isPromise(sealed)) {
        const flushed = backlog.add(sealed.then((list) => put(at, row, placed, list)))
        isCollecting = keyByRow && flushed === undefined
        await flushed
      } else {
        isCollecting = false
        put(at, row, placed, sealed)
      }
    }
  })
  await backlog.flush()
  return out
}

/** The values of a row's index columns. */
export function indexesOf({ columns }: Definition, read: RowRead | undefined, getValue: GetValue): Row {
  const values = columns.map((column, number): [string, unknown] => {
    const texts = read?.texts[number]
    return [column.column, texts === undefined ? null : getValue(column, texts)]
  })
  return Object.fromEntries(values)
}
