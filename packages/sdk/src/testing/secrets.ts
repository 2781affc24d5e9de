/**
 * The in-memory operations on secrets: wrapping, the blind index and server mode, with real cryptography by
 * noble.
 */
import {
  DETAILS,
  decodeBase64,
  decodeUtf8,
  encodeBase64,
  encodeHex,
  encodeUtf8,
  FormatError,
  MAX_SERVER_MODE_BYTES,
  nobleAead,
  OpenError,
  readWrappedKey,
  type wire,
  wrappedKeyAad,
  writeWrappedKey,
} from '@eaas/protocol'
import { createIvPool } from '../deks/random.js'
import { createHmac } from '../engines/hmac.js'
import { currentVersion, getKey } from './keys.js'
import { Refusal } from './refusal.js'
import { type Call, note, randomKey, type TestKey } from './state.js'

/** The calls that this file answers. */
export const secretFakes = { wrap, unwrap, rewrap, hash, encrypt, decrypt }

const takeIv = createIvPool()

function wrap(call: Call, { dek }: { dek: string }): wire.Wrapped {
  const key = getKey(call.state, call.id, 'wrap')
  const wrapped = wrapDek(call, key, decodeBase64(dek))
  note(call, { action: 'key.wrap', key_id: key.key_id, key_version: wrapped.key_version })
  return wrapped
}

function unwrap(call: Call, { wrapped_key }: { wrapped_key: string }): wire.Unwrapped {
  const key = getKey(call.state, call.id, 'unwrap')
  const { dek, version: key_version } = unwrapDek(call, key, wrapped_key)
  note(call, { action: 'key.unwrap', key_id: key.key_id, key_version })
  return { dek: encodeBase64(dek), key_id: key.key_id, key_version }
}

function rewrap(call: Call, { wrapped_key }: { wrapped_key: string }): wire.Wrapped {
  const key = getKey(call.state, call.id, 'rewrap')
  const { dek, version } = unwrapDek(call, key, wrapped_key)
  const wrapped = wrapDek(call, key, dek)
  const metadata = { rewrapped_from: version }
  note(call, { action: 'key.wrap', key_id: key.key_id, key_version: wrapped.key_version, metadata })
  return wrapped
}

async function hash({ state }: Call, { value, key_id }: { value: string; key_id: string }): Promise<wire.Hashed> {
  const key = getKey(state, key_id, 'hash')
  key.hmac ??= createHmac(key.hashKey.slice()) // `createHmac` zeroes its argument
  return { hash: encodeHex(await key.hmac(encodeUtf8(value))), key_id }
}

function encrypt(call: Call, { plaintext, key_id, encoding }: wire.Encrypt): wire.Bundle {
  const { state } = call
  const bytes = readPlaintext(plaintext, encoding ?? state.tenant.plaintext_encoding ?? 'utf8')
  const key = getKey(state, key_id, 'encrypt')
  const quota = state.tenant.monthly_encrypt_quota
  if (quota !== null && countThisMonth(call) >= quota) {
    throw new Refusal('E_QUOTA_EXCEEDED', DETAILS.E_QUOTA_EXCEEDED.encrypt(quota))
  }
  const dek = randomKey()
  const iv = takeIv()
  const sealed = nobleAead.seal(dek, iv, bytes)
  const { wrapped_key, key_version } = wrapDek(call, key, dek)
  note(call, { action: 'encrypt', key_id, key_version })
  return { ciphertext: encodeBase64(sealed), wrapped_key, iv: encodeBase64(iv), key_id, key_version }
}

function decrypt(call: Call, { key_id, encoding, ...bundle }: wire.Decrypt): wire.Decrypted {
  const key = getKey(call.state, key_id, 'decrypt')
  const opened = tryWrappedKey(call, key, bundle.wrapped_key)
  const bytes =
    opened?.version === bundle.key_version
      ? openSealed(opened.dek, decodeBase64(bundle.iv), decodeBase64(bundle.ciphertext))
      : undefined
  if (!bytes) {
    throw new Refusal('E_DECRYPTION_FAILED', DETAILS.E_DECRYPTION_FAILED.ciphertext)
  }
  const plaintext = writePlaintext(bytes, encoding ?? call.state.tenant.plaintext_encoding ?? 'utf8')
  note(call, { action: 'decrypt', key_id, key_version: bundle.key_version })
  return { plaintext }
}

function wrapDek({ state }: Call, key: TestKey, dek: Uint8Array): wire.Wrapped {
  const { version, kek } = currentVersion(key)
  const iv = takeIv()
  const sealed = nobleAead.seal(kek, iv, dek, wrappedKeyAad(state.tenant.tenant_id, key.key_id, version))
  return { wrapped_key: writeWrappedKey({ version, iv, sealed }), key_id: key.key_id, key_version: version }
}

/** @throws Refusal E_WRAPPED_KEY, E_VERSION_TOO_OLD */
function unwrapDek(call: Call, key: TestKey, wrapped_key: string): { dek: Uint8Array; version: number } {
  const opened = tryWrappedKey(call, key, wrapped_key)
  if (!opened) throw new Refusal('E_WRAPPED_KEY', DETAILS.E_WRAPPED_KEY.wrappedKey)
  return opened
}

function tryWrappedKey({ state }: Call, key: TestKey, wrapped_key: string) {
  const parts = readWrappedKey(wrapped_key)
  const version = key.versions.find((one) => one.version === parts?.version)
  const { min_unwrap_version: least } = key
  if (version && version.version < least) {
    throw new Refusal('E_VERSION_TOO_OLD', DETAILS.E_VERSION_TOO_OLD.wrappedKey(version.version, least))
  }
  const aad = version && wrappedKeyAad(state.tenant.tenant_id, key.key_id, version.version)
  const dek = parts && version && openSealed(version.kek, parts.iv, parts.sealed, aad)
  return dek && { dek, version: version.version }
}

function openSealed(key: Uint8Array, iv: Uint8Array, sealed: Uint8Array, aad?: Uint8Array): Uint8Array | undefined {
  try {
    return nobleAead.open(key, iv, sealed, aad)
  } catch (error) {
    if (!(error instanceof OpenError)) throw error
    return undefined // the caller answers with the API's error
  }
}

function countThisMonth({ state }: Call): number {
  const month = new Date(state.now()).toISOString().slice(0, 7)
  return state.entries.filter(({ action, created_at }) => action === 'encrypt' && created_at.startsWith(month)).length
}

function readPlaintext(plaintext: string, encoding: 'utf8' | 'base64'): Uint8Array {
  const bytes = encoding === 'utf8' ? encodeUtf8(plaintext) : readBase64(plaintext)
  if (bytes.length <= MAX_SERVER_MODE_BYTES) return bytes
  throw new Refusal('E_PLAINTEXT_TOO_LARGE', DETAILS.E_PLAINTEXT_TOO_LARGE.plaintext(bytes.length))
}

function readBase64(text: string): Uint8Array {
  try {
    return decodeBase64(text)
  } catch (error) {
    if (!(error instanceof FormatError)) throw error
    throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.plaintext)
  }
}

function writePlaintext(bytes: Uint8Array, encoding: 'utf8' | 'base64'): string {
  try {
    return encoding === 'utf8' ? decodeUtf8(bytes) : encodeBase64(bytes)
  } catch (error) {
    if (!(error instanceof FormatError)) throw error
    throw new Refusal('E_DECRYPTION_FAILED', DETAILS.E_DECRYPTION_FAILED.text)
  }
}
