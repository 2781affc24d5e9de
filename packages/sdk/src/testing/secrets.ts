/** The operations on secrets in memory: wrapping, the blind index and server mode, with real cryptography from noble. */
import {
  DETAILS,
  decodeBase64,
  decodeUtf8,
  encodeBase64,
  encodeHex,
  encodeUtf8,
  FormatError,
  indexSecretInfo,
  KEY_BYTES,
  MAX_SERVER_MODE_BYTES,
  nobleAead,
  OpenError,
  readUse,
  readWrappedKey,
  WRAPPED_KEY_V2_FORMAT,
  type WrapUse,
  wire,
  wrappedKeyAad,
  wrappedKeyV2Aad,
  writeWrappedKey,
} from '@eaas/protocol'
import { hmac } from '@noble/hashes/hmac.js'
import { sha256 } from '@noble/hashes/sha2.js'
import { createIvPool, random32 } from '../deks/random.js'
import { hkdf } from '../engines/noble.js'
import { createHmac } from '../engines/web.js'
import { currentVersion, getKey } from './keys.js'
import { type Call, note, Refusal, type TestKey } from './state.js'

export const secretFakes = { wrap, unwrap, rewrap, indexSecret, hash, blindHash, encrypt, decrypt }
const takeIv = createIvPool()

function wrap(call: Call, { dek, ...stated }: wire.Wrap): wire.Wrapped {
  const key = getKey(call, call.id, 'wrap')
  const wrapped = wrapDek(call, key, decodeBase64(dek), readUse(stated))
  const metadata = recordUse(stated)
  note(call, { action: 'key.wrap', key_id: key.key_id, key_version: wrapped.key_version, metadata })
  return wrapped
}

function unwrap(call: Call, { wrapped_key, ...stated }: wire.Unwrap): wire.Unwrapped {
  const key = getKey(call, call.id, 'unwrap')
  const { dek, version: key_version } = unwrapDek(call, key, wrapped_key, readUse(stated))
  note(call, { action: 'key.unwrap', key_id: key.key_id, key_version, metadata: recordUse(stated) })
  return { dek: encodeBase64(dek), key_id: key.key_id, key_version }
}

function rewrap(call: Call, { wrapped_key, ...stated }: wire.Unwrap): wire.Wrapped {
  const key = getKey(call, call.id, 'rewrap')
  const { dek, version } = unwrapDek(call, key, wrapped_key, readUse(stated))
  const wrapped = wrapDek(call, key, dek, readUse(stated))
  const metadata = { ...recordUse(stated), rewrapped_from: version }
  note(call, { action: 'key.wrap', key_id: key.key_id, key_version: wrapped.key_version, metadata })
  return wrapped
}

/** Returns an entry's record of a use. Digests use a fixed key, not a tenant's (wrapped-key-v2.md 4). */
function recordUse({ record = 'values', ...stated }: Pick<wire.Wrap, 'purpose' | 'context' | 'record'>) {
  const use = readUse(stated)
  if (!use) return {}
  const pairs = Object.entries(use.context).map(([name, value]) =>
    record === 'values' ? [`context.${name}`, value] : [`context_hmac.${name}`, digestOf(name, value)],
  )
  return { purpose: use.purpose, ...Object.fromEntries(pairs) }
}

const CONTEXT_DIGEST_DIGITS = 32

function digestOf(name: string, value: string): string {
  const mac = hmac(sha256, encodeUtf8('the key of a service in memory'), encodeUtf8(`${name}\0${value}`))
  return encodeHex(mac).slice(0, CONTEXT_DIGEST_DIGITS)
}

function indexSecret(call: Call, { name }: { name: string }): wire.DerivedSecret {
  const key = getKey(call, call.id, 'indexSecret')
  const secret = hkdf(key.hashKey, indexSecretInfo(name), KEY_BYTES)
  const { key_id } = key
  note(call, { action: 'key.index_secret', key_id, key_version: currentVersion(key).version, metadata: { name } })
  return { secret: encodeBase64(secret), key_id }
}

async function hash(call: Call, { value, key_id }: { value: string; key_id: string }): Promise<wire.Hashed> {
  const key = getKey(call, key_id, 'hash')
  key.hmac ??= createHmac(key.hashKey.slice()) // `createHmac` zeroes its argument
  return { hash: encodeHex(await key.hmac(encodeUtf8(value))), key_id }
}

async function blindHash(call: Call, { elements, key_id }: wire.Bodies['blindHash']): Promise<wire.BlindHashed> {
  const { deriveBlindHashKeys, ElementError, evaluateBlinded } = await import('@eaas/protocol/blind-hash')
  const key = getKey(call, key_id, 'blindHash')
  try {
    const made = evaluateBlinded(deriveBlindHashKeys(key.hashKey), elements.map(decodeBase64))
    const proof = encodeBase64(made.proof)
    return { elements: made.elements.map((one) => encodeBase64(one)), proof, key_id, suite: wire.BLIND_HASH_SUITE }
  } catch (error) {
    if (!(error instanceof ElementError)) throw error
    throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.element(error.at))
  }
}

function encrypt(call: Call, { plaintext, key_id, encoding }: wire.Encrypt): wire.Bundle {
  const { state } = call
  const bytes = readPlaintext(plaintext, encoding ?? state.tenant.plaintext_encoding ?? 'utf8')
  const key = getKey(call, key_id, 'encrypt')
  const dek = random32()
  const iv = takeIv()
  const sealed = nobleAead.seal(dek, iv, bytes)
  const { wrapped_key, key_version } = wrapDek(call, key, dek)
  note(call, { action: 'encrypt', key_id, key_version })
  return { ciphertext: encodeBase64(sealed), wrapped_key, iv: encodeBase64(iv), key_id, key_version }
}

function decrypt(call: Call, { key_id, encoding, ...bundle }: wire.Decrypt): wire.Decrypted {
  const key = getKey(call, key_id, 'decrypt')
  const opened = tryWrappedKey(call, key, bundle.wrapped_key)
  const bytes =
    opened?.version === bundle.key_version
      ? openSealed(opened.dek, decodeBase64(bundle.iv), decodeBase64(bundle.ciphertext))
      : undefined
  if (!bytes) throw new Refusal('E_DECRYPTION_FAILED', DETAILS.E_DECRYPTION_FAILED.ciphertext)
  note(call, { action: 'decrypt', key_id, key_version: bundle.key_version })
  return { plaintext: writePlaintext(bytes, encoding ?? call.state.tenant.plaintext_encoding ?? 'utf8') }
}

function wrapDek(call: Call, key: TestKey, dek: Uint8Array, use?: WrapUse): wire.Wrapped {
  const { version, kek } = currentVersion(key)
  const iv = takeIv()
  const sealed = nobleAead.seal(kek, iv, dek, aadOf(call, key, version, use))
  const wrapped_key = writeWrappedKey({ version, iv, sealed }, use && WRAPPED_KEY_V2_FORMAT)
  return { wrapped_key, key_id: key.key_id, key_version: version }
}

function aadOf({ state }: Call, { key_id }: TestKey, version: number, use: WrapUse | undefined): Uint8Array {
  const { tenant_id } = state.tenant
  return use ? wrappedKeyV2Aad({ tenant_id, key_id, version }, use) : wrappedKeyAad(tenant_id, key_id, version)
}

function unwrapDek(call: Call, key: TestKey, wrapped_key: string, use: WrapUse | undefined) {
  const opened = tryWrappedKey(call, key, wrapped_key, use)
  if (!opened) throw new Refusal('E_WRAPPED_KEY', DETAILS.E_WRAPPED_KEY.wrappedKey)
  return opened
}

function tryWrappedKey(call: Call, key: TestKey, wrapped_key: string, use?: WrapUse) {
  const parts = readWrappedKey(wrapped_key, use && WRAPPED_KEY_V2_FORMAT)
  const version = key.versions.find((one) => one.version === parts?.version)
  const { min_unwrap_version: least } = key
  if (version?.status === 'destroyed')
    throw new Refusal('E_VERSION_DESTROYED', DETAILS.E_VERSION_DESTROYED.wrappedKey(version.version))
  if (version && version.version < least)
    throw new Refusal('E_VERSION_TOO_OLD', DETAILS.E_VERSION_TOO_OLD.wrappedKey(version.version, least))
  const aad = version && aadOf(call, key, version.version, use)
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
