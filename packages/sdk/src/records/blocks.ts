/**
 * What calls on many rows, of records and of models, share: blocks, the DEKs of a block, rests and progress, and the
 * columns of blind indexes.
 */
import { decodeUtf8, encodeUtf8, type wire } from '@eaas/protocol'
import { type DecryptDeks, dekName } from '../deks/decrypt-deks.js'
import type { EncryptDeks, Wrap } from '../deks/encrypt-deks.js'
import { createOwnDek, type OwnDek, type Secret } from '../deks/secret.js'
import { AbortedError, type EaasError, InvalidInputError, isEaasError, placedAt, type RecordPlace } from '../errors.js'
import type { Batcher } from '../http/batcher.js'
import { assertHashable, type DekScope, HASH_BITS, isMissing, type Row, valueIn } from '../input.js'
import { inEitherUse, type NamedUse } from '../uses.js'
import { createBacklog, isPromise, type Pace, together } from '../waiting.js'
import type { OpenableParts } from './bound-envelopes.js'
import type { Envelopes } from './envelopes.js'
import type { Rewrap } from './rewrapping.js'

/** How many records are decoded at a time, so that memory does not grow with the list. */
export const BLOCK_RECORDS = 1_000

/** The progress of a call on many records, in records. */
export interface Progress {
  done: number
  total: number
}

/** What a call on many records takes from its caller. */
interface Report {
  signal?: AbortSignal | undefined
  onProgress?: ((progress: Progress) => void) | undefined
}

/** The parts that seal and open for one client. `parts.ts` puts them together. */
export interface RecordsDeps {
  wrap: Wrap
  rewrap: Rewrap
  envelopes: Envelopes
  /** The DEKs that seal. */
  encryptDeks: EncryptDeks
  decryptDeks: DecryptDeks
  /** The index secrets, cached as the DEKs that open; a name stands for the wrapped key. */
  indexSecrets: DecryptDeks
  batcher: Batcher
  /** Aborted when the client is closed. */
  closed: AbortSignal
  /** Gets a key with its versions. */
  getKey(keyId: string, signal: AbortSignal | undefined): Promise<wire.KeyWithVersions>
  /** Returns the id of the key of this name, whatever its status; undefined where there is none. */
  findKey(name: string): Promise<string | undefined>
  /** Returns the id of the active key of this name, which it creates where there is none. */
  ensureKey(name: string): Promise<string>
}

interface DeksOptions {
  /** The key of a record; undefined where it has nothing to seal. */
  keyOf: (at: number) => string | undefined
  /** What the DEK of a record is wrapped for; the same for all of a call where they share it. */
  useOf?: (at: number) => NamedUse | undefined
  dek: DekScope
  count: number
  signal: AbortSignal | undefined
}

/**
 * Runs the task for blocks of records. `dekOf` returns the DEK made for a record, or for its key in this
 * call, and undefined with the scope `shared`. The DEKs of a block are wrapped together and released after
 * it.
 */
export async function withDeks(
  { wrap, decryptDeks }: Pick<RecordsDeps, 'wrap' | 'decryptDeks'>,
  { keyOf, useOf, dek, count, signal }: DeksOptions,
  task: (start: number, end: number, dekOf: (at: number) => OwnDek | undefined) => Promise<void>,
): Promise<void> {
  const block = dek === 'record' ? BLOCK_RECORDS : count
  const nameOf = (at: number) => (dek === 'call' ? keyOf(at) : at)
  for (let start = 0; start < count; start += block) {
    const end = Math.min(count, start + block)
    const wanted = new Map<string | number | undefined, { keyId: string; use: NamedUse | undefined }>()
    for (let at = start; at < end && dek !== 'shared'; at++) {
      const keyId = keyOf(at)
      if (keyId !== undefined) wanted.set(nameOf(at), { keyId, use: useOf?.(at) })
    }
    const own = await createDeks([...wanted.values()].map(({ keyId, use }) => createOwnDek(wrap, keyId, signal, use)))
    const deks = new Map([...wanted.keys()].map((name, number) => [name, own[number]]))
    try {
      if (dek === 'call') for (const { wrapped, dek } of own) decryptDeks.add(wrapped, dek)
      await task(start, end, (at) => deks.get(nameOf(at)))
    } finally {
      for (const { dek } of own) dek.release()
    }
  }
}

async function createDeks(making: readonly Promise<OwnDek>[]): Promise<OwnDek[]> {
  const made = await Promise.allSettled(making)
  const deks = made.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
  const failed = made.find((result) => result.status === 'rejected')
  if (!failed) return deks
  for (const { dek } of deks) dek.release()
  throw failed.reason
}

/** One value to open. */
export interface OpenJob {
  place: RecordPlace
  parts: OpenableParts
  /** The name of its DEK. */
  dek?: string
  /** Set if it was already opened to check its DEK. */
  plaintext?: Uint8Array
}

/** How the jobs of a block are opened. */
export interface Opening<J extends OpenJob> extends Report {
  pace: Pace
  /** What `onProgress` receives before the job is opened. */
  progressOf(job: J): Progress
  /** Takes the plaintext of a job. An error of the SDK that it throws goes to `fail`. */
  take(job: J, plaintext: Uint8Array): void
  /** Takes the error of a job that does not open; what it throws ends the block. */
  fail(job: J, error: EaasError): void
}

/** The DEKs that were unwrapped so far, by their names. */
type Deks = Map<string, Secret>

/** Runs a task for each block of records, and releases the DEKs that were unwrapped. */
export async function eachBlock(count: number, task: (start: number, deks: Deks) => Promise<void>): Promise<void> {
  const deks: Deks = new Map()
  try {
    for (let start = 0; start < count; start += BLOCK_RECORDS) await task(start, deks)
  } finally {
    for (const dek of deks.values()) dek.release()
  }
}

/**
 * Opens the jobs of a block, in order. Unwraps each wrapped key that is not in `deks` yet, all in one request; a
 * refused one fails the jobs that need it.
 */
export async function openBlock<J extends OpenJob>(
  deps: RecordsDeps,
  jobs: readonly J[],
  deks: Deks,
  opening: Opening<J>,
): Promise<void> {
  const { envelopes } = deps
  const { pace, signal } = opening
  const refused = await unwrapEach(deps, jobs, deks, signal)
  const backlog = createBacklog(envelopes.isSync())
  for (const job of jobs) {
    if (pace.due()) await restAndReport(deps, pace, opening, opening.progressOf(job))
    const { parts, place, dek: name = '' } = job
    const fail = (error: unknown) => {
      if (!isEaasError(error)) throw error
      opening.fail(job, placedAt(error, place))
    }
    const take = (plaintext: Uint8Array) => opening.take(job, plaintext)
    const dek = deks.get(name)
    if (!dek) {
      fail(refused.get(name))
      continue
    }
    try {
      const plaintext = job.plaintext ?? envelopes.openWith(dek, parts, place)
      if (isPromise(plaintext)) await backlog.add(plaintext.then(take).catch(fail))
      else take(plaintext)
    } catch (error) {
      fail(error)
    }
  }
  await backlog.flush()
}

/**
 * Unwraps each wrapped key that is not in `deks` yet, all in one request, and adds the DEKs. Opening the
 * first envelope of each proves that its DEK is the right one. Returns the errors of refused ones by their
 * DEK's name, in the order of the jobs. The caller releases `deks`: nothing is added once this has settled.
 */
async function unwrapEach(
  { decryptDeks, envelopes }: RecordsDeps,
  jobs: readonly OpenJob[],
  deks: Deks,
  signal: AbortSignal | undefined,
): Promise<Map<string, EaasError>> {
  const firsts = new Map<string, OpenJob>()
  for (const job of jobs) {
    const name = dekName(job.parts)
    job.dek = name
    if (!deks.has(name) && !firsts.has(name)) firsts.set(name, job)
  }
  const refused = new Map<string, EaasError>()
  const unwrap = async ([name, job]: [string, OpenJob]) => {
    try {
      job.plaintext = await inEitherUse(job.parts, (parts) =>
        decryptDeks.use(parts, signal, (dek) => {
          deks.set(name, dek.share())
          return envelopes.openWith(dek, parts, job.place) // proves that it is the right one and may be cached
        }),
      )
    } catch (error) {
      refused.set(name, failureOf(error))
    }
  }
  const outcomes = await Promise.allSettled([...firsts].map(unwrap))
  const failed = outcomes.find((outcome) => outcome.status === 'rejected')
  if (failed) throw failed.reason
  return refused
}

/**
 * Gives the event loop a turn and reports progress. @throws AbortedError when the signal is aborted or the
 * client closed
 */
export async function restAndReport(
  { closed }: Pick<RecordsDeps, 'closed'>,
  pace: Pace,
  { signal, onProgress }: Report,
  progress: Progress,
): Promise<void> {
  await pace.rest(signal)
  if (closed.aborted) throw new AbortedError()
  onProgress?.(progress)
}

/** Returns an error that fails some values alone. @throws any other error: of an abort, or not of the SDK */
export function failureOf(error: unknown): EaasError {
  if (!isEaasError(error) || error.code === 'E_ABORTED') throw error
  return error
}

/** Returns the function's result, or the error of the SDK that it throws. */
export function attempt<T>(run: () => T): T | EaasError {
  try {
    return run()
  } catch (error) {
    if (!isEaasError(error)) throw error
    return error
  }
}

/** How many values are hashed at a time: a few full requests. */
const BLOCK_HASHES = 4_000

/** How the texts that models make of names and values begin (index-texts.md 2). */
const MADE_TEXT = /^eaas\/(?:index|compound)\//
const COLON = 0x3a

/**
 * Refuses a value that cannot be hashed as it is, or whose hash would equal that of other values in an index of a
 * model. @throws InvalidInputError
 */
export function assertHashedAsItIs(value: unknown, place?: RecordPlace): void {
  assertHashable(value, place)
  if (!MADE_TEXT.test(value)) return
  throw new InvalidInputError('text for a shared index must not begin as the text of another index', undefined, place)
}

/** Returns the blind index of each value. */
export async function hashEach(
  batcher: Batcher,
  values: ReadonlySet<string>,
  { keyId, signal }: { keyId: string; signal?: AbortSignal | undefined },
): Promise<Map<string, string>> {
  const hashes = new Map<string, string>()
  const list = [...values]
  for (let start = 0; start < list.length; start += BLOCK_HASHES) {
    const block = list.slice(start, start + BLOCK_HASHES)
    const made = await together(signal, (own) => block.map((one) => batcher.hash(one, keyId, own, valuesIn(one))))
    for (const [at, one] of block.entries()) hashes.set(one, made[at] ?? '')
  }
  return hashes
}

/** The values from which a model made a text (index-texts.md 2). */
function valuesIn(text: string): string[] {
  if (!MADE_TEXT.test(text)) return []
  const values: string[] = []
  const bytes = encodeUtf8(text)
  for (let at = text.indexOf(':'); at < bytes.length; ) {
    const start = bytes.indexOf(COLON, at + 1) + 1
    const end = start + Number(decodeUtf8(bytes.subarray(at + 1, start - 1)))
    values.push(decodeUtf8(bytes.subarray(start, end)))
    at = end
  }
  return text.startsWith('eaas/index/') ? values.slice(2) : values // without the names of the model and the column
}

/** A column of an index, and how many bits of the index it holds; all by default. */
interface HashColumn {
  column: string
  bits?: number | undefined
  /** `ngram` where it holds a list of indexes. */
  kind?: string
}

/** Refuses a record whose index column holds anything else, which would be overwritten. @throws InvalidInputError */
export function assertIndexColumn(record: Row, column: HashColumn, place: RecordPlace): void {
  if (isIndexColumn(record, column)) return
  throw new InvalidInputError(
    `the index would overwrite the column ${JSON.stringify(column.column)}`,
    'Leave it out of the row: the index fills it. Or name another column for the index.',
    place,
  )
}

/** Tells whether a record's column is empty or holds an index, whole or truncated. */
export function isIndexColumn(record: Row, { column, bits = HASH_BITS, kind }: HashColumn): boolean {
  const value = valueIn(record, column)
  if (isMissing(value)) return true
  const digits = [HASH_BITS / 4, Math.ceil(bits / 4)]
  const isIndex = (one: unknown) => typeof one === 'string' && digits.includes(one.length) && /^[0-9a-f]+$/.test(one)
  return kind === 'ngram' ? Array.isArray(value) && value.every(isIndex) : isIndex(value)
}
