/** Seals the rows of a model, and makes its indexes. With a synchronous engine, its loops await nothing per field. */
import { encodeFieldText, encodeSealed, type SealedParts } from '@eaas/protocol'
import type { OwnDek } from '../deks/random.js'
import { assertNotAborted, isMissing, type Row } from '../input.js'
import { assertIndexColumn, type RecordsDeps, type RowsOptions, restAndReport } from '../records/blocks.js'
import { getAt, type Path, withValues } from '../records/paths.js'
import { assertNoColumn, assertNoNullObject, assertPath, copyRows } from '../records/plain-rows.js'
import { textOf } from '../records/read-envelope.js'
import type { MakeSeal } from '../records/seal-envelopes.js'
import type { NamedUse } from '../uses.js'
import { createBacklog, createPace, isPromise, type Pace, type Soon } from '../waiting.js'
import { bindField, bindRow, findUses, named, naming, rareOf } from './bindings.js'
import { encodeField } from './codecs.js'
import { assertHeaderColumn, headerTextOf, packRow } from './compact-rows.js'
import { type Definition, isCompactFormat, isNothing, type PlacedField, type Rare, SEAL_FIELD } from './definition.js'
import { type IndexColumn, makeFieldText } from './index-columns.js'
import { type ColumnTexts, type GetValue, hashColumnTexts, inParallel, makeColumnTexts } from './index-texts.js'

export interface SealDeps extends RecordsDeps {
  loadRare: () => Soon<Rare>
}

function needRare({ whole, ...definition }: Definition, rows: readonly Row[]): boolean {
  const { fields, columns, rowSeal, dek } = definition
  return (
    whole !== undefined || // the other fields are also checked
    rowSeal ||
    dek !== 'shared' ||
    fields.some(({ spec }) => spec.kind === 'json') ||
    columns.some(({ kind, source }) => kind === 'range' || source.secret === undefined || source.oblivious) ||
    rows.some((row) => fields.some(({ path }) => isMissing(getAt(row, path))))
  )
}

export async function sealRows(
  deps: SealDeps,
  definition: Definition,
  records: readonly Row[],
  options: SealOptions,
): Promise<Row[]> {
  const { bind, late, named: key, whole = definition } = definition
  assertNotAborted(options.signal)
  const rows = copyRows(records, { paths: [...whole.fields, ...bind].map(({ path }) => path), toStore: true })
  await key?.find(deps.ensureKey, options.signal)
  if (!late.rare && needRare(definition, rows)) late.rare = await deps.loadRare()
  const pace = createPace()
  const read: RowRead[] = []
  for (const [at, row] of rows.entries()) {
    if (pace.due()) await pace.rest(options.signal)
    // For a change, the application gave a condition, not a record that could be named.
    read.push(naming(definition, definition.whole && row, () => readRow(definition, row, at)))
  }
  return sealRead(deps, definition, read, { ...options, pace })
}

export async function sealRead(
  deps: RecordsDeps,
  definition: Definition,
  read: readonly RowRead[],
  options: SealOptions & { pace: Pace },
): Promise<Row[]> {
  await deps.envelopes.ready()
  const texts = read.map((one) => one.texts)
  const [getValue, sealed] = await inParallel(definition, options.signal, (signal) => {
    const indexing = hashColumnTexts(deps, definition, texts, { ...options, signal }) // in one request with the wrap
    return [indexing, sealValues(deps, definition, read, { ...options, signal, indexing })]
  }).catch((error: unknown) => {
    throw named(error, definition)
  })
  for (const [at, row] of sealed.entries()) Object.assign(row, indexesOf(definition, read[at], getValue))
  options.onProgress?.({ done: read.length, total: read.length })
  return sealed
}

const LOW_ENTROPY =
  /^(?:birth(?:day|date)?|dateofbirth|dob|born|age|gender|sex|zip(?:code)?|postal(?:code)?|postcode|plz|country|nationality|religion|race|ethnicity|marital|blood|diagnosis|salary|pin)$/

const checked = new WeakSet<Definition>()

/** Finds the indexes that reveal all their values, and of which the model warns. Only at the first call. */
export function findFewValues(definition: Definition): IndexColumn[] {
  if (checked.has(definition)) return []
  checked.add(definition)
  return definition.warn
    ? definition.columns.filter(({ fields }) => fields.every(({ name }) => hasFewValues(name)))
    : []
}

function hasFewValues(field: string): boolean {
  const words = field.split(/[^A-Za-z]+|(?<=[a-z])(?=[A-Z])/).map((word) => word.toLowerCase())
  // Two words in a row may be one: `post_code`.
  return words.some((word, at) => LOW_ENTROPY.test(word) || LOW_ENTROPY.test(word + (words[at + 1] ?? '')))
}

export interface SealOptions extends RowsOptions {
  /** Whether to seal under a new DEK instead of the key's shared one. */
  ownDek?: boolean
}

/** In the order of the columns; undefined if a value is missing. */
export type RowTexts = readonly (ColumnTexts | undefined)[]

export interface RowRead {
  row: Row
  texts: RowTexts
  present: readonly PlacedField[]
  /** The key of its values; undefined if it has none to seal. */
  keyId: string | undefined
  binding: Uint8Array | undefined
  use?: NamedUse | undefined
}

/** Checks every value of a row. Makes the texts of its index columns, and what its values are bound to. */
export function readRow(definition: Definition, row: Row, index: number): RowRead {
  const { fields, whole } = definition
  if (whole) rareOf(definition).assertPicked(definition, whole, row, index)
  const texts = readTexts(definition, row, index)
  const present = fields.filter(({ path, spec }) => !isNothing(spec.missing, getAt(row, path)))
  // Picked fields without a value are bound to nothing, and need no column of the row.
  const mayBeUnbound = whole && (!definition.rowSeal || fields.length === 0)
  if (mayBeUnbound && present.length === 0) return { row, texts, present, keyId: undefined, binding: undefined }
  const keyId = definition.keyOf(row, index)
  const { use } = findUses(definition, row, index) ?? {}
  return { row, texts, present, keyId, binding: bindRow(definition, row, index), use }
}

function readTexts(definition: Definition, row: Row, index: number): RowTexts {
  const { fields, columns, names, format, header } = definition
  const rare = rareOf(definition)
  for (const field of fields) {
    const { path, spec } = field
    assertPath(row, path, index)
    const value = getAt(row, path)
    if (isMissing(value)) rare.assertNoLookalike(row, field, names, index)
    else assertNoColumn(row, field, index)
    if (value === undefined && !spec.missing.includes(undefined)) assertNoNullObject(row, field, index)
    if (!isNothing(spec.missing, value)) spec.assert(value, { index, field: field.name }, rare)
  }
  if (isCompactFormat(format)) assertHeaderColumn(row, header, index)
  if (definition.rowSeal) rare.assertSealColumn(row, index)
  return columns.map((column) => {
    assertIndexColumn(row, column, { index, field: column.fields[0]?.name ?? '' })
    return findColumnTexts(definition, column, row, index)
  })
}

function findColumnTexts(definition: Definition, column: IndexColumn, row: Row, index: number) {
  const makeText = column.kind === 'range' ? rareOf(definition).makeBucketText : makeFieldText
  const texts: string[] = []
  for (const field of column.fields) {
    const value = getAt(row, field.path)
    if (isMissing(value)) return undefined
    texts.push(makeText(field, value, index))
  }
  return makeColumnTexts(definition.name, column, texts, { index, field: column.fields[0]?.name ?? '' })
}

async function sealValues(
  deps: RecordsDeps,
  definition: Definition,
  read: readonly RowRead[],
  options: SealOptions & { pace: Pace; indexing: Promise<GetValue> },
): Promise<Row[]> {
  const { envelopes } = deps
  const { fields, format, header, keyByRow } = definition
  const rare = rareOf(definition)
  const { pace, signal } = options
  const dek = options.ownDek && definition.dek === 'shared' ? 'call' : definition.dek
  const paths = [...fields.map(({ path }) => path), ...(definition.rowSeal ? [SEAL_FIELD.path] : [])]
  const backlog = createBacklog(envelopes.isSync() && !keyByRow) // if each row has its own key, many DEKs are wrapped at a time
  const out: Row[] = []
  const encode = format === 'text' ? textOf : format === 'compact-text' ? encodeFieldText : encodeSealed
  const put = (at: number, row: Row, present: readonly PlacedField[], sealed: readonly SealedParts[]) => {
    const values = sealed.map((parts, number): [Path, unknown] => [present[number]?.path ?? [], encode(parts)])
    const isSealed = definition.rowSeal && fields.length > 0 // without fields, the stored seal stays
    const full = withValues(isSealed ? { [SEAL_FIELD.name]: null, ...row } : row, values)
    if (fields.length === 0 || !isCompactFormat(format)) out[at] = full
    else if (format === 'compact') out[at] = packRow(full, paths, definition, at)
    else out[at] = { ...full, [header]: sealed[0] ? headerTextOf(sealed[0]) : null }
  }
  let isCollecting = false
  const keyOf = (at: number) => read[at]?.keyId
  const useOf = (at: number) => read[at]?.use
  const getValue = definition.rowSeal ? await options.indexing : undefined // the seals cover the indexes
  const sealBlock = async (start: number, end: number, dekOf: (at: number) => OwnDek | undefined) => {
    for (const [number, { row, present, keyId = '', binding, use }] of read.slice(start, end).entries()) {
      const at = start + number
      // No rest before the first row: its wrap must be requested in the same turn as the hashes. Nor while wraps of
      // rows with their own keys are collected, which would otherwise be sent in many small requests.
      if (at > 0 && !isCollecting && pace.due())
        await restAndReport(deps, pace, options, { done: at, total: read.length })
      const plaintexts = present.map(({ path, name, spec }) => ({
        bytes: encodeField(spec, getAt(row, path), { index: at, field: name }, rare),
        aad: binding && bindField(definition, keyId, name, binding),
      }))
      const own = dekOf(at)
      const makeSeal: MakeSeal | undefined =
        getValue &&
        binding &&
        ((values) => {
          const cellOf = ({ name }: PlacedField) => values[present.findIndex((field) => field.name === name)]
          const row = indexesOf(definition, read[at], getValue)
          return rare.sealPlaintext(definition, keyId, { row, binding, cellOf })
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
  }
  const count = read.length
  if (dek === 'shared') await sealBlock(0, count, () => undefined)
  else await rare.withDeks(deps, { keyOf, useOf, dek, count, signal }, sealBlock)
  await backlog.flush()
  return out
}

function indexesOf({ columns }: Definition, read: RowRead | undefined, getValue: GetValue): Row {
  const values = columns.map((column, number): [string, unknown] => {
    const texts = read?.texts[number]
    return [column.column, texts === undefined ? null : getValue(column, texts)]
  })
  return Object.fromEntries(values)
}
