/**
 * Makes the values of index columns together with the service, which sees none of them (oblivious-index.md). Loaded
 * only where a model asks for it. It imports nothing of ours that other files use, but gets it as `Tools`: bundlers
 * would cut what every page downloads into more pieces.
 */
import { asciiToBytes, bytesToHex, hexToBytes } from '@noble/curves/utils.js'
import type { FillRandom } from '../deks/random.js'
import type { Mac } from '../engines/engine.js'
import { blindValue, finalizeValues } from '../engines/oprf.js'
import type { EaasError, ProtocolError } from '../errors.js'
import type { createPace } from '../waiting.js'
import type { Made } from './local-index.js'
import type { ModelDeps } from './model-types.js'

export type Tools = readonly [
  hashLocally: (macs: readonly Mac[], columns: Columns, signal: AbortSignal | undefined) => Promise<void>,
  createPace: typeof createPace,
  fillRandom: FillRandom,
  encodeUtf8: (text: string) => Uint8Array,
  lengthPrefixed: (parts: readonly Uint8Array[]) => Uint8Array,
  ProtocolError: typeof ProtocolError,
]

/** Of each column, what its texts become. */
type Columns = readonly Map<string, string>[]

interface Options extends Made {
  /** The one that the model names. */
  publicKey: string | undefined
  signal: AbortSignal | undefined
}

const LABEL = asciiToBytes('eaas/oblivious-index/v1')
/** How many values share a proof. Checking it takes about two milliseconds for each, during which nothing else runs. */
const PROVEN = 8
/** What each counts in a batch, so that one holds as many as the service takes (MAX_BATCH_ELEMENTS). */
const ELEMENT_UNITS = 256
/** How many values are sent together. */
const BLOCK_VALUES = 256

/**
 * Sets the hash of each text, in hexadecimal digits. @throws ProtocolError when the service does not prove that it
 * used the secret of the key
 */
export async function hashObliviously(
  tools: Tools,
  deps: ModelDeps,
  options: Options,
  columns: Columns,
): Promise<void> {
  const [hashLocally, createPace, fillRandom, , , ProtocolError] = tools
  const { keyId, signal } = options
  await hashLocally(createInputMacs(tools, deps, options), columns, signal)
  const values = columns.flatMap((own) => [...own].map(([text, input]) => ({ own, text, input: hexToBytes(input) })))
  const publicKey = await findPublicKey(tools, deps, options)
  const random = (length = 0) => {
    const bytes = new Uint8Array(length)
    fillRandom(bytes)
    return bytes
  }
  const pace = createPace()
  for (let start = 0; start < values.length; start += BLOCK_VALUES) {
    const block = values.slice(start, start + BLOCK_VALUES)
    const parts = []
    for (let at = 0; at < block.length; at += PROVEN) {
      if (pace.due()) await pace.rest(signal) // not before the first part, which goes with the wrap of a row
      parts.push(block.slice(at, at + PROVEN).map((value) => ({ ...value, ...blindValue(value.input, random) })))
    }
    const asking = parts.map(async (part) => {
      const body = { elements: part.map(({ blinded }) => btoa(String.fromCharCode(...blinded))), key_id: keyId }
      const units = part.length * ELEMENT_UNITS
      const operation = { op: 'blindHash', name: 'blind_hash', key_id: keyId, units, body, signal } as const
      return { part, made: await deps.batcher.run(operation) } // all in one request
    })
    for (const { part, made } of await Promise.all(asking)) {
      if (pace.due()) await pace.rest(signal)
      const hashes = finalizeValues(part, made, publicKey)
      if (!hashes) {
        throw new ProtocolError(
          `key ${keyId}: the proof of an index does not fit the public key ${publicKey}, which the model names or this ` +
            'client saw first: the service may have used another secret, which marks a value. No index was made',
          200,
        )
      }
      for (const [at, hash] of hashes.entries()) {
        const value = part[at]
        value?.own.set(value.text, bytesToHex(hash))
      }
    }
  }
}

/** Makes the functions that turn a text of each column into the input of the blind hash (oblivious-index.md 2). */
function createInputMacs(
  [, , , encodeUtf8, lengthPrefixed]: Tools,
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

/** By client and key: the public key that a model names, or that the service stated first. */
const pinned = new WeakMap<ModelDeps['batcher'], Map<string, string>>()

/** @throws ProtocolError when there is none, or another than before */
async function findPublicKey(tools: Tools, deps: ModelDeps, { keyId, publicKey, signal }: Options): Promise<string> {
  const own = pinned.get(deps.batcher) ?? new Map<string, string>()
  pinned.set(deps.batcher, own)
  // Calls made together each ask: where requests are isolated, they could not wait for one another.
  const key = publicKey ?? own.get(keyId) ?? (await ask(tools, deps, { keyId, signal }))
  const first = own.get(keyId) ?? key
  own.set(keyId, first)
  if (key === first) return key
  const [, , , , , ProtocolError] = tools
  throw new ProtocolError(
    `key ${keyId}: the model names or the service states the public key ${key}, and this client saw ${first} first: ` +
      'the public key of a key never changes, so one of the two is of another service or false',
    200,
  )
}

/** The refusals of an API key without `keys:read`, and of a broker. */
const CANNOT_ASK = ['E_MISSING_PERMISSION', 'E_ROUTE_NOT_FOUND']

async function ask(
  [, , , , , ProtocolError]: Tools,
  { getKey }: ModelDeps,
  { keyId, signal }: Pick<Options, 'keyId' | 'signal'>,
): Promise<string> {
  const found = await getKey(keyId, signal).catch((error: EaasError) => {
    if (error.code !== 'E_API' || !CANNOT_ASK.includes(error.problem)) throw error
    const hint = "Name the public key of the key, its blind_hash_public_key: index: { by: 'oblivious', publicKey }."
    throw Object.assign(error, { hint })
  })
  const { blind_hash_public_key: key } = found
  if (typeof key === 'string') return key
  const why = key === null ? 'it is destroyed' : 'the service is too old for oblivious indexes'
  throw new ProtocolError(`key ${keyId} has no public key for blind hashes: ${why}`, 200)
}
