/**
 * `@eaas/sdk/offline`: seals and opens without a service, with a DEK that the caller has or with an exported key. Never
 * uses the network. Follows envelope.md, wrapped-key.md and blind-index.md.
 */
import type { Context, Envelope, Purpose, WrapContext, WrappedKey } from '@eaas/protocol'
import {
  decodeHex,
  encodeHex,
  encodeSealed,
  IV_BYTES,
  indexSecretInfo,
  isUuid,
  isZero,
  KEY_BYTES,
  readUse,
  readWrappedKey,
  readWrappedKeyFields,
  WRAPPED_KEY_V2_FORMAT,
  wrappedKeyAad,
  wrappedKeyV2Aad,
} from '@eaas/protocol'
import { fillRandom, random32 } from './deks/random.js'
import { createSecret, type Secret } from './deks/secret.js'
import { selectEngine } from './engines/engine.js'
import { DecryptionError, InvalidInputError } from './errors.js'
import type { Binary, Bytes, DemandOptions, GivenSecrets, SecretOptions } from './input.js'
import {
  assertFormat,
  assertOptions,
  kindOf,
  readBinary,
  readDemand,
  readFormat,
  readSecrets,
  readValue,
  toText,
} from './input.js'
import { holdSecrets, readFormatAad, readingContext } from './records/bound-envelopes.js'
import { demandContext, type OpenableParts, openParts, toJson } from './records/open-envelopes.js'
import { readEnvelope, type StoredEnvelope } from './records/read-envelope.js'
import { sealBound } from './records/seal-envelopes.js'
import type { Soon } from './waiting.js'

export type { Context, Envelope, Purpose, WrapContext, WrappedKey } from '@eaas/protocol'
export {
  ContentError,
  DecryptionError,
  EaasBaseError,
  type EaasError,
  InvalidInputError,
  isEaasError,
  RandomnessError,
} from './errors.js'
export type { Binary, Bytes } from './input.js'
export type { Bundle, StoredEnvelope } from './records/read-envelope.js'

/** Makes a DEK: 32 random bytes. The caller zeroes it after use: `dek.fill(0)`. @throws RandomnessError */
export function createDek(): Uint8Array {
  return random32()
}

/** How a value is sealed offline. */
export interface SealOptions {
  /** 32 bytes, which the caller zeroes after use. */
  dek: Uint8Array
  /** The wrapped DEK from the service, for the envelope. Not checked against `dek`. */
  wrapped: WrappedKey
  /** Binds the value, as with `encrypt` of a client (envelope-v2.md 3). */
  context?: Context
  /** The format of the envelope: 2 by default, or 1, which clients in other languages read. */
  envelope?: 1 | 2 | undefined
  /** The application's secret: 32 bytes, like `secret` of a client. */
  secret?: Uint8Array
}

/** What is demanded of an envelope, and the application's secrets. */
export interface OpenOptions extends DemandOptions, SecretOptions {}

/**
 * Seals text (as UTF-8) or bytes under the caller's DEK (envelope.md 2). Does not use the network. Seal at most 2^31
 * messages under one DEK.
 * @throws InvalidInputError when the value, the DEK (32 bytes) or `wrapped` is invalid
 * @example
 * ```ts
 * const envelope = await seal('+33 6 12 34 56 78', { dek, wrapped })
 * ```
 */
export async function seal(value: string | Binary, options: SealOptions): Promise<Envelope> {
  assertOptions('seal()', options, ['dek', 'wrapped', 'context', 'envelope', 'secret'])
  const { dek, wrapped } = options
  assertFormat(options, options.secret !== undefined)
  // Everything is copied before the first await, since the caller may zero the DEK and the value as soon as the call
  // returns, and after everything is checked: a throw would leave copies that are not zeroed.
  const header = readWrapped(wrapped)
  const aad = readFormatAad(header.key_id, options)
  const [givenValue, givenDek] = [readValue(value), readDek(dek)]
  const {
    list: [secret],
  } = holdSecrets(readSecrets(options))
  const key = createSecret(new Uint8Array(givenDek))
  const plaintext = new Uint8Array(givenValue)
  try {
    const engine = await selectEngine('auto')
    const iv = new Uint8Array(IV_BYTES)
    fillRandom(iv)
    const parts = aad
      ? await sealBound(engine, { dek: key, wrapped: header }, { iv, plaintext, aad, secret })
      : { ...header, iv, sealed: await key.use((bytes) => engine.seal(bytes, iv, plaintext)) }
    return encodeSealed(parts)
  } finally {
    key.release()
    secret?.release()
    plaintext.fill(0)
  }
}

/**
 * Opens an envelope, or a bundle of server mode, with the caller's DEK (envelope.md 6). Does not use the network.
 * @throws InvalidInputError when it is not an envelope, or the DEK is not 32 bytes
 * @throws DecryptionError when it was altered, or sealed under another DEK
 */
export async function open(envelope: StoredEnvelope, dek: Uint8Array, options?: OpenOptions): Promise<Bytes> {
  const demand = readOpen('open()', options)
  const parts = demandContext(readEnvelope(envelope), demand)
  const given = readDek(dek)
  return openEnvelope(parts, readSecrets(demand), new Uint8Array(given)) // copied before anything is awaited, as in `seal`
}

/** Opens an envelope to text. @throws ContentError when the bytes are not UTF-8; otherwise as `open` */
export async function openText(envelope: StoredEnvelope, dek: Uint8Array, options?: OpenOptions): Promise<string> {
  return toText(await open(envelope, dek, options))
}

/** A key's export, as `eaas.keys.export()` and `POST /v1/keys/:id/export` return it. */
export interface ExportedKey {
  tenant_id?: string | undefined
  key_id: string
  name?: string | undefined
  versions: readonly { version: number; dek_hex: string }[]
  hash_key_hex?: string | undefined
}

export interface OpenExportOptions {
  /** The tenant's id, if the export lacks it: wrapped keys are bound to it. See `GET /v1/tenant`. */
  tenantId?: string | undefined
}

/** The use that a wrapped key of format 2 was wrapped for (wrapped-key-v2.md 2). */
export interface StatedUse {
  purpose?: Purpose | undefined
  context?: WrapContext | undefined
}

/** An opened export. It can read everything that the key ever protected. */
export interface OpenedExport {
  readonly keyId: string
  /**
   * Unwraps a wrapped key (wrapped-key.md). Returns the 32 bytes of the DEK, which the caller zeroes. A wrapped key of
   * format 2 (wrapped-key-v2.md) opens only for the use that it was wrapped for.
   * @throws DecryptionError when it was altered, or wrapped by another key or for another use
   * @throws InvalidInputError when the export lacks the version that wrapped it, and after `close()`
   */
  unwrap(wrapped_key: string, use?: StatedUse): Promise<Bytes>
  /** Opens an envelope to bytes. For a model's value, `context` is that of bindings.md 1. @throws InvalidInputError, DecryptionError */
  decrypt(envelope: StoredEnvelope, options?: OpenOptions): Promise<Bytes>
  /** Opens an envelope to text. @throws ContentError when the bytes are not UTF-8 */
  decryptText(envelope: StoredEnvelope, options?: OpenOptions): Promise<string>
  /** Opens an envelope to a JSON value; `T` is not checked. @throws ContentError when it is not JSON */
  decryptJson<T = unknown>(envelope: StoredEnvelope, options?: OpenOptions): Promise<T>
  /** Returns the blind index of a text, as `eaas.hash` does. @throws InvalidInputError without a hash key */
  hash(value: string): Promise<string>
  /** Returns the index secret of a name of at most 512 bytes (blind-index.md 4): 32 bytes, which the caller zeroes. */
  indexSecret(name: string): Promise<Bytes>
  /** Returns the blind hash (blind-hash.md 6), 64 bytes. An oblivious index is its beginning (oblivious-index.md 2). */
  blindHash(input: Binary): Promise<Bytes>
  /** Zeroes this object's copies of the secrets, but not the export that was passed. */
  close(): void
}

/**
 * Opens the export of a key. Does not use the network.
 * @param exported the export, parsed or as its JSON text
 * @throws InvalidInputError naming what is missing or wrong; the message contains no secret
 * @example
 * ```ts
 * const key = openExport(await readFile('users.export.json', 'utf8'))
 * const phone = await key.decryptText(row.phone)
 * ```
 */
export function openExport(exported: ExportedKey | string, options: OpenExportOptions = {}): OpenedExport {
  assertOptions('openExport()', options, ['tenantId'])
  const { tenantId } = options
  const source = (typeof exported === 'string' ? parseJson(exported) : exported) as Partial<ExportedKey> | null
  if (typeof source !== 'object' || source === null) refuse(`an export must be an object, got ${kindOf(source)}`)
  const { key_id, tenant_id = tenantId, versions } = source
  if (typeof key_id !== 'string' || !isUuid(key_id)) refuse('key_id must be a UUID')
  if (typeof tenant_id !== 'string' || !isUuid(tenant_id)) {
    refuse('tenant_id must be a UUID', 'Pass `tenantId`: GET /v1/tenant has it.')
  }
  if ((tenantId ?? tenant_id) !== tenant_id) refuse('`tenantId` is a different tenant')
  if (!Array.isArray(versions) || versions.length === 0) refuse('versions must hold at least one version')
  const keks = new Map(versions.map(readVersion))
  const hashKey = source.hash_key_hex === undefined ? undefined : readSecret('hash_key_hex', source.hash_key_hex)

  const assertOpen = () => {
    if (keks.size === 0) refuse('the export is closed', 'Open it again.')
  }
  /** Checked after each await, during which `close()` may have been called. */
  const getHashKey = () => {
    assertOpen()
    return hashKey ?? refuse('the export has no hash_key_hex')
  }
  const unwrap = async (wrapped_key: string, stated: StatedUse = {}): Promise<Bytes> => {
    const use = readUse(stated)
    const engine = await selectEngine('auto')
    assertOpen() // after the await, during which `close()` may have been called
    const parts = readWrappedKey(wrapped_key, use && WRAPPED_KEY_V2_FORMAT)
    if (!parts) throw new DecryptionError()
    const { version, iv, sealed } = parts
    const kek =
      keks.get(version) ??
      refuse(
        `wrapped by version ${version}, but the export has ${[...keks.keys()].join(', ')}`,
        'Export it again, unless that version was destroyed.',
      )
    const aad = use
      ? readingContext(() => wrappedKeyV2Aad({ tenant_id, key_id, version }, use))
      : wrappedKeyAad(tenant_id, key_id, version)
    return kek.use((key) => engine.open(key, iv, sealed, aad)) as Soon<Bytes>
  }
  const decrypt = async (envelope: StoredEnvelope, options?: OpenOptions): Promise<Bytes> => {
    const demand = readOpen('decrypt()', options)
    const parts = demandContext(readEnvelope(envelope), demand)
    if (parts.key_id !== key_id) refuse(`encrypted under another key: expected ${key_id}, got ${parts.key_id}`)
    const secrets = readSecrets(demand) // before the first await: the caller may zero them
    const { wrapped_key, use, orUse } = parts
    const dek = unwrap(wrapped_key, use).catch((error: unknown) => {
      const other = orUse?.()
      if (!other) throw error
      return unwrap(wrapped_key, other)
    })
    return openEnvelope(parts, secrets, dek.then(readDek))
  }
  return Object.freeze<OpenedExport>({
    keyId: key_id,
    unwrap,
    decrypt,
    decryptText: async (envelope, options) => toText(await decrypt(envelope, options)),
    decryptJson: async <T>(envelope: StoredEnvelope, options?: OpenOptions) =>
      toJson(await decrypt(envelope, options)) as T,
    async hash(value) {
      const bytes = readValue(value)
      const engine = await selectEngine('auto')
      return encodeHex(await getHashKey().use((key) => engine.createMac(key))(bytes))
    },
    async indexSecret(name) {
      const info = indexSecretInfo(name)
      const engine = await selectEngine('auto')
      const copy = getHashKey().use((key) => key.slice()) // WebCrypto's engine zeroes what it derives from
      try {
        return (await engine.derive(copy, info, KEY_BYTES)) as Bytes
      } finally {
        copy.fill(0)
      }
    },
    async blindHash(input) {
      const bytes = new Uint8Array(readValue(input))
      const { computeBlindHash } = await import('./engines/oprf.js')
      return getHashKey().use((key) => computeBlindHash(key, bytes) as Bytes)
    },
    close() {
      for (const kek of keks.values()) kek.release()
      keks.clear()
      hashKey?.release()
    },
  })
}

/** Opens an envelope, then zeroes the DEK and the secrets, which it takes over. */
async function openEnvelope(parts: OpenableParts, given: GivenSecrets, dek: Soon<Uint8Array>): Promise<Bytes> {
  const secrets = holdSecrets(given)
  const held = [...secrets.list]
  try {
    const key = createSecret(await dek)
    held.push(key)
    const engine = await selectEngine('auto')
    return (await openParts(engine, key, parts, secrets)) as Bytes // no engine returns shared memory
  } finally {
    for (const one of held) one.release()
  }
}

function readOpen(name: string, options: OpenOptions = {}): OpenOptions {
  assertOptions(name, options, ['context', 'acceptUnbound', 'keyIds', 'secret', 'acceptWithoutSecret'])
  return { ...options, ...readDemand(options) }
}

/** Returns the caller's memory. Copy it with `new Uint8Array`: a Buffer's `slice` would share it. */
function readDek(dek: unknown): Uint8Array {
  const bytes = readBinary(dek)
  if (bytes?.length !== KEY_BYTES) refuse(`dek must be ${KEY_BYTES} bytes, got ${bytes?.length ?? kindOf(dek)}`)
  if (isZero(bytes)) refuse('dek is all zeros', 'It was already zeroed: create one with createDek().')
  return bytes
}

function readWrapped(wrapped: unknown): WrappedKey {
  const read = () => readWrappedKeyFields((wrapped ?? {}) as Record<string, unknown>)
  return readFormat(read, 'wrapped: ', 'Pass it exactly as the service returned it.')
}

function readVersion(source: unknown): readonly [version: number, kek: Secret] {
  const { version, dek_hex } = (source ?? {}) as Partial<ExportedKey['versions'][number]>
  if (!Number.isInteger(version)) refuse('version must be a whole number')
  return [version as number, readSecret('dek_hex', dek_hex)]
}

function readSecret(name: string, hex: unknown): Secret {
  if (typeof hex === 'string' && /^[0-9a-f]{64}$/.test(hex)) return createSecret(decodeHex(hex))
  return refuse(`${name} must be 64 hexadecimal digits, lower case`)
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    refuse('the export is not JSON') // the parser's message quotes the text
  }
}

function refuse(message: string, hint = 'Pass an export exactly as the service returned it.'): never {
  throw new InvalidInputError(message, hint)
}
