/**
 * `@eaas/sdk/maintenance`: finds the form of the values in a model's stored rows, and what to write so that they get
 * the form in which the model stores them now. For tools that work through a table, such as the backfill of
 * `@eaas/cli`. The tools read and write the table themselves.
 */
import { InvalidInputError } from './errors.js'
import { assertFlag, assertOneOf, assertOptions, type DekScope, kindOf, type Row, readSignal } from './input.js'
import { countForms, createCounts, readForms, type TableCounts, type Versions } from './maintenance/forms.js'
import { type FoundRow, type Outcome, type Reader, WORKS } from './maintenance/works.js'
import { type Definition, isCompactFormat, ROW_SEAL, type RowFormat } from './models/definition.js'
import type { IndexColumn } from './models/index-columns.js'
import type { AnyModel } from './models/model.js'
import { findInternals, getInternals } from './models/model-access.js'
import type { RecordsDeps } from './records/blocks.js'
import type { CallOptions } from './resources/keys.js'

export { DatabaseError, withoutPlace } from './errors.js'
// With these, a tool's functions refuse wrong options as the SDK's do.
export { assertFlag, assertNotAborted, assertOptions, assertWhole, kindOf, nearestName, type Row } from './input.js'
export type { FieldCounts, IndexCounts, TableCounts } from './maintenance/forms.js'
export { spelledAs } from './maintenance/forms.js'
export type { Outcome, Reader } from './maintenance/works.js'
export { isKept } from './models/plain-texts.js'
export type { AnyModel }

/** The columns of a model's table, by the model's names. */
export interface TableColumns {
  readonly fields: readonly string[]
  /** Contain the value of an index, or several with `list`, made from the columns `of`. */
  readonly indexes: readonly { readonly column: string; readonly list: boolean; readonly of: readonly string[] }[]
  readonly bind: readonly string[]
  /** Contains what the fields of a compact row share. The table may lack it if the model writes another form. */
  readonly header: { readonly column: string; readonly required: boolean }
}

/** What distinguishes a model from others. */
export interface DescribedModel {
  name: string
  envelope: 1 | 2
  format: RowFormat
  dek: DekScope
  /** whether it has a secret of its own for its indexes */
  hasSecret: boolean
  /** names or ids; `by row` if each row has a key of its own */
  keys: string[] | 'by row'
  bind: string[]
  fields: string[]
  indexes: DescribedIndex[]
  table: TableColumns
}

/** What an index's values depend on. */
export interface DescribedIndex {
  column: string
  kind: string
  /** for a prefix, or each part in an n-gram index: in characters; 0 for an exact index */
  length: number
  bits: number | null
  shared: boolean
  fields: {
    name: string
    kind: string
    range: { readonly step: number } | 'day' | 'month' | 'year' | null
    normalize: string[]
  }[]
  /** the name of the secret that makes it; null if the service makes it */
  secret: string | null
  /** whether the service takes part without seeing the values */
  oblivious: boolean
  /** the id or name of its key, if that is not the model's */
  key: string | null
}

/**
 * What to do with each row. `seal` seals rows with a value that is not sealed in the model's way (plaintext, format v1,
 * a former key, another library's), and adds missing indexes. `index` computes all indexes again; ciphertexts stay.
 * `rewrap` renews wrapped keys of old versions; ciphertexts stay. `reseal` seals every row again under new DEKs. `look`
 * only counts the forms. `compare` also opens each row and compares its indexes. `open` is the opposite of `seal`: it
 * returns the fields' values to write, as the model's `decrypt` returns them; indexes stay.
 */
export type MaintenanceWork = keyof typeof WORKS

export interface MaintenanceOptions extends CallOptions {
  work: MaintenanceWork
  /** By field: turns a stored value that is not an envelope into the field's value. To refuse it, returns null or undefined, or throws. */
  read?: Readonly<Record<string, Reader>> | undefined
  /** Seals nothing, and leaves out of the outcomes what would be written. */
  dryRun?: boolean | undefined
}

export interface Maintenance {
  /** What was found in the rows so far, before anything was written. Contains no value of a field. */
  readonly found: TableCounts
  /**
   * Returns an outcome for each row, in order. A row's error contains no value of a field.
   * @param again whether `found` already counts the rows, which have changed since
   * @throws the errors of a client that are about all rows, such as NetworkError
   */
  workOn(rows: readonly Readonly<Row>[], again?: boolean): Promise<Outcome[]>
}

/**
 * Tells whether a value is a model that these functions take, which this copy of the SDK made. For tools that load a
 * model from an application's module, which may use another copy.
 * @example
 * ```ts
 * console.log(isModel(users), isModel({})) // → true false
 * ```
 */
export function isModel(value: unknown): value is AnyModel {
  return findInternals(value) !== undefined
}

/**
 * Returns what distinguishes a model from others, as JSON values, with an application's normalizers as their source
 * text. For tools that continue an earlier run, which must have had the same model.
 * @throws InvalidInputError when it is not a model of this copy of the SDK
 * @example
 * ```ts
 * console.log(describeModel(users).fields) // → [ 'email', 'phone' ]
 * ```
 */
export function describeModel(model: AnyModel): DescribedModel {
  const { definition } = getInternals(model)
  const { name, envelope, format, dek, hasSecret, named, keyByRow, keyIds, bind, fields, columns } = definition
  const ids = [...keyIds].filter((id) => id !== named?.id) // the name stands for it
  return {
    name,
    envelope,
    format,
    dek,
    hasSecret,
    keys: keyByRow ? 'by row' : named ? [named.name, ...ids] : ids,
    bind: bind.map((column) => column.name),
    fields: fields.map((field) => field.name),
    indexes: columns.map(describeIndex),
    table: columnsOf(definition),
  }
}

/**
 * Returns the current versions of the model's keys, by their ids. For tools that continue an earlier `rewrap`: rows
 * that it rewrapped are old again if a key was rotated since. Asks the service, which takes `keys:read`.
 * @throws InvalidInputError when it is not a model of this copy of the SDK; the errors of a client
 * @example
 * ```ts
 * console.log(Object.values(await getVersions(users))) // → [ 1 ]
 * ```
 */
export async function getVersions(model: AnyModel, options: CallOptions = {}): Promise<Record<string, number>> {
  const signal = readSignal('getVersions()', options)
  const { definition, load } = getInternals(model)
  const { deps } = await load(definition)
  await definition.named?.find(deps.findKey, signal)
  return Object.fromEntries(await readVersions(definition, deps, signal))
}

/**
 * Begins to work on stored rows: looks up the current versions of the model's keys. Needs `keys:read`, `wrap` and
 * `unwrap`, and `hash` where the service makes the indexes or takes part; `look` and `compare` need no `wrap`. `open`
 * needs only `unwrap`, looks up no version and so counts no `oldVersion`.
 * @throws InvalidInputError when an option is wrong, or each row of the model has a key of its own; the errors of a
 * client
 * @example
 * ```ts
 * const { workOn } = await maintain(users, { work: 'rewrap' })
 * for (const outcome of await workOn(rows)) if (outcome.status === 'changed') console.log(Object.keys(outcome.to))
 * ```
 */
export async function maintain(model: AnyModel, options: MaintenanceOptions): Promise<Maintenance> {
  const signal = readSignal('maintain()', options, ['work', 'read', 'dryRun', 'signal'])
  const { work, read: given = {}, dryRun = false } = options
  assertOneOf('work', work, Object.keys(WORKS))
  assertFlag('dryRun', dryRun)
  const { definition, load } = getInternals(model)
  if (definition.keyByRow) {
    const hint = 'Seal such rows by `encryptMany` or `reseal` of the model.'
    throw new InvalidInputError('a backfill needs a model with one key, not a key for each row', hint)
  }
  const isOpening = work === 'open'
  const read = readReaders(given, definition)
  if (isOpening && Object.keys(read).length > 0)
    throw new InvalidInputError('read is not for open', 'Seal such values first.', { option: 'read' })
  // `readForeign` refuses plaintext that the model does not accept; here, plaintext from a reader must pass.
  const loadRows = (some: Definition) => load({ ...some, acceptPlaintext: true, plainIsRead: true, warn: false })
  const { rows, deps } = await loadRows(definition)
  await definition.named?.find(deps.findKey, signal)
  const versions: Versions = isOpening ? new Map() : await readVersions(definition, deps, signal)
  const found = createCounts(definition)
  const shop = { definition, read, counts: found, rows, deps, signal, loadRows }
  return {
    found,
    workOn(list, again = false) {
      const read = list.map((row): FoundRow => ({ row, forms: readForms(definition, row, versions) }))
      if (!again) for (const { forms } of read) countForms(found, definition, forms)
      return WORKS[work](shop, read, dryRun)
    },
  }
}

async function readVersions({ keyIds }: Definition, { getKey }: RecordsDeps, signal?: AbortSignal): Promise<Versions> {
  const read = async (id: string) => [id, (await getKey(id, signal)).current_version] as const
  return new Map(await Promise.all([...keyIds].map(read)))
}

function describeIndex({ source, fields, ...index }: IndexColumn): DescribedIndex {
  const { column, kind, length, bits = null, shared } = index
  return {
    ...{ column, kind, length, bits, shared },
    fields: fields.map(({ name, spec: { kind, normalize, range = null } }) => ({
      ...{ name, kind, range },
      normalize: normalize.map((step) => (typeof step === 'function' ? String(step) : step)),
    })),
    secret: source.secret ?? null,
    oblivious: source.secret !== undefined && source.oblivious,
    key: source.keyId ?? source.named?.name ?? null,
  }
}

function columnsOf({ fields, columns, bind, header, format, rowSeal }: Definition): TableColumns {
  const heads = (list: readonly { path: readonly string[] }[]) => [...new Set(list.map(({ path }) => path[0] ?? ''))]
  return {
    fields: [...heads(fields), ...(rowSeal ? [ROW_SEAL] : [])],
    indexes: columns.map(({ column, kind, fields }) => ({ column, list: kind === 'ngram', of: heads(fields) })),
    bind: heads(bind),
    header: { column: header, required: isCompactFormat(format) },
  }
}

/** Copies what is given under names that the application chose, without inherited members. @throws InvalidInputError */
export function readMembers<T>(name: string, given: Readonly<Record<string, T>>, known: readonly string[]) {
  assertOptions(name, given)
  const own: Record<string, T> = Object.assign(Object.create(null), given)
  assertOptions(name, own, known)
  return own
}

function readReaders(given: Readonly<Record<string, Reader>>, { fields }: Definition) {
  const names = fields.map(({ name }) => name)
  const read = readMembers('read', given, names)
  const wrong = Object.values(read).find((reader) => typeof reader !== 'function')
  if (wrong === undefined) return read
  const message = `read: a reader must be a function, got ${kindOf(wrong)}`
  throw new InvalidInputError(message, undefined, { option: 'read' })
}
