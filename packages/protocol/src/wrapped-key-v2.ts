/** Wrapped keys, format 2 (wrapped-key-v2.md), bound to their use. Byte layout and AAD only. */
import { concatBytes, encodeUtf8, isWellFormed, lengthPrefixed, uuidBytes, writeU32 } from './bytes.js'
import { encodeContext } from './envelope-binding.js'
import { MAX_USE_PAIRS, MAX_USE_VALUE_CHARACTERS } from './limits.js'

/** The purpose of a DEK: it seals data, makes the values of index columns, or seals a stream. */
export const PURPOSES = ['data', 'index', 'stream'] as const
export type Purpose = (typeof PURPOSES)[number]
/** What a caller says about the data, such as `{ model: 'customers', row: '7' }`. */
export type WrapContext = Readonly<Record<string, string>>

/** What a wrapped key is bound to; an unwrap states it again. */
export interface WrapUse {
  purpose: Purpose
  context: WrapContext
}

export const WRAPPED_KEY_V2_FORMAT = 0x02
const LABEL = /* @__PURE__ */ encodeUtf8('eaas/wrapped-key/v2')
/** 65 bytes in base64, of which the first is 2 in format 2, and 1 in format 1. */
const BOUND = /^A[g-v][A-Za-z0-9+/]{85}=$/
const UNBOUND = /^A[Q-f][A-Za-z0-9+/]{85}=$/
const NAME = /^[A-Za-z][A-Za-z0-9_.-]{0,63}$/

/** Whether this is a context (wrapped-key-v2.md 2). */
export function isWrapContext(value: unknown): value is WrapContext {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const pairs = Object.entries(value)
  return pairs.length <= MAX_USE_PAIRS && pairs.every(([name, text]) => NAME.test(name) && isContextValue(text))
}

function isContextValue(text: unknown): boolean {
  if (!isWellFormed(text) || text.includes('\0')) return false
  // A character has one or two code units; most texts are too short for the difference to matter.
  if (text.length <= MAX_USE_VALUE_CHARACTERS) return true
  return text.length <= 2 * MAX_USE_VALUE_CHARACTERS && [...text].length <= MAX_USE_VALUE_CHARACTERS
}

/** Whether a wrapped key has format 2. A text of another service may look like one. */
export function isBoundWrappedKey(text: string): boolean {
  return BOUND.test(text)
}

/** Whether a wrapped key has format 1, which opens without a stated use. A text of another service may look like one. */
export function isUnboundWrappedKey(text: string): boolean {
  return UNBOUND.test(text)
}

type WrappingVersion = { tenant_id: string; key_id: string; version: number }

/** Builds the AAD of a wrapped key of format 2 (wrapped-key-v2.md 2). */
export function wrappedKeyV2Aad(version: WrappingVersion, use: WrapUse): Uint8Array {
  // The pairs are encoded as in the AAD of an envelope, in the same order.
  return concatBytes(wrappedKeyV2Head(version), lengthPrefixed([encodeUtf8(use.purpose)]), encodeContext(use.context))
}

/** Builds the first part of the AAD, which is the same for every use under a version of a key. */
export function wrappedKeyV2Head({ tenant_id, key_id, version }: WrappingVersion): Uint8Array {
  const number = new Uint8Array(4)
  writeU32(number, 0, version)
  return lengthPrefixed([LABEL, uuidBytes(tenant_id), uuidBytes(key_id), number])
}

/** Builds the AAD from its first part, fast enough for a server's batch. */
export function boundAad(head: Uint8Array, { purpose, context }: WrapUse): Uint8Array {
  const names = Object.keys(context)
  if (names.length > 1) names.sort()
  const parts: string[] = [purpose]
  for (const name of names) parts.push(name, context[name] ?? '')
  return writeAscii(head, parts) ?? concatBytes(head, lengthPrefixed(parts.map((part) => encodeUtf8(part))))
}

/** Appends ASCII texts: encoding each separately would cost more than opening the DEK. Undefined if one is not ASCII. */
function writeAscii(head: Uint8Array, parts: readonly string[]): Uint8Array | undefined {
  let length = head.length
  for (const part of parts) length += 4 + part.length
  const bytes = new Uint8Array(length)
  bytes.set(head)
  let at = head.length
  for (const part of parts) {
    writeU32(bytes, at, part.length)
    at += 4
    for (let index = 0; index < part.length; index++) {
      const code = part.charCodeAt(index)
      if (code > 0x7f) return undefined
      bytes[at++] = code
    }
  }
  return bytes
}

/** The use that a call states; undefined if it states no part, which means format 1 (wrapped-key-v2.md 3). */
export function readUse(stated: { [K in keyof WrapUse]?: WrapUse[K] | undefined }): WrapUse | undefined {
  const { purpose = 'data', context = {} } = stated
  return stated.purpose === undefined && stated.context === undefined ? undefined : { purpose, context }
}
