/** What calls on many rows share, for records and models: rests, progress, and the recognition of index columns. */
import type { wire } from '@eaas/protocol'
import type { DecryptDeks } from '../deks/decrypt-deks.js'
import type { EncryptDeks, Wrap } from '../deks/encrypt-deks.js'
import type { createOwnDek } from '../deks/random.js'
import { AbortedError, type EaasError, InvalidInputError, isEaasError, type RecordPlace } from '../errors.js'
import type { Batcher } from '../http/batcher.js'
import { assertHashable, HASH_BITS, isMissing, type Row, valueIn } from '../input.js'
import type { Pace } from '../waiting.js'
import type { EnvelopeEngine } from './bound-envelopes.js'
import type { Rewrap } from './rewrapping.js'
import type { Envelopes } from './seal-envelopes.js'

/** How many records are decoded at a time, so that memory does not grow with the list. */
export const BLOCK_RECORDS = 1_000

/** Counts of records. */
export interface Progress {
  done: number
  total: number
}

export interface RowsOptions {
  /** Ends the call, which then throws `AbortedError`. */
  signal?: AbortSignal | undefined
  /** Called regularly, and at the end. */
  onProgress?: ((progress: Progress) => void) | undefined
}

export interface KeyLookup {
  getKey(keyId: string, signal: AbortSignal | undefined): Promise<wire.KeyWithVersions>
  /** Returns the id of the key with this name, whatever its status; undefined if there is none. */
  findKey(name: string): Promise<string | undefined>
  /** Returns the id of the active key with this name, and creates it if there is none. */
  ensureKey(name: string): Promise<string>
}

export interface OpenDeps extends KeyLookup {
  rewrap: Rewrap
  envelopes: EnvelopeEngine
  decryptDeks: DecryptDeks
  batcher: Batcher
  closed: AbortSignal
}

export interface RecordsDeps extends OpenDeps {
  wrap: Wrap
  createOwnDek: typeof createOwnDek
  envelopes: Envelopes
  encryptDeks: EncryptDeks
  /** The index secrets, cached like the DEKs that open, with a name in place of the wrapped key. */
  indexSecrets: DecryptDeks
}

/** Lets the event loop run, and reports progress. @throws AbortedError when aborted or closed */
export async function restAndReport(
  { closed }: Pick<RecordsDeps, 'closed'>,
  pace: Pace,
  { signal, onProgress }: RowsOptions,
  progress: Progress,
): Promise<void> {
  await pace.rest(signal)
  if (closed.aborted) throw new AbortedError()
  onProgress?.(progress)
}

/** Returns an error that fails only some values. @throws any other error: an abort, or one that is not the SDK's */
export function failureOf(error: unknown): EaasError {
  if (!isEaasError(error) || error.code === 'E_ABORTED') throw error
  return error
}

/** Returns the function's result, or the SDK error that it throws. */
export function attempt<T>(run: () => T): T | EaasError {
  try {
    return run()
  } catch (error) {
    if (!isEaasError(error)) throw error
    return error
  }
}

interface HashColumn {
  column: string
  bits?: number | undefined
  /** `ngram` if it holds a list of indexes. */
  kind?: string
}

/** Tells whether a record's column is empty or holds an index, whole or truncated. */
export function isIndexColumn(record: Row, { column, bits = HASH_BITS, kind }: HashColumn): boolean {
  const value = valueIn(record, column)
  if (isMissing(value)) return true
  const digits = [HASH_BITS / 4, Math.ceil(bits / 4)]
  const isIndex = (one: unknown) => typeof one === 'string' && digits.includes(one.length) && /^[0-9a-f]+$/.test(one)
  return kind === 'ngram' ? Array.isArray(value) && value.every(isIndex) : isIndex(value)
}

/** Refuses a record whose index column holds anything else, which would be overwritten. @throws InvalidInputError */
export function assertIndexColumn(record: Row, column: HashColumn, place: RecordPlace): void {
  if (isIndexColumn(record, column)) return
  const hint = 'Leave it out of the row: the index fills it. Or name another column for the index.'
  throw new InvalidInputError(`the index would overwrite the column ${JSON.stringify(column.column)}`, hint, place)
}

/** The beginning of texts that models make from names and values (index-texts.md 2). */
export const MADE_TEXT = /^eaas\/(?:index|compound)\//

/** Refuses what cannot be hashed, and text that begins like a model's index text. @throws InvalidInputError */
export function assertHashedAsItIs(value: unknown, place?: RecordPlace): void {
  assertHashable(value, place)
  if (!MADE_TEXT.test(value)) return
  throw new InvalidInputError('text for a shared index must not begin as the text of another index', undefined, place)
}
