/**
 * `@eaas/sdk/offline`: seals and opens without a service, with a DEK that the caller holds or with the export
 * of a key. Never uses the network. Follows envelope.md, wrapped-key.md and blind-index.md.
 */
import {
  asBytes,
  type Context,
  decodeHex,
  type Envelope,
  encodeEnvelope,
  encodeHex,
  encodeUtf8,
  FormatError,
  isUuid,
  isZero,
  KEY_BYTES,
  OpenError,
  readWrappedKey,
  readWrappedKeyFields,
  type WrappedKey,
  wrappedKeyAad,
} from '@eaas/protocol'
import { createIvPool, randomDek } from './deks/random.js'
import { createSecret, type Secret } from './deks/secret.js'
import type { Engine, Mac } from './engines/engine.js'
import { selectEngine } from './engines/select.js'
import { DecryptionError, InvalidInputError } from './errors.js'
import {
  assertFlag,
  assertHashable,
  assertOptions,
  type Binary,
  type Bytes,
  kindOf,
  readValue,
  toJson,
  toText,
} from './input.js'
import { demandContext, type OpenableParts, openBound, readContext, sealBound } from './records/bound-envelopes.js'
import { readEnvelope, type StoredEnvelope } from './records/read-envelope.js'
import type { Soon } from './waiting.js'

export type { Context, Envelope, WrappedKey } from '@eaas/protocol'
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

const takeIv = createIvPool()

/** Makes a DEK: 32 random bytes. The caller zeroes it after use: `dek.fill(0)`. @throws RandomnessError */
export function createDek(): Uint8Array {
  return randomDek()
}

/** How a value is sealed offline. */
export interface SealOptions {
  /** 32 bytes, which the caller zeroes after use. */
  dek: Uint8Array
  /** The DEK as the service wrapped it, for the envelope. Whether it belongs to this DEK is not checked. */
  wrapped: WrappedKey
  /** Binds the value, as with `encrypt` of a client: the envelope has format v2 (envelope-v2.md 3). */
  context?: Context | undefined
}

/** What an envelope must be bound to. */
export interface OpenOptions {
  /**
   * The context under which the value was sealed. An envelope that is bound to another one, or to none, does
   * not open.
   */
  context?: Context | undefined
  /**
   * `true` opens an envelope of format v1, which is bound to nothing, although `context` is given: for a
   * migration.
   */
  acceptUnbound?: boolean | undefined
}

/**
 * Seals text (as UTF-8) or bytes under the caller's DEK (envelope.md 2). Does not use the network. Seal at
 * most 2^31 messages under one DEK.
 *
 * @throws InvalidInputError when the value, the DEK (32 bytes) or `wrapped` is invalid
 * @example
 * ```ts
 * const envelope = await seal('+33 6 12 34 56 78', { dek, wrapped })
 * ```
 */
export async function seal(value: string | Binary, options: SealOptions): Promise<Envelope> {
  assertOptions('seal()', options, ['dek', 'wrapped', 'context'])
  const { dek, wrapped, context } = options
  // Everything is copied before the first await: the caller may zero the DEK and the value as soon as the
  // call returns.
  const header = readWrapped(wrapped)
  const aad = context === undefined ? undefined : readContext(header.key_id, context)
  const plaintext = new Uint8Array(readValue(value))
  const key = copyDek(dek)
  try {
    const engine = await selectEngine('auto')
    const iv = takeIv()
    if (aad) return await sealBound(engine, { dek: key, wrapped: header }, { iv, plaintext, aad })
    return encodeEnvelope(header, iv, await key.use((bytes) => engine.seal(bytes, iv, plaintext)))
  } finally {
    key.release()
    plaintext.fill(0)
  }
}

/**
 * Opens an envelope, or a bundle of server mode, with the caller's DEK (envelope.md 6). Does not use the
 * network.
 *
 * @throws InvalidInputError when it is not an envelope, or the DEK is not 32 bytes
 * @throws DecryptionError when it was altered, or sealed under another DEK
 */
export async function open(envelope: StoredEnvelope, dek: Uint8Array, options?: OpenOptions): Promise<Bytes> {
  const parts = demandContext(readEnvelope(envelope), readDemand('open()', options))
  const key = copyDek(dek) // before anything is awaited, as in `seal`
  try {
    return await openEnvelope(await selectEngine('auto'), key, parts)
  } finally {
    key.release()
  }
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
  /**
   * The tenant's id, needed where the export lacks it, since wrapped keys are bound to it. `GET /v1/tenant`
   * returns it.
   */
  tenantId?: string | undefined
}

/** An opened export, which can read everything that the key ever protected. */
export interface OpenedExport {
  readonly keyId: string
  /**
   * Unwraps a wrapped key (wrapped-key.md): returns the 32 bytes of the DEK, which the caller zeroes.
   *
   * @throws DecryptionError when it was altered, or wrapped by another key
   * @throws InvalidInputError when the export lacks the version that wrapped it, and after `close()`
   */
  unwrap(wrapped_key: string): Promise<Bytes>
  /** Opens an envelope or a bundle to bytes. @throws InvalidInputError, DecryptionError */
  decrypt(envelope: StoredEnvelope, options?: OpenOptions): Promise<Bytes>
  /** Opens to text. @throws ContentError when the bytes are not UTF-8 */
  decryptText(envelope: StoredEnvelope, options?: OpenOptions): Promise<string>
  /** Opens to the JSON value; `T` is not checked. @throws ContentError when it holds no JSON */
  decryptJson<T = unknown>(envelope: StoredEnvelope, options?: OpenOptions): Promise<T>
  /** Returns the blind index of a text, as `eaas.hash` does. @throws InvalidInputError without a hash key */
  hash(value: string): Promise<string>
  /** Zeroes this object's copies of the secrets. The export that was passed keeps its own. */
  close(): void
}

/**
 * Opens the export of a key. Does not use the network.
 *
 * @param exported the export, parsed or as its JSON text
 * @throws InvalidInputError naming what is missing or wrong; the message holds no secret
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
    refuse(
      'the export must have a tenant_id that is a UUID',
      'Pass the tenant_id that GET /v1/tenant returns as `tenantId`.',
    )
  }
  if (tenantId !== undefined && tenantId !== tenant_id)
    refuse('the export belongs to a different tenant than `tenantId`')
  if (!Array.isArray(versions) || versions.length === 0) refuse('versions must hold at least one version')
  const keks = new Map(versions.map(readVersion))
  const hashKey = source.hash_key_hex === undefined ? undefined : readSecret('hash_key_hex', source.hash_key_hex)
  let mac: Mac | undefined

  const assertOpen = () => {
    if (keks.size === 0) refuse('the export is closed', 'Open it again.')
  }
  const unwrap = async (wrapped_key: string): Promise<Bytes> => {
    const engine = await selectEngine('auto')
    assertOpen() // after the await, during which `close()` may have been called
    const parts = readWrappedKey(wrapped_key)
    if (!parts) throw new DecryptionError()
    const { version } = parts
    const kek = keks.get(version)
    if (!kek) {
      const held = [...keks.keys()].join(', ')
      return refuse(`wrapped by version ${version}, but the export has ${held}`, 'Export the key again.')
    }
    return openBytes(engine, kek, { ...parts, aad: wrappedKeyAad(tenant_id, key_id, version) })
  }
  const decrypt = async (envelope: StoredEnvelope, options?: OpenOptions): Promise<Bytes> => {
    assertOpen()
    const parts = demandContext(readEnvelope(envelope), readDemand('decrypt()', options))
    if (parts.key_id !== key_id) refuse(`encrypted under another key: expected ${key_id}, got ${parts.key_id}`)
    const dek = holdDek(await unwrap(parts.wrapped_key))
    try {
      return await openEnvelope(await selectEngine('auto'), dek, parts)
    } finally {
      dek.release()
    }
  }
  return Object.freeze<OpenedExport>({
    keyId: key_id,
    unwrap,
    decrypt,
    decryptText: async (envelope, options) => toText(await decrypt(envelope, options)),
    decryptJson: async <T>(envelope: StoredEnvelope, options?: OpenOptions) =>
      toJson(await decrypt(envelope, options)) as T,
    async hash(value) {
      assertHashable(value)
      assertOpen()
      if (!hashKey) return refuse('the export has no hash_key_hex')
      const engine = await selectEngine('auto')
      assertOpen() // after the await, during which `close()` may have been called
      mac ??= hashKey.use((key) => engine.createMac(key))
      return encodeHex(await mac(encodeUtf8(value)))
    },
    close() {
      for (const kek of keks.values()) kek.release()
      keks.clear()
      hashKey?.release()
    },
  })
}

interface Sealed {
  iv: Uint8Array
  sealed: Uint8Array
  aad?: Uint8Array
}

async function openBytes(engine: Engine, key: Secret, { iv, sealed, aad }: Sealed): Promise<Bytes> {
  return opening(() => key.use((bytes) => engine.open(bytes, iv, sealed, aad)))
}

async function openEnvelope(engine: Engine, dek: Secret, parts: OpenableParts): Promise<Bytes> {
  return opening(() =>
    parts.commitment ? openBound(engine, dek, parts) : dek.use((key) => engine.open(key, parts.iv, parts.sealed)),
  )
}

async function opening(open: () => Soon<Uint8Array>): Promise<Bytes> {
  try {
    return (await open()) as Bytes // no engine returns shared memory
  } catch (error) {
    throw error instanceof OpenError ? new DecryptionError() : error
  }
}

function readDemand(name: string, options: OpenOptions = {}): OpenOptions {
  assertOptions(name, options, ['context', 'acceptUnbound'])
  assertFlag('acceptUnbound', options.acceptUnbound)
  return options
}

// `slice` of a Buffer would share the caller's memory.
function copyDek(dek: unknown): Secret {
  const bytes = asBytes(dek)
  if (bytes?.length === KEY_BYTES) return holdDek(new Uint8Array(bytes))
  return refuse(`dek must be ${KEY_BYTES} bytes, got ${bytes?.length ?? kindOf(dek)}`)
}

function holdDek(bytes: Uint8Array): Secret {
  if (isZero(bytes)) refuse('dek is all zeros', 'It was already zeroed: create one with createDek().')
  return createSecret(bytes)
}

function readWrapped(wrapped: unknown): WrappedKey {
  try {
    return readWrappedKeyFields((wrapped ?? {}) as Record<string, unknown>)
  } catch (error) {
    throw error instanceof FormatError ? new InvalidInputError(`wrapped: ${error.message}`) : error
  }
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
    return refuse('the export is not JSON') // the parser's message quotes the text
  }
}

function refuse(message: string, hint = 'Pass an export exactly as the service returned it.'): never {
  throw new InvalidInputError(message, hint)
}
