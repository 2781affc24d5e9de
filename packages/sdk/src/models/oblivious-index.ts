/**
 * Makes the values of index columns together with the service, which sees none of them (oblivious-index.md). Loaded
 * only where a model asks for it. It imports nothing of ours that other files use, but gets it as `Tools`: bundlers
 * would cut what every page downloads into more pieces.
 */
import { asciiToBytes, bytesToHex, hexToBytes } from '@noble/curves/utils.js'
import type { Mac } from '../engines/engine.js'
import { blindValue, finalizeValues } from '../engines/oprf.js'
import type * as Errors from '../errors.js'
import type { EaasError } from '../errors.js'
import type * as Waiting from '../waiting.js'
import type { Soon } from '../waiting.js'
import type { Made } from './local-index.js'
import type { ModelDeps } from './model-types.js'

export interface Tools
  extends Pick<typeof Errors, 'ProtocolError'>,
    Pick<typeof Waiting, 'createPace' | 'loadOnce' | 'untilAborted'> {
  decodeBase64(text: string): Uint8Array
  encodeUtf8(text: string): Uint8Array
  fillRandom(bytes: Uint8Array): void
  lengthPrefixed(parts: readonly Uint8Array[]): Uint8Array
}

interface Options {
  keyId: string
  /** The one that the model names. */
  publicKey: string | undefined
  signal: AbortSignal | undefined
}

const LABEL = asciiToBytes('eaas/oblivious-index/v1')
/** How many values share a proof. Checking it takes about two milliseconds for each, during which nothing else runs. */
const PROVEN = 8
/** How many values are sent together. */
const BLOCK_VALUES = 256

/** Makes the functions that turn a text of each column into the input of the blind hash (oblivious-index.md 2). */
export function createInputMacs(
  { encodeUtf8, lengthPrefixed }: Tools,
  { envelopes }: ModelDeps,
  { secret: name, mixed, model, columns }: Made,
): Mac[] {
  const engine = envelopes.engine()
  const mac = mixed ? mixed.use((bytes) => engine.createMac(bytes)) : engine.createMac(LABEL)
  return columns.map(([column, kind]) => {
    const names = [name, model, column, kind].map((part) => encodeUtf8(part))
    return (text) => mac(lengthPrefixed([LABEL, ...names, text]))
  })
}

/**
 * Replaces each input, in hexadecimal digits, by its hash. @throws ProtocolError when the service does not prove that
 * it used the secret of the key
 */
export async function hashObliviously(
  tools: Tools,
  deps: ModelDeps,
  columns: readonly Map<string, string>[],
  options: Options,
): Promise<void> {
  const { keyId, signal } = options
  const values = columns.flatMap((own) => [...own].map(([text, input]) => ({ own, text, input: hexToBytes(input) })))
  if (values.length === 0) return
  const key = await findPublicKey(tools, deps, options)
  const random = (length = 0) => {
    const bytes = new Uint8Array(length)
    tools.fillRandom(bytes)
    return bytes
  }
  const pace = tools.createPace()
  for (let start = 0; start < values.length; start += BLOCK_VALUES) {
    const block = values.slice(start, start + BLOCK_VALUES)
    const parts = []
    for (let at = 0; at < block.length; at += PROVEN) {
      if (pace.due()) await pace.rest(signal) // not before the first part, which goes with the wrap of a row
      parts.push(block.slice(at, at + PROVEN).map((value) => ({ ...value, ...blindValue(value.input, random) })))
    }
    const asking = parts.map(async (part) => {
      const blinded = part.map((value) => value.blinded)
      return { part, made: await deps.batcher.blindHash(blinded, keyId, signal) } // all in one request
    })
    for (const { part, made } of await Promise.all(asking)) {
      if (pace.due()) await pace.rest(signal)
      for (const [at, hash] of (finalizeValues(part, made, tools.decodeBase64(key)) ?? refuse(key)).entries()) {
        const value = part[at]
        value?.own.set(value.text, bytesToHex(hash))
      }
    }
  }

  function refuse(key: string): never {
    throw new tools.ProtocolError(
      `key ${keyId}: the proof of an index does not fit the public key ${key}, which the model names or this client saw ` +
        'first: the service may have used another secret, which marks a value. No index was made',
      200,
    )
  }
}

type FindKey = () => Soon<{ key: string }>
/** By client and key: the public key that a model names, or that the service stated first. */
const pinned = new WeakMap<ModelDeps['batcher'], Map<string, FindKey>>()

/** @throws ProtocolError when there is none, or the models of a client name two */
async function findPublicKey(tools: Tools, deps: ModelDeps, { keyId, publicKey, signal }: Options): Promise<string> {
  const own = pinned.get(deps.batcher) ?? new Map<string, FindKey>()
  pinned.set(deps.batcher, own)
  const find = own.get(keyId) ?? tools.loadOnce(async () => ({ key: publicKey ?? (await ask(tools, deps, keyId)) }))
  own.set(keyId, find)
  const { key } = await tools.untilAborted(find(), signal)
  if (publicKey === undefined || publicKey === key) return key
  throw new tools.ProtocolError(
    `key ${keyId}: the model names another public key than the one that this client saw first, ${key}: ` +
      'the public key of a key never changes, so one of the two is of another service or false',
    200,
  )
}

/** The refusals of an API key without `keys:read`, and of a broker. */
const CANNOT_ASK = ['E_MISSING_PERMISSION', 'E_ROUTE_NOT_FOUND']

async function ask({ ProtocolError }: Tools, { getKey }: ModelDeps, keyId: string): Promise<string> {
  const found = await getKey(keyId, undefined).catch((error: EaasError) => {
    if (error.code !== 'E_API' || !CANNOT_ASK.includes(error.problem)) throw error
    const hint = "Name the public key of the key, its blind_hash_public_key: index: { by: 'oblivious', publicKey }."
    throw Object.assign(error, { hint })
  })
  const { blind_hash_public_key: key } = found
  if (typeof key === 'string') return key
  const why = key === null ? 'it is destroyed' : 'the service is too old for oblivious indexes'
  throw new ProtocolError(`key ${keyId} has no public key for blind hashes: ${why}`, 200)
}
