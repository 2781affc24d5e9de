/** Opens the rows of a model, block by block. Each row may fail on its own. */
import type { SealedParts } from '@eaas/protocol'
import { type EaasError, InvalidInputError, isEaasError, type RecordPlace } from '../errors.js'
import { assertArray, assertNotAborted, hasRows, isMissing, type Row } from '../input.js'
import { attempt, BLOCK_RECORDS, failureOf, isIndexColumn, type OpenDeps, type RowsOptions } from '../records/blocks.js'
import { eachBlock, type Opening, type OpenJob, openBlock } from '../records/open-blocks.js'
import { demandAad, foreignKey, type OpenableParts } from '../records/open-envelopes.js'
import { getAt, type Path, withValues } from '../records/paths.js'
import { assertNoNullObject, assertPath, copyRow } from '../records/plain-rows.js'
import { type Uses, wrappedFor } from '../uses.js'
import { createPace, type Soon } from '../waiting.js'
import { bindField, bindRow, findUses, named, naming, rareOf } from './bindings.js'
import { isHeaderUsed, readEnvelopeAt } from './compact-rows.js'
import { type Definition, isNothing, PADDING, type PlacedField, type Rare, SEAL_FIELD } from './definition.js'
import type { FieldCode } from './fields.js'
import type { Accepted } from './model-types.js'

// Naming the format reveals nothing: the envelope shows it.
const V1_HINT =
  'It is of format v1 or from server mode, bound to nothing. If you know who sealed it, pass `acceptUnbound: true`; else restore it from a backup.'
const V2_HINT =
  'It is of format v2, which a model with `envelope: 1` does not open: leave the option out; else restore it from a backup.'

export interface FailedRow {
  index: number
  error: EaasError
}

/** The rows that opened, in order, and those that did not. */
export interface RowsResult<R> {
  ok: R[]
  failed: FailedRow[]
}

/** The result with each opened row's index in the given list. */
export interface Opened extends RowsResult<Row> {
  indexes: number[]
}

interface Job extends OpenJob {
  field: PlacedField
  value?: unknown
  error?: EaasError
}

interface Deps extends OpenDeps {
  accepted: Accepted
  loadRare: () => Soon<Rare>
}

export async function openRows(
  deps: Deps,
  definition: Definition,
  rows: readonly unknown[],
  { first = 0, ...options }: RowsOptions & { first?: number },
): Promise<Opened> {
  const { late } = definition
  assertNotAborted(options.signal)
  assertArray('records', rows)
  const failure = await definition.named?.find(deps.findKey, options.signal).catch(failureOf)
  await deps.envelopes.ready()
  const opening: Opening<Job> = {
    ...{ ...options, pace: createPace() },
    progressOf: ({ place }) => ({ done: place.index - first, total: rows.length }),
    take(job, plaintext) {
      job.value = decodeField(job.field.spec, plaintext, job.place)
    },
    fail(job, error) {
      job.error = error
    },
  }
  const result: Opened = { ok: [], failed: [], indexes: [] }
  await eachBlock(rows.length, async (start, deks) => {
    const block = rows.slice(start, start + BLOCK_RECORDS)
    const copies = Array.from(block, (given, at) => attempt(() => copyStored(definition, given, first + start + at)))
    if (!late.rare && copies.some((row) => needsRare(definition, row))) late.rare = await deps.loadRare()
    const read = copies.map((row, at) => {
      if (isEaasError(row)) return row
      const index = first + start + at
      return attempt(() => ({ row, jobs: naming(definition, row, () => readJobs(definition, row, index, failure)) }))
    })
    const jobs = read.flatMap((one) => (isEaasError(one) ? [] : one.jobs))
    await openBlock(deps, jobs, deks, opening)
    for (const [at, one] of read.entries()) {
      const index = first + start + at
      const row = isEaasError(one) ? one : join(deps, definition, { ...one, index })
      if (isEaasError(row)) {
        const error = isEaasError(one) ? row : named(row, definition, one.row)
        result.failed.push({ index, error })
      } else {
        result.ok.push(row)
        result.indexes.push(index)
      }
    }
  })
  options.onProgress?.({ done: rows.length, total: rows.length })
  return result
}

function needsRare({ rowSeal, acceptPlaintext, fields }: Definition, row: Row | EaasError): boolean {
  return rowSeal || acceptPlaintext || (!isEaasError(row) && fields.some(({ path }) => getAt(row, path) === undefined))
}

export function copyStored({ fields, bind, header, rowSeal, whole }: Definition, row: unknown, index: number): Row {
  const own = rowSeal ? [...(whole?.fields ?? fields), SEAL_FIELD] : fields
  const paths = [...own, ...bind].map(({ path }) => path)
  return copyRow(row, { index, paths: [...paths, [header]], toStore: false })
}

/** `failure`: why the model's key is unknown. @throws InvalidInputError if it is not a row; DecryptionError */
export function readJobs(definition: Definition, row: Row, index: number, failure?: EaasError): Job[] {
  const { fields, names, keyIds, keyByRow, header } = definition
  let binding: Uint8Array | undefined
  let own: string | undefined
  let uses: Uses | undefined
  const assertOwn = ({ key_id }: SealedParts, hint: string, place: RecordPlace) => {
    if (keyIds.has(key_id)) return
    if (keyByRow) own ??= definition.keyOf(row, index)
    if (own === key_id) return
    if (failure) throw failure
    throw foreignKey(key_id, keyByRow ? "the row's" : "the model's", hint, place)
  }
  const demand = (parts: SealedParts, place: RecordPlace) => {
    if (definition.envelope === 1) return demandAad(parts, { aad: undefined, hint: V2_HINT }, place)
    // Only for a bound value: an unbound one does not need the row's columns.
    if (parts.commitment) binding ??= bindRow(definition, row, index)
    const aad = bindField(definition, parts.key_id, place.field, binding ?? new Uint8Array(0))
    return demandAad(parts, { aad, acceptUnbound: definition.acceptUnbound, hint: V1_HINT }, place)
  }
  const forRow = (parts: OpenableParts) => wrappedFor(parts, () => (uses ??= findUses(definition, row, index)))
  const jobs = fields.flatMap((field) => {
    const place = { index, field: field.name }
    assertPath(row, field.path, index)
    const value = getAt(row, field.path)
    if (!isMissing(value)) {
      if (definition.acceptPlaintext && rareOf(definition).acceptPlain(definition, field, value, index)) return []
      const parts = readEnvelopeAt(row, field.path, header, place)
      assertOwn(parts, 'Name former keys in `formerKeyIds`, or restore the envelope.', place)
      return [{ place, field, parts: forRow(demand(parts, place)) }]
    }
    if (value === undefined) rareOf(definition).assertNoLookalike(row, field, names, index)
    if (isLeftOut(field, value)) return []
    assertNoNullObject(row, field, index)
    const hint = hasRows(row)
      ? 'Pass one of its `rows`, or all of them to decryptMany().'
      : 'Read its column too, or declare the field optional() or nullable().'
    throw new InvalidInputError(`the value is ${String(value)}`, hint, place)
  })
  const sealPlace = { index, field: SEAL_FIELD.name }
  if (!definition.rowSeal || fields.length === 0 || !rareOf(definition).hasSeal(definition, row, sealPlace)) return jobs
  const parts = readEnvelopeAt(row, SEAL_FIELD.path, header, sealPlace)
  assertOwn(parts, 'Restore the row.', sealPlace)
  const cellOf = ({ name, path }: PlacedField) => {
    if (isMissing(getAt(row, path))) return undefined
    const place = { index, field: name }
    return jobs.find(({ field }) => field.name === name)?.parts ?? readEnvelopeAt(row, path, header, place)
  }
  binding ??= bindRow(definition, row, index)
  const bound = { row, binding: binding ?? new Uint8Array(0), cellOf }
  const aad = rareOf(definition).sealAad(definition, parts.key_id, bound)
  const openable = forRow(demandAad(parts, { aad, hint: V1_HINT }, sealPlace))
  return [...jobs, { place: sealPlace, field: SEAL_FIELD, parts: openable }]
}

/** Returns the row with its opened values, or its first error. Counts the values that were not sealed. */
function join(
  { accepted }: Deps,
  definition: Definition,
  { row, jobs, index }: { row: Row; jobs: readonly Job[]; index: number },
): Row | EaasError {
  const { fields, columns, header } = definition
  const values: [Path, unknown][] = []
  for (const job of jobs) {
    if (job.error) return job.error
    if (job.field !== SEAL_FIELD) values.push([job.field.path, job.value])
  }
  const { acceptPlaintext, acceptUnbound, envelope, rowSeal } = definition
  if (envelope === 2) accepted.unbound += jobs.filter(({ parts }) => !parts.commitment).length
  if (rowSeal && acceptUnbound && isMissing(row.row_seal)) accepted.unbound++
  if (acceptPlaintext) rareOf(definition).countPlain(accepted, definition, row, jobs)
  for (const field of fields) {
    const { path, spec } = field
    const value = getAt(row, path)
    if (value === null && !spec.missing.includes(null)) values.push([path, undefined])
    else if (!isMissing(value) && !jobs.some((job) => job.field === field))
      values.push([path, rareOf(definition).readPlain(definition, field, value, index)])
  }
  const plain = withValues(row, values)
  for (const column of columns) if (isIndexColumn(row, column)) delete plain[column.column] // any other value is the application's
  if (definition.rowSeal && columns.length === (definition.whole ?? definition).columns.length)
    delete plain[SEAL_FIELD.name]
  const paths = [...fields.map(({ path }) => path), ...(definition.rowSeal ? [SEAL_FIELD.path] : [])]
  if (isHeaderUsed(row, paths, header)) delete plain[header]
  return plain
}

/** Tells whether a stored row may lack a value: databases store null for a value that was left out. */
function isLeftOut({ spec }: PlacedField, value: null | undefined): boolean {
  return isNothing(spec.missing, value) || (value === null && spec.missing.includes(undefined))
}

/** Reads opened bytes as a value of the field's kind (codecs.md), padded or not. @throws ContentError */
export function decodeField(spec: FieldCode, opened: Uint8Array, place: RecordPlace): unknown {
  return spec.decode(spec.kind === 'bytes' ? opened : withoutPadding(opened), place)
}

function withoutPadding(opened: Uint8Array): Uint8Array {
  let end = opened.length
  while (opened[end - 1] === 0) end--
  return opened[end - 1] === PADDING ? opened.subarray(0, end - 1) : opened
}
