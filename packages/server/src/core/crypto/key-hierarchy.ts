/** The secrets that the store keys protect (key-hierarchy.md), and the interface of what wraps the store keys. */
import { createHmac, type KeyObject } from 'node:crypto'
import { concatBytes, encodeUtf8, KEY_BYTES, lengthPrefixed, OpenError, readU32, writeU32 } from '@eaas/protocol'
import type { ROOT_KEY_VARIABLES } from '../config.js'
import { importKey, open, randomKey, SEAL_OVERHEAD, seal } from './aead.js'

const FORMAT = 0x02
/** The format byte and the number of the store key. */
const HEAD_BYTES = 1 + 4
/** The length of a sealed secret (key-hierarchy.md 2). */
export const SEALED_BYTES = HEAD_BYTES + KEY_BYTES + SEAL_OVERHEAD

/** What a secret is for (key-hierarchy.md 3). */
type Purpose = 'api-key-pepper' | 'signing-key' | 'audit-key' | 'kek' | 'hash-key'

/** The purpose, tenant, id and version that a sealed secret opens for, and no other. */
export type SecretBinding = { purpose: Purpose; tenant_id?: string; id?: string; version?: number }

/** The store keys by number; the `current` one seals new secrets. Plain data, because threads get a copy. */
export type StoreKeys = { current: number; keys: Map<number, KeyObject> }

/** Thrown for a secret under a store key that this process does not have. */
export class UnknownStoreKeyError extends Error {
  override readonly name = 'UnknownStoreKeyError'
}

/** Seals a 32-byte secret under the current store key (key-hierarchy.md 2). The caller zeroes `secret`. */
export function sealSecret({ current, keys }: StoreKeys, binding: SecretBinding, secret: Uint8Array): Uint8Array {
  const head = new Uint8Array(HEAD_BYTES)
  head[0] = FORMAT
  writeU32(head, 1, current)
  return concatBytes(head, seal(keyOf(keys, current, binding), secret, bindingAad(binding, current)))
}

/** Draws 32 random bytes and returns them sealed (key-hierarchy.md 2); the bytes themselves are zeroed. */
export function sealNewSecret(storeKeys: StoreKeys, binding: SecretBinding): Uint8Array {
  const secret = randomKey()
  try {
    return sealSecret(storeKeys, binding, secret)
  } finally {
    secret.fill(0)
  }
}

/**
 * Opens a sealed secret as a KeyObject. @throws UnknownStoreKeyError, or OpenError if it was sealed for another binding
 * or under another store key than it names, or was altered
 */
export function openSecret(storeKeys: StoreKeys, binding: SecretBinding, sealed: Uint8Array): KeyObject {
  return importKey(openBytes(storeKeys, binding, sealed))
}

/** Seals a secret again under the current store key, by default for the same binding. @throws as `openSecret` */
export function resealSecret(keys: StoreKeys, binding: SecretBinding, sealed: Uint8Array, next?: SecretBinding) {
  return moveSecret({ from: keys, to: keys }, binding, sealed, next)
}

/** Seals a secret again under the current store key of another installation. @throws as `openSecret` */
export function moveSecret(
  { from, to }: Record<'from' | 'to', StoreKeys>,
  binding: SecretBinding,
  sealed: Uint8Array,
  next: SecretBinding = binding,
): Uint8Array {
  const secret = openBytes(from, binding, sealed)
  try {
    return sealSecret(to, next, secret)
  } finally {
    secret.fill(0)
  }
}

/** The number of the store key that a sealed secret, or the first of several, names; 0 if it names none. */
export function sealedUnder(sealed: Uint8Array): number {
  return sealed.length >= SEALED_BYTES && sealed[0] === FORMAT ? numberIn(sealed) : 0
}

export function opens(storeKeys: StoreKeys, binding: SecretBinding, sealed: Uint8Array): boolean {
  try {
    openBytes(storeKeys, binding, sealed).fill(0)
    return true
  } catch (error) {
    if (error instanceof OpenError) return false
    throw error
  }
}

/** The key that authenticates a tenant's rows (key-hierarchy.md 4). */
export function deriveRowKey(auditKey: KeyObject): KeyObject {
  return importKey(createHmac('sha256', auditKey).update('eaas/row-key/v1').digest())
}

/** The key of the digests that stand for the values of a context (key-hierarchy.md 4). */
export function deriveContextKey(auditKey: KeyObject): KeyObject {
  return importKey(createHmac('sha256', auditKey).update('eaas/context-key/v1').digest())
}

const CONTEXT_DIGEST_BYTES = 16

/** The digest of a value of a context, in hexadecimal (wrapped-key-v2.md 4). */
export function digestContext(contextKey: KeyObject, name: string, value: string): string {
  const digest = createHmac('sha256', contextKey).update(`${name}\0${value}`).digest()
  return digest.subarray(0, CONTEXT_DIGEST_BYTES).toString('hex')
}

function openBytes({ keys }: StoreKeys, binding: SecretBinding, sealed: Uint8Array): Uint8Array {
  if (sealed.length !== SEALED_BYTES || sealed[0] !== FORMAT) throw new OpenError()
  const number = numberIn(sealed)
  return open(keyOf(keys, number, binding), sealed.subarray(HEAD_BYTES), bindingAad(binding, number))
}

function numberIn(sealed: Uint8Array): number {
  return readU32(sealed, 1)
}

function keyOf(keys: StoreKeys['keys'], number: number, { purpose, tenant_id }: SecretBinding): KeyObject {
  const key = keys.get(number)
  if (key) return key
  const what = `${purpose}${tenant_id === undefined ? '' : ` of tenant ${tenant_id}`}`
  throw new UnknownStoreKeyError(
    `the ${what} is sealed under store key ${number}, which this process does not have: if a rotation has just made that key, it is read within ` +
      'seconds; if a rotation deleted it, somebody put the row back',
  )
}

function bindingAad({ purpose, tenant_id = '', id = '', version = 0 }: SecretBinding, storeKey: number): Uint8Array {
  const parts = ['eaas/secret/v2', purpose, tenant_id, id, String(version), String(storeKey)]
  return lengthPrefixed(parts.map((part) => encodeUtf8(part)))
}

export interface RootKeyProvider {
  /** The kind, and which one of that kind, for messages, /health and doctor; not secret. */
  readonly kind: keyof typeof ROOT_KEY_VARIABLES
  readonly name: string
  /** Wraps at most 64 bytes. @throws RootKeyError if the provider is absent or refuses */
  wrap(bytes: Uint8Array): Promise<Uint8Array>
  /** Opens what `wrap` returned. @throws RootKeyError */
  unwrap(wrapped: Uint8Array): Promise<Uint8Array>
}

/** Thrown when there is no usable root key; the message says what to do. */
export class RootKeyError extends Error {
  override readonly name: string = 'RootKeyError'
}

/** Thrown when a device refused the PIN of its user: further tries may lock it. */
export class RefusedPinError extends RootKeyError {
  override readonly name: string = 'RefusedPinError'
}
