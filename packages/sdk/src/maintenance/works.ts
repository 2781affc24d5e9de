/** What each kind of work makes of rows that were read: columns to write, nothing, or an error. */
import { ContentError, type EaasError, InvalidInputError, isEaasError, type RecordPlace } from '../errors.js'
import { isMissing, type Row } from '../input.js'
import { type Definition, ROW_SEAL } from '../models/definition.js'
import type { IndexColumn } from '../models/index-columns.js'
import { hashColumnTexts } from '../models/index-texts.js'
import type { ModelRows } from '../models/model-rows.js'
import { copyStored, readJobs } from '../models/open-rows.js'
import { looksSealed, readPlain } from '../models/plain-texts.js'
import { readEach, rewrapRows } from '../models/rotation.js'
import { type RowRead, readRow, type SealDeps } from '../models/seal-rows.js'
import { attempt } from '../records/blocks.js'
import { getAt, type Path, withValues } from '../records/paths.js'
import type { RowForms, TableCounts } from './forms.js'
import { findLibrary, isOldVersion, isUnreadable, isUnsealed, lacksIndex } from './forms.js'

/**
 * Turns content that is not an envelope into its field's plaintext. `row` has the model's columns as they were read:
 * compare them with what the other library bound the value to. What it throws is hidden, except an error of the SDK.
 */
export type Reader = (stored: unknown, row: Readonly<Row>) => unknown

export interface Workshop {
  definition: Definition
  read: Readonly<Record<string, Reader>>
  counts: TableCounts
  rows: ModelRows
  deps: SealDeps
  signal: AbortSignal | undefined
  loadRows: (some: Definition) => Promise<{ rows: ModelRows }>
}

export type FoundRow = { row: Row; forms: RowForms }

export type Outcome =
  | { status: 'changed'; to: Row }
  | { status: 'current' }
  /** `to` has changed indexes that do not depend on the failed value. */
  | { status: 'failed'; error: EaasError; to?: Row }

/** Returns an outcome for each row, in order. If `dry`, nothing is sealed, and `to` may be empty. */
export type Work = (shop: Workshop, found: readonly FoundRow[], dry: boolean) => Promise<Outcome[]>
const CURRENT: Outcome = { status: 'current' }
/** Errors about one row. Any other error would recur for all rows, so it ends the run. */
const ROW_ERRORS: readonly string[] = ['E_INVALID_INPUT', 'E_DECRYPTION', 'E_CONTENT'] satisfies EaasError['code'][]

export const WORKS = {
  seal: sealWhatIsNot,
  index: indexAll,
  rewrap: rewrapOld,
  reseal: (shop, found, dry) => (dry ? trySealing(shop, found) : sealAgain(shop, found, { ownDek: true })),
  look: async (_, found) => found.map(() => CURRENT),
  compare: compareIndexes,
  open: openAll,
} as const satisfies Record<string, Work>

async function compareIndexes(shop: Workshop, found: readonly FoundRow[]): Promise<Outcome[]> {
  const { definition, counts } = shop
  const isOpenable = ({ forms }: FoundRow) => !isUnsealed(definition, forms) || isUnreadable(forms)
  const openable = found.filter(isOpenable)
  const outcomes = new Map<FoundRow, Outcome>()
  for (const [at, outcome] of (await writeIndexes(shop, openable)).entries()) {
    const one = openable[at]
    if (!one || outcome.status === 'current') continue
    const { forms } = one
    if (!isUnsealed(definition, forms) && !lacksIndex(forms) && !isOldVersion(forms)) counts.left++
    if (outcome.status === 'failed') outcomes.set(one, outcome)
    else {
      for (const column of Object.keys(outcome.to)) {
        const index = counts.indexes[column]
        if (index && forms.indexes.get(column) === 'present') index.wrong++
      }
    }
  }
  return found.map((one) => outcomes.get(one) ?? CURRENT)
}

/** Seals rows with a value that is not sealed in the model's way, and adds indexes to rows that only lack those. */
async function sealWhatIsNot(shop: Workshop, found: readonly FoundRow[], dry: boolean): Promise<Outcome[]> {
  const { definition } = shop
  const toSeal = found.filter(({ forms }) => isUnsealed(definition, forms))
  const toIndex = found.filter(({ forms }) => !isUnsealed(definition, forms) && lacksIndex(forms))
  const outcomes = new Map<FoundRow, Outcome>()
  const sealed = dry ? await trySealing(shop, toSeal) : await sealAgain(shop, toSeal, { ownDek: false })
  for (const [at, outcome] of sealed.entries()) put(outcomes, toSeal[at], outcome)
  for (const [at, outcome] of (await indexAll(shop, toIndex, dry)).entries()) put(outcomes, toIndex[at], outcome)
  return found.map((one) => outcomes.get(one) ?? CURRENT)
}

async function sealAgain(shop: Workshop, found: readonly FoundRow[], own: { ownDek: boolean }): Promise<Outcome[]> {
  const { definition, rows, signal } = shop
  const { outcomes, opened } = await openEach(shop, found)
  const plain = opened.map(({ plain }) => plain)
  const sealed = await rows.sealEach(plain, { signal, indexes: [...opened.keys()], ...own })
  for (const [at, row] of sealed.entries()) {
    const one = opened[at]?.one
    // A closed key ends the run if it was to seal, since the whole page failed. If it was to open, see `openEach`.
    if (isEaasError(row) && row.code === 'E_API') throw row
    if (isEaasError(row)) put(outcomes, one, failRowOrThrow(row))
    else if (one) outcomes.set(one, write(changedColumns(definition, one.row, row)))
  }
  return inOrder(found, outcomes)
}

/** For a dry run: opens rows and reads them as for sealing, so that the same rows fail, but seals nothing. */
async function trySealing(shop: Workshop, found: readonly FoundRow[]): Promise<Outcome[]> {
  const { outcomes, opened } = await openEach(shop, found)
  for (const { one, row } of readOpened(shop.definition, opened)) {
    const isAllEmpty = [...one.forms.fields.values()].every(({ form }) => form === 'empty')
    if (isEaasError(row)) outcomes.set(one, failRowOrThrow(row))
    else outcomes.set(one, isAllEmpty ? CURRENT : { status: 'changed', to: {} })
  }
  return inOrder(found, outcomes)
}

/** Replaces sealed values by plaintext. Indexes stay, since the application searches by them to the end. */
async function openAll(shop: Workshop, found: readonly FoundRow[]): Promise<Outcome[]> {
  const { definition } = shop
  const { outcomes, opened } = await openEach(
    shop,
    found.filter((one) => isSealed(definition, one)),
  )
  for (const { one, plain } of opened) {
    const refused = refuseSealed(definition, plain)
    const kept = definition.fields.filter(({ name }) => one.forms.fields.get(name)?.form === 'plaintext')
    const after = withValues(
      plain,
      kept.map(({ path }) => [path, getAt(one.row, path)] as const),
    )
    outcomes.set(one, refused ?? write(changedColumns({ ...definition, columns: [] }, one.row, after)))
  }
  return found.map((one) => outcomes.get(one) ?? refuseSealed(definition, one.row) ?? CURRENT)
}

function isSealed({ rowSeal }: Definition, { row, forms }: FoundRow): boolean {
  if (rowSeal && !isMissing(row[ROW_SEAL])) return true
  return [...forms.fields.values()].some(({ form }) => form !== 'empty' && form !== 'plaintext')
}

/** Fails a row whose opened values look encrypted: the next run would take them for sealed ones. */
function refuseSealed({ fields }: Definition, plain: Row): Outcome | undefined {
  for (const { name, path } of fields) {
    const value = getAt(plain, path)
    const what = looksSealed(value) ? 'an envelope' : findLibrary(value)?.name
    if (what === undefined) continue
    const hint = 'Open this row by a program of your own, and look at the value.'
    const error = new ContentError(`its plaintext looks like ${what}`, hint, { index: 0, field: name })
    return { status: 'failed', error }
  }
  return undefined
}

/** Computes indexes again. A row seal covers them, so such a row is sealed again. Plaintext rows stay plaintext. */
async function indexAll(shop: Workshop, found: readonly FoundRow[], dry: boolean): Promise<Outcome[]> {
  const outcomes = await writeIndexes(shop, found)
  if (!shop.definition.rowSeal) return indexOthers(shop, found, outcomes)
  if (dry) return outcomes
  const changed = found.filter((one, at) => outcomes[at]?.status === 'changed' && isSealed(shop.definition, one))
  const again = await sealAgain(shop, changed, { ownDek: false })
  return found.map((one, at) => again[changed.indexOf(one)] ?? outcomes[at] ?? CURRENT)
}

/** For rows that failed because of one column, adds the indexes of the others to their outcomes, so that searches find them. */
async function indexOthers(shop: Workshop, found: readonly FoundRow[], outcomes: Outcome[]): Promise<Outcome[]> {
  const all = [...outcomes]
  const headOf = (name: string | undefined) => shop.definition.fields.find((one) => one.name === name)?.path[0]
  const failed = outcomes.map((one) =>
    one.status === 'failed' && 'place' in one.error ? one.error.place?.field : undefined,
  )
  for (const head of new Set(failed.map(headOf))) {
    const isOther = ({ path }: { path: Path }) => path[0] !== head
    const fields = shop.definition.fields.filter(isOther)
    const columns = shop.definition.columns.filter((column) => column.fields.every(isOther))
    if (head === undefined || columns.length === 0) continue
    const rows = [...found.entries()].filter(([at]) => headOf(failed[at]) === head)
    const without = rows.map(([, { row, forms }]) => ({ row: { ...row, [head]: null }, forms }))
    const definition = { ...shop.definition, fields, columns }
    const others = { ...shop, definition, rows: (await shop.loadRows(definition)).rows }
    for (const [number, made] of (await indexOthers(others, without, await writeIndexes(others, without))).entries()) {
      const at = rows[number]?.[0] ?? -1
      const before = all[at]
      if (before?.status === 'failed' && made.status !== 'current' && made.to) all[at] = { ...before, to: made.to }
    }
  }
  return all
}

async function writeIndexes(shop: Workshop, found: readonly FoundRow[]): Promise<Outcome[]> {
  const { definition, deps, signal } = shop
  const { outcomes, opened } = await openEach(shop, found)
  const read = readOpened(definition, opened)
  const texts = read.map(({ row }) => (isEaasError(row) ? [] : row.texts))
  const getValue = await hashColumnTexts(deps, definition, texts, { signal })
  const columnsOf = ({ texts }: RowRead, row: Row) =>
    definition.columns.flatMap((column, number): [string, unknown][] => {
      const made = texts[number]
      const value = made === undefined ? null : getValue(column, made)
      return isSameIndex(column, row[column.column], value) ? [] : [[column.column, value]]
    })
  for (const { one, row } of read) {
    outcomes.set(one, isEaasError(row) ? failRowOrThrow(row) : write(Object.fromEntries(columnsOf(row, one.row))))
  }
  return inOrder(found, outcomes)
}

/** Renews old wrapped keys. An unreadable row fails: if it counted as `current`, its version might be destroyed. */
async function rewrapOld(shop: Workshop, found: readonly FoundRow[], dry: boolean): Promise<Outcome[]> {
  const { definition, deps, signal } = shop
  const accepting = { ...definition, acceptUnbound: definition.envelope === 2 }
  const due = found.filter(({ forms }) => isOldVersion(forms) || isUnreadable(forms))
  const outcomes = new Map<FoundRow, Outcome>()
  if (dry) for (const one of due) outcomes.set(one, tryReading(accepting, one))
  else {
    const rows = due.map(({ row }) => row)
    const options = { signal, batchSize: Math.max(1, rows.length) }
    const batches = rewrapRows({ ...deps, copyStored, readJobs }, accepting, rows, options)
    for await (const { items } of batches) {
      for (const item of items) {
        const one = due[item.index]
        if (item.status === 'failed') put(outcomes, one, failRowOrThrow(item.error))
        else if (one && item.status === 'changed') {
          outcomes.set(one, { status: 'changed', to: changedColumns(definition, one.row, item.row) })
        }
      }
    }
  }
  return found.map((one) => outcomes.get(one) ?? CURRENT)
}

/** Reads a row's envelopes as `rewrapRows` does, without the service, so that the same rows fail. */
function tryReading(definition: Definition, { row }: FoundRow): Outcome {
  const read = attempt(() => readJobs(definition, copyStored(definition, row, 0), 0))
  return isEaasError(read) ? failRowOrThrow(read) : { status: 'changed', to: {} }
}

type OpenedRow = { one: FoundRow; plain: Row }

function readOpened(definition: Definition, opened: readonly OpenedRow[]) {
  const plain = opened.map(({ plain }) => plain)
  const read = readEach({ readRow }, definition, plain, [...opened.keys()])
  return read.flatMap((row, at) => opened.slice(at, at + 1).map(({ one }) => ({ one, row })))
}

/** Opens rows, after the readers have read values that are not envelopes. Failed rows then have an outcome. */
async function openEach(shop: Workshop, found: readonly FoundRow[]) {
  const outcomes = new Map<FoundRow, Outcome>()
  const readable: { one: FoundRow; row: Row }[] = []
  // All together, so that a reader that calls a service can batch them.
  const read = await Promise.all(found.map((one) => readForeign(shop, one)))
  for (const [at, one] of found.entries()) {
    const row = read[at] ?? one.row
    if (isEaasError(row)) outcomes.set(one, failRowOrThrow(row))
    else readable.push({ one, row })
  }
  const result = await shop.rows.open(
    readable.map(({ row }) => row),
    { signal: shop.signal },
  )
  const opened: OpenedRow[] = []
  for (const [at, plain] of result.ok.entries()) {
    const one = readable[result.indexes[at] ?? at]?.one
    if (one) opened.push({ one, plain })
  }
  for (const { index, error } of result.failed) put(outcomes, readable[index]?.one, failRowOrThrow(error))
  return { outcomes, opened }
}

/** Replaces values by what their readers return. Returns an error if the model does not accept one. */
async function readForeign({ definition, read }: Workshop, { row, forms }: FoundRow): Promise<Row | EaasError> {
  const values: [Path, unknown][] = []
  for (const field of definition.fields) {
    const { name, path } = field
    const form = forms.fields.get(name)?.form
    const place = { index: 0, field: name }
    if (form === 'v1' && definition.envelope === 2 && !definition.acceptUnbound)
      return new InvalidInputError('it is bound to nothing', 'Pass a model with `acceptUnbound: true`.', place)
    if (form !== 'plaintext') continue
    const stored = getAt(row, path)
    if (typeof stored === 'symbol') {
      const hint =
        'No reader gets it either. Give the column the type text, where text() and a reader get it as written.'
      return new ContentError(`it is ${stored.description}`, hint, place)
    }
    const reader = read[name]
    const plain = reader ? await readOne(() => reader(stored, row), place) : stored
    if (isEaasError(plain)) return plain
    if (isMissing(plain)) return new ContentError('its reader refused the value', 'Look at the stored value.', place)
    const library = plain === stored ? findLibrary(stored) : undefined
    if (library) {
      const hint = `Give the column ${library.reader}() as its reader: it would be sealed as if it were plaintext.`
      return new ContentError(`it begins as what ${library.name} encrypted`, hint, place)
    }
    if (reader) values.push([path, plain])
    else if (!definition.acceptPlaintext) {
      const hint = 'Pass a model with `acceptPlaintext: true`, or give the column a reader.'
      return new InvalidInputError('it is not encrypted', hint, place)
    } else {
      const value = attempt(() => ({ value: readPlain(definition, field, stored, 0) }))
      if (isEaasError(value)) return value
      values.push([path, value.value])
    }
  }
  return values.length === 0 ? row : withValues(row, values)
}

/** Returns an error, or undefined if the reader refuses. @throws an SDK error that is not about this value */
async function readOne(read: () => unknown, place: RecordPlace): Promise<unknown> {
  try {
    return await read()
  } catch (error) {
    if (!isEaasError(error)) return undefined // another library's error may quote the value
    if (!ROW_ERRORS.includes(error.code)) throw error
    return error.code === 'E_CONTENT' && !error.place ? new ContentError(error.message, error.hint, place) : error
  }
}

/** Codes for a key, or a version of it, that does not open, now or ever. They affect only its own rows. */
const CLOSED: readonly string[] = ['E_STATE', 'E_KEY_DESTROYED', 'E_VERSION_DESTROYED', 'E_VERSION_TOO_OLD']

/** Returns a failed row's outcome. @throws the error, which ends the run, if it would affect rows of other keys */
function failRowOrThrow(error: EaasError): Outcome {
  const isClosedKey = error.code === 'E_API' && CLOSED.includes(error.problem)
  if (ROW_ERRORS.includes(error.code) || isClosedKey) return { status: 'failed', error }
  throw error
}

function write(to: Row): Outcome {
  return Object.keys(to).length === 0 ? CURRENT : { status: 'changed', to }
}

function changedColumns({ fields, columns, header, rowSeal }: Definition, before: Row, after: Row): Row {
  const names = [...fields.map(({ path }) => path[0] ?? ''), ...columns.map(({ column }) => column), header]
  if (rowSeal) names.push(ROW_SEAL)
  const to: Row = {}
  for (const name of new Set(names)) {
    const value = after[name] ?? null
    if (value !== (before[name] ?? null)) to[name] = value
  }
  return to
}

function isSameIndex({ kind }: IndexColumn, stored: unknown, made: unknown): boolean {
  if (kind !== 'ngram' || !Array.isArray(stored) || !Array.isArray(made)) return (stored ?? null) === made
  return stored.length === made.length && stored.every((one, at) => one === made[at])
}

function put(outcomes: Map<FoundRow, Outcome>, one: FoundRow | undefined, outcome: Outcome): void {
  if (one) outcomes.set(one, outcome)
}

function inOrder(found: readonly FoundRow[], outcomes: ReadonlyMap<FoundRow, Outcome>): Outcome[] {
  return found.map((one) => {
    const outcome = outcomes.get(one)
    if (!outcome) throw new Error('a row has no outcome') // the row must never count as done
    return outcome
  })
}
