/** Seals values to envelopes (envelope.md 2, envelope-v2.md 5). `open-envelopes.ts` opens them. */
import { type Envelope, encodeSealed, type SealedParts } from '@eaas/protocol'
import type { EncryptDeks } from '../deks/encrypt-deks.js'
import { type OwnDek, withOwnDek } from '../deks/random.js'
import type { Secret } from '../deks/secret.js'
import type { Engine } from '../engines/engine.js'
import { assertFormat, type DekScope } from '../input.js'
import type { NamedUse } from '../uses.js'
import { isPromise, type Soon, use } from '../waiting.js'
import type { RecordsDeps } from './blocks.js'
import { type EnvelopeEngine, type Format, flagOf, readFormatAad, useKeys } from './bound-envelopes.js'

/** Bytes to seal, and the AAD that binds them. Without an AAD they are sealed to format v1. */
export type Plaintext = { bytes: Uint8Array; aad: Uint8Array | undefined }

/** Makes a record's last value from the envelopes of the others. */
export type MakeSeal = (sealed: readonly SealedParts[]) => Plaintext

/** The functions are synchronous if the engine is and the DEK is already there. Otherwise they return promises. */
export interface Envelopes extends EnvelopeEngine {
  /** Seals to format v2 with the AAD of a context, otherwise to v1. The caller may then change the bytes. The DEK has no use. */
  seal(plaintext: Uint8Array, keyId: string, signal: AbortSignal | undefined, aad?: Uint8Array): Soon<SealedParts>
  sealAll(
    plaintexts: readonly Plaintext[],
    options: { keyId: string; signal: AbortSignal | undefined; seal: MakeSeal | undefined; use?: NamedUse | undefined },
  ): Soon<SealedParts[]>
  sealAllWith(own: OwnDek, plaintexts: readonly Plaintext[], seal: MakeSeal | undefined): Soon<SealedParts[]>
  sealWith(own: OwnDek, plaintext: Uint8Array, aad?: Uint8Array): Soon<SealedParts>
}

export function createSealing(
  envelopes: EnvelopeEngine,
  { takeIv, encryptDeks }: { takeIv: () => Uint8Array; encryptDeks: EncryptDeks },
): Envelopes {
  const { secrets } = envelopes
  const sealWith = (own: OwnDek, plaintext: Uint8Array, aad?: Uint8Array): Soon<SealedParts> => {
    const { dek, wrapped } = own
    const iv = takeIv()
    if (aad) return sealBound(envelopes.engine(), own, { iv, plaintext, aad, secret: secrets.list[0] })
    assertFormat({ envelope: 1 }, secrets.list.length > 0)
    return use(
      dek.use((key) => envelopes.engine().seal(key, iv, plaintext)),
      (sealed) => ({ ...wrapped, iv, sealed }),
    )
  }
  const sealAllWith: Envelopes['sealAllWith'] = (own, plaintexts, seal) => {
    const sealOne = ({ bytes, aad }: Plaintext) => sealWith(own, bytes, aad)
    const sealed = plaintexts.map(sealOne)
    const all = sealed.some(isPromise) ? Promise.all(sealed) : (sealed as SealedParts[])
    if (!seal) return all
    const sealLast = (list: SealedParts[]) => use(sealOne(seal(list)), (last) => [...list, last])
    return own.dek.use(() => use(all, sealLast)) // the holder of the DEK may release it before the last value
  }
  return {
    ...envelopes,
    sealWith,
    seal(plaintext, keyId, signal, aad) {
      let taken: Uint8Array | undefined
      const sealed = encryptDeks.use(keyId, { messages: 1, bytes: plaintext.length }, signal, (dek, wrapped) => {
        taken ??= plaintext
        return sealWith({ dek, wrapped }, taken, aad)
      })
      taken ??= new Uint8Array(plaintext) // a DEK is being wrapped, and the caller may zero the plaintext meanwhile
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
  }
}

type BoundMessage = { iv: Uint8Array; plaintext: Uint8Array; aad: Uint8Array; secret: Secret | undefined }

/** Seals bytes (envelope-v2.md 5), which the caller may change afterwards. */
export function sealBound(
  engine: Engine,
  { dek, wrapped }: OwnDek,
  { iv, plaintext, aad, secret }: BoundMessage,
): Soon<SealedParts> {
  let bytes: Uint8Array | undefined
  const sealed = useKeys(engine, dek, { keyId: wrapped.key_id, secret }, ({ key, commitment }) => {
    bytes ??= plaintext
    return use(engine.seal(key, iv, bytes, aad), (sealed) =>
      Object.assign({ iv, sealed, commitment }, wrapped, flagOf(secret)),
    )
  })
  if (bytes || !isPromise(sealed)) return sealed
  const copy = new Uint8Array(plaintext) // the keys are being derived
  bytes = copy
  return sealed.finally(() => copy.fill(0))
}

interface SealOptions extends Format {
  keyId: string
  dek: DekScope
  signal: AbortSignal | undefined
}

/** Seals like `encrypt` of a client. With the shared DEK, the caller may then change the bytes. @throws InvalidInputError */
export function sealOne(
  { envelopes, wrap }: Pick<RecordsDeps, 'envelopes' | 'wrap'>,
  bytes: Uint8Array,
  options: SealOptions,
): Soon<Envelope> {
  const { keyId, dek, signal } = options
  const aad = readFormatAad(keyId, options)
  const sealed =
    dek === 'shared'
      ? envelopes.seal(bytes, keyId, signal, aad)
      : withOwnDek(wrap, { keyId, signal }, (own) => envelopes.sealWith(own, bytes, aad))
  return use(sealed, encodeSealed)
}
