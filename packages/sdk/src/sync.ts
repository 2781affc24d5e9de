/** `@eaas/sdk/sync`: seals and opens without promises, for hooks that cannot wait. Needs a DEK and a synchronous engine. */
import { type Context, type Envelope, encodeSealed } from '@eaas/protocol'
import type { Client, DecryptOptions } from './client.js'
import { ColdError, InvalidInputError, isEaasError } from './errors.js'
import type { Binary, Bytes } from './input.js'
import { assertFormat, assertKeyId, assertOptions, readDemand, readSignal, readValue, toText } from './input.js'
import { type EnvelopeEngine, readFormatAad } from './records/bound-envelopes.js'
import { clientParts } from './records/client-parts.js'
import { demandContext, openEnvelope } from './records/open-envelopes.js'
import { readEnvelope, type StoredEnvelope } from './records/read-envelope.js'
import type { CallOptions } from './resources/keys.js'
import { isPromise, type Soon, use } from './waiting.js'

export { ColdError } from './errors.js'

/** Already aborted, so that a call that would have to wait for a DEK is refused and sends nothing. */
const NEVER_WAIT = AbortSignal.abort()

export interface EncryptSyncOptions {
  /** The `id` of the key under which the value is sealed. */
  keyId: string
  /** Binds the value, as with `encrypt` of a client. */
  context?: Context
  /** The format of the envelope: 2 by default, or 1, which clients in other languages read. */
  envelope?: 1 | 2 | undefined
}

/**
 * Makes and wraps a DEK of the key, and loads the engine, so that `encryptSync` works until the DEK reaches its age
 * limit (`deks.maxAgeMs`, one hour by default) or its message limit. Call it at the start, and regularly. Uses the
 * network if there is no DEK yet.
 * @throws InvalidInputError if the client's engine is asynchronous
 * @example
 * ```ts
 * await warm(eaas, keyId)
 * const envelope = encryptSync(eaas, '+33 6 12 34 56 78', { keyId })
 * ```
 */
export async function warm(client: Client, keyId: string, options?: CallOptions): Promise<void> {
  const signal = readSignal('warm()', options)
  assertKeyId(keyId)
  const { records } = await clientParts(client)()
  assertSync(records.envelopes)
  await records.envelopes.seal(new Uint8Array(0), keyId, signal, readFormatAad(keyId, {})) // counts as one message of the DEK
}

/**
 * Seals text or bytes synchronously. Does not use the network. Otherwise as `encrypt` of a client with the key's shared
 * DEK.
 * @throws ColdError (`E_COLD`) if there is no DEK of the key: first await `warm`
 * @throws InvalidInputError as `encrypt` does, and if the client's engine is asynchronous
 */
export function encryptSync(client: Client, value: string | Binary, options: EncryptSyncOptions): Envelope {
  assertOptions('encryptSync()', options, ['keyId', 'context', 'envelope'])
  const { keyId } = options
  assertKeyId(keyId)
  assertFormat(options)
  const bytes = readValue(value)
  const aad = readFormatAad(keyId, options)
  return atOnce(
    clientParts(client)(),
    `the key ${keyId} has no DEK at hand`,
    'Await warm(client, keyId) before, and regularly.',
    ({ envelopes }) => use(envelopes.seal(bytes, keyId, NEVER_WAIT, aad), encodeSealed),
  )
}

/**
 * Opens an envelope synchronously. Does not use the network. Otherwise as `decrypt` of a client.
 * @throws ColdError (`E_COLD`) if the envelope's DEK is not cached: first await `decrypt` of an envelope with the same
 * DEK
 * @throws InvalidInputError, DecryptionError as `decrypt` does, and InvalidInputError if the client's engine is
 * asynchronous
 */
export function decryptSync(
  client: Client,
  envelope: StoredEnvelope,
  options: Omit<DecryptOptions, 'signal'> = {},
): Bytes {
  assertOptions('decryptSync()', options, ['context', 'acceptUnbound', 'keyIds'])
  const parts = demandContext(readEnvelope(envelope), readDemand(options))
  const hint = 'Await decrypt() of it before: its DEK is then kept for deks.cacheMaxAgeMs, unless deks.cache is false.'
  return atOnce(clientParts(client)(false), "the envelope's DEK is not cached", hint, (records) =>
    openEnvelope(records, parts, NEVER_WAIT),
  ) as Bytes
}

/** Opens an envelope to text synchronously. @throws ContentError when the bytes are not UTF-8; otherwise as `decryptSync` */
export function decryptTextSync(
  client: Client,
  envelope: StoredEnvelope,
  options?: Omit<DecryptOptions, 'signal'>,
): string {
  return toText(decryptSync(client, envelope, options))
}

function atOnce<T, R extends { envelopes: EnvelopeEngine }>(
  loading: Soon<{ records: R }>,
  message: string,
  hint: string,
  run: (records: R) => Soon<T>,
): T {
  const loaded = waitingFor(loading)
  if (!loaded) throw new ColdError(message, hint)
  const { records } = loaded
  assertSync(records.envelopes)
  try {
    return run(records) as T // synchronous, since the engine is and no call may wait for a DEK
  } catch (error) {
    throw isEaasError(error) && error.cause === NEVER_WAIT.reason ? new ColdError(message, hint) : error
  }
}

/** Returns the value if it is already there. Ignores a rejection: the next call finds the value, or fails itself. */
function waitingFor<T>(soon: Soon<T>): T | undefined {
  if (!isPromise(soon)) return soon
  soon.catch(() => undefined)
  return undefined
}

function assertSync(envelopes: EnvelopeEngine): void {
  if (envelopes.isSync()) return
  const hint = "Create the client with engine: 'noble', or await encrypt() and decrypt()."
  throw new InvalidInputError('the engine of this client is WebCrypto, which is asynchronous', hint)
}
