/** What binds an envelope of format v2: its keys and its AAD (envelope-v2.md 2 to 4). Bytes only; engines seal. */
import { KEY_BYTES } from './aead.js'
import { concatBytes, encodeUtf8, FormatError, lengthPrefixed, uuidBytes } from './bytes.js'

/** What an envelope is bound to: names with values (envelope-v2.md 3). Not stored. */
export type Context = Readonly<Record<string, string>>
export const NO_CONTEXT: Context = {}

/** envelope-v2.md 2 */
export interface BoundKeys {
  /** `K_enc`, which seals and is secret. */
  key: Uint8Array
  /** `K_com`, which is public. */
  commitment: Uint8Array
}

export const BOUND_KEYS_BYTES = 2 * KEY_BYTES
export const MAX_CONTEXT_PAIRS = 32
export const MAX_CONTEXT_NAME_BYTES = 256
export const MAX_CONTEXT_VALUE_BYTES = 4_096
const LABEL = /* @__PURE__ */ encodeUtf8('eaas/envelope/v2')

/** The `info` of HKDF under which a DEK's keys are derived (envelope-v2.md 2). @throws FormatError */
export function boundKeysInfo(keyId: string): Uint8Array {
  return concatBytes(LABEL, new Uint8Array(1), uuidBytes(keyId))
}

/** Splits the output of HKDF, and zeroes it. The caller zeroes `key`. */
export function splitBoundKeys(okm: Uint8Array): BoundKeys {
  const keys = { key: new Uint8Array(okm.subarray(0, KEY_BYTES)), commitment: new Uint8Array(okm.subarray(KEY_BYTES)) }
  okm.fill(0)
  return keys
}

/** The AAD of a key and a context (envelope-v2.md 4). @throws FormatError, which may contain a name but never a value */
export function contextAad(keyId: string, context: unknown): Uint8Array {
  return context === NO_CONTEXT ? keyPart(keyId) : concatBytes(keyPart(keyId), encodeContext(context))
}

/** The first part of the AAD for the last key, which all values of a table share. */
let last: { keyId: string; part: Uint8Array } | undefined

function keyPart(keyId: string): Uint8Array {
  if (last?.keyId !== keyId) last = { keyId, part: lengthPrefixed([LABEL, uuidBytes(keyId)]) }
  return last.part
}

/**
 * Encodes a context as the end of the AAD (envelope-v2.md 4, part 3). Two calls can encode the pairs, and their results be
 * joined, if all names of the second come later in UTF-8. @throws FormatError, which may contain a name but never a value
 */
export function encodeContext(context: unknown): Uint8Array {
  const pairs = readPairs(context).sort(([one], [other]) => compareBytes(one, other))
  return lengthPrefixed(pairs.flat())
}

function readPairs(context: unknown): [name: Uint8Array, value: Uint8Array][] {
  assertFlatObject(context)
  const pairs = Object.entries(context)
  if (pairs.length > MAX_CONTEXT_PAIRS)
    throw new FormatError(`context must have at most ${MAX_CONTEXT_PAIRS} pairs, got ${pairs.length}`)
  return pairs.map(([name, value]) => {
    const bytes = textBytes(() => 'a name in context', name, 1, MAX_CONTEXT_NAME_BYTES)
    const nameOf = () => `context: the value of ${JSON.stringify(name)}`
    return [bytes, textBytes(nameOf, value, 0, MAX_CONTEXT_VALUE_BYTES)]
  })
}

/** Refuses anything but a plain object, of any realm: members of a class, and hidden ones, would not be bound. */
function assertFlatObject(context: unknown): asserts context is object {
  const isObject = typeof context === 'object' && context !== null // a list has one prototype more, or a hidden member
  const prototype: unknown = isObject ? Object.getPrototypeOf(context) : undefined
  const isPlain = isObject && (prototype === null || Object.getPrototypeOf(prototype) === null)
  if (isPlain && Reflect.ownKeys(context).length === Object.keys(context).length) return
  throw new FormatError('context must be a plain object of strings')
}

function textBytes(name: () => string, text: unknown, least: number, most: number): Uint8Array {
  if (typeof text !== 'string')
    throw new FormatError(`${name()} must be a string, got ${text === null ? 'null' : typeof text}`)
  const bytes = encodeUtf8(text, name)
  if (bytes.length >= least && bytes.length <= most) return bytes
  throw new FormatError(`${name()} must have ${least} to ${most} bytes in UTF-8, got ${bytes.length}`)
}

export function compareUtf8(one: string, other: string): number {
  return compareBytes(encodeUtf8(one), encodeUtf8(other))
}

/** The order of the texts in UTF-8; JavaScript orders texts by UTF-16. */
function compareBytes(one: Uint8Array, other: Uint8Array): number {
  let at = 0
  while (at < one.length && one[at] === other[at]) at++
  return (one[at] ?? -1) - (other[at] ?? -1)
}
