/**
 * Seals one value to one envelope and opens it (envelope.md 2 and 6, envelope-v2.md 5 and 6), with an engine
 * and the DEKs of a client.
 */
import { type Context, type Envelope, encodeSealed, type SealedParts } from '@eaas/protocol'
import type { DecryptDeks } from '../deks/decrypt-deks.js'
import type { EncryptDeks } from '../deks/encrypt-deks.js'
import { type OwnDek, type Secret, withOwnDek } from '../deks/secret.js'
import type { Engine } from '../engines/engine.js'
import { isEaasError, placedAt, type RecordPlace } from '../errors.js'
import { assertFormat, type DekScope, type DemandOptions } from '../input.js'
import { inEitherUse, type NamedUse, usesIn, wrappedFor } from '../uses.js'
import { isPromise, loadOnce, type Soon, use } from '../waiting.js'
import type { RecordsDeps } from './blocks.js'
import {
  demandContext,
  type Format,
  type OpenableParts,
  openParts,
  readContext,
  readFormatAad,
  type Secrets,
  sealBound,
} from './bound-envelopes.js'
import { readEnvelope, withWrappedKey } from './read-envelope.js'

export interface EnvelopesOptions {
  /** Returns a promise where the engine has to be loaded or tested first. Called again when that failed. */
  selectEngine: () => Engine | Promise<Engine>
  takeIv: () => Uint8Array
  encryptDeks: EncryptDeks
  decryptDeks: DecryptDeks
  /** The application's. */
  secrets: Secrets
}

/** Bytes to seal, and the AAD that binds them; without it they are sealed to format v1. */
export interface Plaintext {
  bytes: Uint8Array
  aad: Uint8Array | undefined
}

/** Makes the last value of a record from the envelopes of the others. */
export type MakeSeal = (sealed: readonly SealedParts[]) => Plaintext

/** Each function is synchronous if the engine is and the DEK is already held; otherwise it returns a promise. */
export interface Envelopes {
  /** The application's, for streams and index secrets. */
  readonly secrets: Secrets
  /** Loads the engine. Must be awaited before any other call, unless it returns undefined. */
  ready(): Promise<unknown> | undefined
  /** Returns the engine, once it is ready. */
  engine(): Engine
  /**
   * Tells whether the engine is synchronous, so that a promise means that a DEK is being wrapped or
   * unwrapped.
   */
  isSync(): boolean
  /**
   * Seals bytes, which the caller may change afterwards: to format v2 with the AAD of a context, to format v1
   * without one. Its DEK is wrapped for no use.
   */
  seal(plaintext: Uint8Array, keyId: string, signal: AbortSignal | undefined, aad?: Uint8Array): Soon<SealedParts>
  /**
   * Seals the values of one record under one DEK, and after them what `seal` makes of their envelopes: the seal of
   * the row.
   */
  sealAll(
    plaintexts: readonly Plaintext[],
    options: { keyId: string; signal: AbortSignal | undefined; seal: MakeSeal | undefined; use?: NamedUse | undefined },
  ): Soon<SealedParts[]>
  /** The same under a DEK of the caller. */
  sealAllWith(own: OwnDek, plaintexts: readonly Plaintext[], seal: MakeSeal | undefined): Soon<SealedParts[]>
  /** Seals bytes under a DEK of the caller. */
  sealWith(own: OwnDek, plaintext: Uint8Array, aad?: Uint8Array): Soon<SealedParts>
  /** Opens what `demandContext` returned. @throws DecryptionError */
  open(parts: OpenableParts, signal: AbortSignal | undefined, place?: RecordPlace): Soon<Uint8Array>
  /** Opens with a DEK of the caller. @throws DecryptionError */
  openWith(dek: Secret, parts: OpenableParts, place?: RecordPlace): Soon<Uint8Array>
}

/**
 * Makes the functions that seal and open single values. @throws InvalidInputError when the engine is known to be
 * unavailable
 */
export function createEnvelopes(options: EnvelopesOptions): Envelopes {
  const { selectEngine, takeIv, encryptDeks, decryptDeks, secrets } = options
  const load = loadOnce(async () => selectEngine())
  let engine: Engine | undefined
  const selected = selectEngine()
  if (!isPromise(selected)) engine = selected
  else selected.catch(() => undefined) // started early; ready() tries again and reports the error

  const current = () => engine as Engine // callers wait for ready() first
  const sealWith = (own: OwnDek, plaintext: Uint8Array, aad?: Uint8Array): Soon<SealedParts> => {
    const { dek, wrapped } = own
    const iv = takeIv()
    if (aad) return sealBound(current(), own, { iv, plaintext, aad, secret: secrets.list[0] })
    assertFormat({ envelope: 1 }, secrets.list.length > 0)
    return use(
      dek.use((key) => current().seal(key, iv, plaintext)),
      (sealed) => ({ ...wrapped, iv, sealed }),
    )
  }
  const sealAllWith: Envelopes['sealAllWith'] = (own, plaintexts, seal) => {
    const sealOne = ({ bytes, aad }: Plaintext) => sealWith(own, bytes, aad)
    const sealed = plaintexts.map(sealOne)
    const all = sealed.some(isPromise) ? Promise.all(sealed) : (sealed as SealedParts[])
    if (!seal) return all
    const sealLast = (list: SealedParts[]) => use(sealOne(seal(list)), (last) => [...list, last])
    return own.dek.use(() => use(all, sealLast)) // whoever holds the DEK may release it before the last one
  }
  const openWith = (dek: Secret, parts: OpenableParts, place?: RecordPlace) => {
    const translate = (error: unknown): never => {
      throw place && isEaasError(error) ? placedAt(error, place) : error
    }
    try {
      const opened = openParts(current(), dek, parts, secrets)
      return isPromise(opened) ? opened.catch(translate) : opened
    } catch (error) {
      return translate(error)
    }
  }
  return {
    secrets,
    ready() {
      const take = (loaded: Engine) => {
        engine ??= loaded
      }
      return engine ? undefined : Promise.resolve(load()).then(take)
    },
    engine: current,
    isSync: () => !current().isAsync,
    sealWith,
    openWith,
    seal(plaintext, keyId, signal, aad) {
      let taken: Uint8Array | undefined
      const sealed = encryptDeks.use(keyId, { messages: 1, bytes: plaintext.length }, signal, (dek, wrapped) => {
        taken ??= plaintext
        return sealWith({ dek, wrapped }, taken, aad)
      })
      taken ??= new Uint8Array(plaintext) // a DEK is being wrapped; meanwhile the caller may zero the plaintext
      return sealed
    },
    sealAllWith,
    sealAll(plaintexts, { keyId, signal, seal, use }) {
      const bytes = plaintexts.reduce((sum, plaintext) => sum + plaintext.bytes.length, 0)
      const messages = plaintexts.length + (seal ? 1 : 0)
      return encryptDeks.use(keyId, { messages, bytes, use }, signal, (dek, wrapped) =>
        sealAllWith({ dek, wrapped }, plaintexts, seal),
      )
    },
    open(parts, signal, place) {
      const openOne = (one: OpenableParts) => decryptDeks.use(one, signal, (dek) => openWith(dek, one, place))
      return parts.orUse ? inEitherUse(parts, openOne) : openOne(parts) // an error shows few frames of its caller
    },
  }
}

interface SealOptions extends Format {
  keyId: string
  dek: DekScope
  signal: AbortSignal | undefined
}

/**
 * Seals bytes as `encrypt` of a client does. If the DEK is the shared one, the caller may change them afterwards.
 * @throws InvalidInputError for a wrong context
 */
export function sealOne(
  { envelopes, wrap }: Pick<RecordsDeps, 'envelopes' | 'wrap'>,
  bytes: Uint8Array,
  { keyId, dek, signal, ...format }: SealOptions,
): Soon<Envelope> {
  const aad = readFormatAad(keyId, format)
  const sealed =
    dek === 'shared'
      ? envelopes.seal(bytes, keyId, signal, aad)
      : withOwnDek(wrap, { keyId, signal }, (own) => envelopes.sealWith(own, bytes, aad))
  return use(sealed, encodeSealed)
}

/** Opens an envelope of unknown origin, as `decrypt` of a client does. @throws InvalidInputError, DecryptionError */
export function openOne(
  { envelopes }: Pick<RecordsDeps, 'envelopes'>,
  envelope: unknown,
  { signal, ...demand }: DemandOptions & { signal: AbortSignal | undefined },
): Soon<Uint8Array> {
  return envelopes.open(demandContext(readEnvelope(envelope), demand), signal)
}

/** Has the DEK of an envelope wrapped again, as `rewrap` of a client does. @throws InvalidInputError, DecryptionError */
export async function rewrapEnvelope(
  { rewrap }: Pick<RecordsDeps, 'rewrap'>,
  stored: unknown,
  { context, signal }: { context: Context | undefined; signal: AbortSignal | undefined },
): Promise<unknown> {
  const old = readEnvelope(stored)
  if (context !== undefined) readContext(old.key_id, context)
  return withWrappedKey(
    stored,
    await rewrap(
      wrappedFor(old, () => usesIn(context)),
      signal,
    ),
  )
}
