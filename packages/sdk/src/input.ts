/** Turns what callers pass into typed values, and refuses anything else before the network is used. */
import {
  APPLICATION_SECRET_BYTES,
  type Context,
  decodeUtf8,
  encodeUtf8,
  FormatError,
  isUuid,
  isWellFormed,
  isZero,
} from '@eaas/protocol'
import { AbortedError, ContentError, InvalidInputError, type RecordPlace } from './errors.js'

/** The longest plaintext of one envelope. On some platforms, a longer one's base64 would not fit in a string. */
const MAX_PLAINTEXT_BYTES = 256 * 1024 * 1024
/** The longest text for a blind index, in bytes of JSON. It fits into the 1 MiB of a call. */
const MAX_HASHED_JSON_BYTES = 1_000_000
/** The most bytes of JSON for one UTF-16 code unit. */
const MOST_ESCAPED = 6
export const HASH_BITS = 256
export const MAX_TIMEOUT_MS = 2 ** 31 - 1
/** Bytes in unshared memory, a `BufferSource`; since TypeScript 5.7 `Uint8Array<ArrayBuffer>`. */
export type Bytes = ReturnType<typeof Uint8Array.of>
export type Row = Record<string, unknown>

export function assertKeyId(keyId: unknown, option = 'keyId'): asserts keyId is string {
  if (typeof keyId === 'string' && isUuid(keyId)) return
  throw new InvalidInputError(
    keyId === undefined ? `${option} is missing` : `${option}: a key's id is a UUID, lower case, with dashes`,
    'Pass the `id` of a key, from await eaas.keys.ensure() or list(); not its name.',
  )
}

/** Runs a reader of a format. @throws InvalidInputError with `what` before the FormatError's message */
export function readFormat<T>(read: () => T, what: string, hint: string, place?: RecordPlace): T {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof FormatError)) throw error
    throw new InvalidInputError(what + error.message, hint, place)
  }
}

/**
 * Which DEK seals: `shared` uses the key's DEK within its limits; `call` makes one for the call; `record` makes one for
 * each record, so that a leaked DEK opens only one record. Each new DEK takes a wrap and an audit entry.
 */
export type DekScope = 'shared' | 'call' | 'record'

export function assertScope(scope: unknown): void {
  assertOneOf('dek', scope, ['shared', 'call', 'record'] satisfies DekScope[])
}

/** Refuses `undefined` for options whose absence removes protection. @throws InvalidInputError */
export function assertGiven<T extends object>(options: T, names: readonly (keyof T & string)[]): void {
  const forgotten = names.find((name) => name in options && options[name] === undefined)
  if (forgotten === undefined) return
  throw new InvalidInputError(`${forgotten} is undefined`, 'Give it, or leave the option out: see what that allows.')
}

/** What a caller may demand of an envelope to open. */
export interface DemandOptions<C = Context> {
  /**
   * The context under which it was sealed. An envelope that is bound to another one, or has format v1, does not open.
   * Without this option, envelopes of format v1 and those with the empty context open. An explicit `undefined` is
   * refused, since it is usually a forgotten variable.
   */
  context?: C
  /** `true` opens an envelope of format v1, which is bound to nothing, even if `context` is given. Only for a migration. */
  acceptUnbound?: boolean | undefined
  /**
   * The ids of the keys under which it may be sealed; by default any key of the tenant. Without it, an attacker who can
   * write to your database could put an envelope of another key there. An explicit `undefined` is refused.
   */
  keyIds?: readonly string[]
}

/** Returns a copy of the demands, since the caller may change the original. @throws InvalidInputError */
export function readDemand<C>(options: DemandOptions<C>): DemandOptions<C> {
  assertGiven(options, ['context', 'keyIds'])
  const { context, acceptUnbound, keyIds } = options
  assertFlag('acceptUnbound', acceptUnbound)
  if (keyIds !== undefined && !Array.isArray(keyIds)) throw new InvalidInputError('keyIds must be an array of ids')
  for (const one of keyIds ?? []) assertKeyId(one, 'keyIds')
  const demand: DemandOptions<C> = { acceptUnbound }
  if (context !== undefined) demand.context = copyPlain(context)
  if (keyIds) demand.keyIds = [...keyIds]
  return demand
}

/** Refuses any format except 1 and 2, and with 1 a context or a secret. @throws InvalidInputError */
export function assertFormat(options: { context?: unknown; envelope?: unknown }, hasSecret = false): void {
  assertGiven(options, ['context'])
  const { context, envelope = 2 } = options
  assertOneOf('envelope', envelope, [1, 2])
  if (envelope === 2 || (context === undefined && !hasSecret)) return
  const what = hasSecret ? 'secret' : 'context'
  throw new InvalidInputError(`${what} needs envelope 2`, 'Leave out `envelope: 1`: that format has neither.')
}

/** Bytes as platforms have them: a buffer, or a view of one with elements of any type. */
export type Binary = ArrayBuffer | ArrayBufferView

/** Returns the bytes of a value to seal; text becomes UTF-8. @throws InvalidInputError */
export function readValue(value: unknown, place?: RecordPlace): Uint8Array {
  const bytes =
    typeof value === 'string'
      ? readFormat(() => encodeUtf8(value), '', 'Pass a Uint8Array if the value is not text.', place)
      : readBinary(value)
  if (!bytes) {
    const hint = 'Use encryptJson() for other values. A detached buffer has no bytes.'
    throw new InvalidInputError(`a value must be a string or bytes, got ${kindOf(value)}`, hint, place)
  }
  if (bytes.length > MAX_PLAINTEXT_BYTES) {
    const message = `a value must be at most ${MAX_PLAINTEXT_BYTES} bytes, got ${bytes.length}`
    throw new InvalidInputError(message, 'Split it.', place)
  }
  return bytes
}

/** Returns the bytes of a buffer or view, in the same memory; undefined for anything else, and if it is detached. */
export function readBinary(value: unknown): Uint8Array | undefined {
  if (value instanceof Uint8Array && value.length > 0) return value
  try {
    const view = ArrayBuffer.isView(value) ? value : new DataView(value as ArrayBuffer) // throws unless it is a buffer, from any realm
    return new Uint8Array(view.buffer, view.byteOffset, view.byteLength)
  } catch {
    return undefined // a detached buffer, which would be sealed as if it were empty, or something else
  }
}

/** Refuses what `readValue` refuses, but does not encode text. @throws InvalidInputError */
export function assertValue(value: unknown, place?: RecordPlace): void {
  if (!isWellFormed(value)) readValue(value, place)
}

export function toText(bytes: Uint8Array, place?: RecordPlace): string {
  try {
    return decodeUtf8(bytes)
  } catch {
    const hint = 'Read it as bytes: decrypt(), `as: "bytes"`, bytes() in a model.'
    throw new ContentError('the decrypted value is not UTF-8 text', hint, place)
  }
}

/** Refuses what cannot be hashed for an index: other types than text, a lone surrogate, too long a text. @throws InvalidInputError */
export function assertHashable(value: unknown, place?: RecordPlace): asserts value is string {
  if (typeof value !== 'string')
    throw new InvalidInputError(`a blind index needs text, got ${kindOf(value)}`, undefined, place)
  if (!isWellFormed(value))
    throw new InvalidInputError('text for a blind index must not contain a lone surrogate', undefined, place)
  if (value.length * MOST_ESCAPED <= MAX_HASHED_JSON_BYTES) return
  if (encodeUtf8(JSON.stringify(value)).length > MAX_HASHED_JSON_BYTES) {
    const hint = 'Normalise it to shorter text, or omit the index.'
    throw new InvalidInputError('text for a blind index must be at most 1,000,000 bytes as JSON', hint, place)
  }
}

/** Refuses anything but a whole number from `min` to `max`. @throws InvalidInputError */
export function assertWhole(
  name: string,
  value: unknown,
  min: number,
  max = Number.MAX_SAFE_INTEGER,
): asserts value is number {
  if (Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max) return
  throw new InvalidInputError(`${name} must be a whole number from ${min} to ${max}`, undefined, { option: name })
}

export function assertArray(name: string, value: unknown): asserts value is readonly unknown[] {
  if (!Array.isArray(value))
    throw new InvalidInputError(`${name} must be an array, got ${kindOf(value)}`, listHint(value))
}

export function listHint(value: unknown): string {
  return hasRows(value) ? 'Pass its `.rows`.' : 'Pass a list of rows.'
}

/** Tells whether a value is a query result of a driver such as pg. */
export function hasRows(value: unknown): boolean {
  return Array.isArray((value as { rows?: unknown } | null | undefined)?.rows)
}

/** How an entry of the audit log records a context's values (wrapped-key-v2.md 4). */
export type AuditContext = 'values' | 'digests'

export function assertAuditContext(value: unknown): void {
  if (value !== undefined) assertOneOf('auditContext', value, ['values', 'digests'] satisfies AuditContext[])
}

export function assertOneOf(name: string, value: unknown, choices: readonly unknown[]): void {
  if (!choices.includes(value)) throw new InvalidInputError(`${name} must be one of ${choices.join(', ')}`)
}

/** Also refuses inherited options: code that writes to `Object.prototype` could choose where API keys and DEKs are sent. */
export function assertOptions(name: string, options: unknown, known?: readonly string[]): asserts options is object {
  const refuse = (what: string): never => {
    throw new InvalidInputError(`${name} ${what}`, known && `Its options: ${known.join(', ') || 'none'}.`)
  }
  if (!isObject(options) || Array.isArray(options)) return refuse(`takes an object of options, got ${kindOf(options)}`)
  if (!known) return
  const inherited = known.find((option) => option in options && !Object.hasOwn(options, option))
  if (inherited) refuse(`inherits ${inherited}`)
  const unknown = Object.keys(options).find((option) => !known.includes(option))
  if (unknown === undefined) return
  refuse(`has no option ${JSON.stringify(unknown)}${didYouMean(nearestName(unknown, known))}`)
}

/** Refuses an option that is neither true, false nor undefined. @throws InvalidInputError */
export function assertFlag(name: string, value: unknown): void {
  if (value === undefined || typeof value === 'boolean') return
  throw new InvalidInputError(`${name} must be true or false, got ${kindOf(value)}`)
}

/**
 * Checks the options of a call. Returns its signal. Without `known`, the call has no other option, and needs none.
 * @throws InvalidInputError; AbortedError if it is aborted
 */
export function readSignal(
  name: string,
  options: { signal?: AbortSignal | undefined } | undefined,
  known?: readonly string[],
): AbortSignal | undefined {
  if (options === undefined && !known) return undefined
  assertOptions(name, options, known ?? ['signal'])
  assertNotAborted(options.signal)
  return options.signal
}

/** Refuses to begin if the signal is aborted. @throws AbortedError; InvalidInputError if it is not an AbortSignal */
export function assertNotAborted(signal: AbortSignal | undefined): void {
  if (signal === undefined) return
  if (typeof signal?.aborted !== 'boolean' || typeof signal.addEventListener !== 'function')
    throw new InvalidInputError(`signal must be an AbortSignal, got ${kindOf(signal)}`, 'Pass `controller.signal`.')
  if (signal.aborted) throw new AbortedError(signal)
}

export function isValidDate(value: unknown): value is Date {
  return Number.isFinite(timeOf(value))
}

/** Formats a Date as ISO 8601 with milliseconds, in UTC, even if its class overrides methods. */
export function isoText(date: Date): string {
  return Date.prototype.toISOString.call(date)
}

function timeOf(value: unknown): number | undefined {
  if (!isObject(value)) return undefined
  try {
    return Date.prototype.getTime.call(value)
  } catch {
    return undefined
  }
}

export function isName(value: unknown): value is string {
  // Assigning to __proto__ would set the record's prototype, not a field.
  return typeof value === 'string' && value !== '' && value !== '__proto__'
}

/** Copies the plain objects among rows, since the code that seals them may have to load first. */
export function takeRows<R>(rows: readonly R[]): readonly R[] {
  return Array.isArray(rows) ? Array.from(rows as readonly R[], (row) => copyPlain(row)) : rows
}

/** Copies a plain object. Returns anything else unchanged: what is not a record is refused later. */
export function copyPlain<R>(row: R): R {
  if (!row) return row // most calls pass none, and the platform's error would cost microseconds
  try {
    if (Object.getPrototypeOf(row) !== Object.prototype) return row
    const copy = { ...row }
    return Reflect.ownKeys(copy as object).length === Reflect.ownKeys(row as object).length ? copy : row // a row with hidden members is refused later
  } catch {
    return row
  }
}

/** Reads a member of a record or of its class, such as an ORM's accessor, but none that every object inherits. */
export function valueIn(record: object, name: string): unknown {
  return name in Object.prototype && !Object.hasOwn(record, name) ? undefined : (record as Row)[name]
}

export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

export function isMissing(value: unknown): value is null | undefined {
  return value === null || value === undefined
}

/** Names the kind of a value for a message, without any of its content. */
export function kindOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'an array'
  if (timeOf(value) !== undefined) return isValidDate(value) ? 'a Date' : 'an invalid Date'
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value)
  return typeof value === 'object' ? 'an object' : typeof value
}

/** A name is suggested for another if they share at least this part of their letter pairs. */
const ENOUGH = 0.4

/** Returns the known name with the most similar spelling; undefined if none is similar. */
export function nearestName(name: string, known: readonly string[]): string | undefined {
  const given = pairsOf(name)
  let nearest: string | undefined
  let most = 0
  for (const one of known) {
    const pairs = pairsOf(one)
    const likeness = (2 * pairs.filter((pair) => given.includes(pair)).length) / (pairs.length + given.length)
    if (likeness >= ENOUGH && likeness > most) [nearest, most] = [one, likeness]
  }
  return nearest
}

export function didYouMean(name: string | undefined): string {
  return name === undefined ? '' : `: did you mean ${JSON.stringify(name)}?`
}

/** Removes case and word separators from a name: `birth_date` and `birthDate` become `birthdate`. */
export function plainName(name: string): string {
  return name.toLowerCase().replace(/[\s_.-]/g, '')
}

/** Pairs each letter with the next one, at the beginning of a name: nobody declares longer ones. */
function pairsOf(name: string): string[] {
  const plain = plainName(name.slice(0, 128))
  return Array.from(plain.slice(1), (letter, at) => plain.charAt(at) + letter)
}

export interface SecretOptions {
  /**
   * 32 random bytes that only the application has, mixed into every key that is derived from a DEK. Values sealed with
   * it do not open without it, whatever the service, a proxy and the database know together. To change it, pass a list:
   * the first one seals, each of them opens. If it is lost, so is the data. An explicit `undefined` is refused, since
   * it is usually a forgotten variable.
   */
  secret?: Uint8Array | readonly Uint8Array[]
  /** `true` also opens values sealed without a secret. Only for a migration, since the service could have sealed them. */
  acceptWithoutSecret?: boolean | undefined
}

export type GivenSecrets = { list: readonly Uint8Array[]; acceptWithout: boolean }

/** Copies the secrets, which the caller zeroes. @throws InvalidInputError if one is not 32 bytes, or all zero */
export function readSecrets(options: SecretOptions): GivenSecrets {
  assertGiven(options, ['secret'])
  const { secret, acceptWithoutSecret } = options
  assertFlag('acceptWithoutSecret', acceptWithoutSecret)
  if (secret === undefined) return { list: [], acceptWithout: false }
  const list = [secret].flat().map((one) => {
    const bytes = readBinary(one)
    if (bytes?.length === APPLICATION_SECRET_BYTES && !isZero(bytes)) return bytes
    const hint = 'Make it once with crypto.getRandomValues(new Uint8Array(32)), and store it beside no data.'
    throw new InvalidInputError('secret must be 32 random bytes, or a list of such', hint)
  })
  if (list.length === 0) throw new InvalidInputError('secret must not be an empty list', 'Leave out the option.')
  return { list: list.map((bytes) => new Uint8Array(bytes)), acceptWithout: acceptWithoutSecret ?? false }
}
