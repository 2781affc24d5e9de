/** Indexes made with the service, which sees no value (oblivious-index.md). `Tools` is no import, so that bundlers cut fewer chunks. */
import { asciiToBytes, bytesToHex, hexToBytes } from '@noble/curves/utils.js'
import type { Mac } from '../engines/engine.js'
import { type BlindedValue, blindValue, finalizeValues } from '../engines/oprf.js'
import type { EaasError } from '../errors.js'
import type { RecordsDeps } from '../records/blocks.js'
import type { Made } from './local-index.js'
import type { Tools } from './rare-indexes.js'

export type Columns = readonly Map<string, string>[]

export interface Options extends Made {
  publicKey: string | undefined
  signal: AbortSignal | undefined
}

const LABEL = asciiToBytes('eaas/oblivious-index/v1')
/** How many values share a proof. Checking it takes about two milliseconds for each, and blocks the thread. */
const PROVEN = 8
/** The size of a value in a batch, so that a batch holds as many as the service takes (MAX_BATCH_ELEMENTS). */
const ELEMENT_UNITS = 256
const BLOCK_VALUES = 256

/** Sets the hex hash of each text. @throws ProtocolError when the service does not prove that it used the secret */
export async function hashObliviously(
  tools: Tools,
  deps: RecordsDeps,
  options: Options,
  columns: Columns,
): Promise<void> {
  const { signal } = options
  await tools.hashLocally(createInputMacs(tools, deps, options), columns, signal)
  const values = columns.flatMap((own) => [...own].map(([text, input]) => ({ own, text, input: hexToBytes(input) })))
  const publicKey = await findPublicKey(tools, deps, options)
  for (let start = 0; start < values.length; start += BLOCK_VALUES) {
    const block = values.slice(start, start + BLOCK_VALUES)
    const hashes = await tools.together(signal, (signal) =>
      block.map(({ input }) => joinWaiting(tools, deps, { keyId: options.keyId, publicKey, signal }, input)),
    )
    for (const [at, { own, text }] of block.entries()) own.set(text, hashes[at] ?? '')
  }
}

interface Waiting {
  input: Uint8Array
  signal: AbortSignal
  resolve(hash: string): void
  reject(error: unknown): void
}

interface Shared {
  /** By key: the public key that was stated or proved first. None is forgotten, or another could replace it unnoticed. */
  pinned: Map<string, string>
  waiting: Map<string, Waiting[]>
  inLine: Line
}

const sharedBy = new WeakMap<RecordsDeps['batcher'], Shared>()

function sharedOf({ createPace }: Tools, { batcher }: RecordsDeps): Shared {
  const shared = sharedBy.get(batcher) ?? { pinned: new Map(), waiting: new Map(), inLine: createLine(createPace) }
  sharedBy.set(batcher, shared)
  return shared
}

/** Runs a function that blocks the thread once all earlier ones have run. */
type Line = <T>(run: () => T) => Promise<T>

/** Makes a line that rests whenever a rest is due, however many calls wait in it. */
function createLine(start: Tools['createPace']): Line {
  let pace = start()
  let last: Promise<unknown> = Promise.resolve()
  let length = 0
  return (run) => {
    if (length === 0) pace = start() // no rest before the first part, which is sent with a row's wrap
    length++
    const own = last.then(async () => {
      try {
        if (pace.due()) await pace.rest()
        return run()
      } finally {
        length--
      }
    })
    last = own.catch(() => undefined) // the caller handles the error
    return own
  }
}

/** `publicKey` is undefined if the service states that the key no longer has one. */
type Proving = { keyId: string; publicKey: string | undefined; signal: AbortSignal }

function joinWaiting(tools: Tools, deps: RecordsDeps, proving: Proving, input: Uint8Array): Promise<string> {
  const { createPace, microtasks, requestsAreIsolated } = tools
  const { waiting, inLine } = sharedOf(tools, deps)
  const { keyId, publicKey, signal } = proving
  const id = `${keyId} ${publicKey}`
  return new Promise((resolve, reject) => {
    const together = waiting.get(id)
    const all = together ?? []
    all.push({ input, signal, resolve, reject })
    if (together) return
    waiting.set(id, all)
    const hash = () => {
      waiting.delete(id)
      // Another request could not wait in the same line.
      return hashWaiting(tools, deps, proving, all, requestsAreIsolated() ? createLine(createPace) : inLine)
    }
    microtasks()
      .then(hash)
      .catch((error: unknown) => {
        for (const one of all) one.reject(error)
      })
  })
}

async function hashWaiting(
  tools: Tools,
  deps: RecordsDeps,
  proving: Proving,
  waiting: readonly Waiting[],
  inLine: Line,
): Promise<void> {
  const random = (length = 0) => {
    const bytes = new Uint8Array(length)
    tools.fillRandom(bytes)
    return bytes
  }
  for (let start = 0; start < waiting.length; start += BLOCK_VALUES) {
    const block = waiting.slice(start, start + BLOCK_VALUES).filter(({ signal }) => !signal.aborted)
    const blinding = []
    for (let at = 0; at < block.length; at += PROVEN) {
      const part = block.slice(at, at + PROVEN)
      blinding.push(inLine(() => part.map((one) => ({ ...one, ...blindValue(one.input, random) }))))
    }
    const parts = await Promise.all(blinding) // all go in one request
    await Promise.all(
      parts.map(async (part) => {
        try {
          const hashes = await evaluate(tools, deps, proving, part, inLine)
          for (const [at, hash] of hashes.entries()) part[at]?.resolve(bytesToHex(hash))
        } catch (error) {
          for (const one of part) one.reject(error)
        }
      }),
    )
  }
}

async function evaluate(
  tools: Tools,
  deps: RecordsDeps,
  { keyId, publicKey }: Proving,
  part: readonly (Waiting & BlindedValue)[],
  inLine: Line,
): Promise<Uint8Array[]> {
  const body = { elements: part.map(({ blinded }) => btoa(String.fromCharCode(...blinded))), key_id: keyId }
  const units = part.length * ELEMENT_UNITS
  const signal = abortedWithAll(
    tools,
    part.map((one) => one.signal),
  )
  const operation = { op: 'blindHash', name: 'blind_hash', key_id: keyId, units, body, signal } as const
  const made = await deps.batcher.run(operation)
  const { ProtocolError } = tools
  if (publicKey === undefined)
    // the service has by now refused the values of a key that cannot be used
    throw new ProtocolError(`key ${keyId} has no public key for blind hashes: it is destroyed`, 200)
  const hashes = await inLine(() => finalizeValues(part, made, publicKey))
  if (hashes) {
    pin(tools, deps, keyId, publicKey)
    return hashes
  }
  const message =
    `key ${keyId}: the proof of an index does not fit the public key ${publicKey}, which the model names or this ` +
    "client saw first: the model names another key's, or the service has used another secret, which marks a value. " +
    'No index was made'
  const hint =
    'Compare the publicKey of the model with the blind_hash_public_key of the key. If they are equal, check the base URL.'
  throw Object.assign(new ProtocolError(message, 200), { hint })
}

/** Returns a signal that aborts once all of these have, so that nobody waits any more. */
function abortedWithAll({ onAbort }: Tools, signals: readonly AbortSignal[]): AbortSignal {
  const controller = new AbortController()
  const living = signals.filter((signal) => !signal.aborted) // some were aborted while their values were blinded
  let waiting = living.length
  if (waiting === 0) controller.abort()
  for (const signal of living) {
    onAbort(signal, () => {
      if (--waiting === 0) controller.abort()
    })
  }
  return controller.signal
}

/** Makes functions that turn a column's text into the input of the blind hash (oblivious-index.md 2). */
function createInputMacs(
  { encodeUtf8, lengthPrefixed }: Tools,
  { envelopes }: RecordsDeps,
  { secret: name, mixed, model, columns }: Made,
): Mac[] {
  const engine = envelopes.engine()
  const mac = mixed ? mixed.use((bytes) => engine.createMac(bytes)) : engine.createMac(LABEL)
  return columns.map(([column, kind]) => {
    const names = [name, model, column, kind].map((part) => encodeUtf8(part))
    return (text) => mac(lengthPrefixed([LABEL, ...names, text]))
  })
}

/** Returns the public key that a model names, or that the service stated first; undefined for a destroyed key. */
async function findPublicKey(
  tools: Tools,
  deps: RecordsDeps,
  { keyId, publicKey, signal }: Options,
): Promise<string | undefined> {
  // Each of several simultaneous calls asks: where requests are isolated, they could not wait for one another.
  const known = publicKey ?? sharedOf(tools, deps).pinned.get(keyId)
  if (known !== undefined) return known // a named one is kept for others only once the service has proved it
  const stated = await ask(tools, deps, { keyId, signal })
  if (stated !== undefined) pin(tools, deps, keyId, stated)
  return stated
}

/** Keeps a stated or proved public key. @throws ProtocolError if another one was kept before */
function pin(tools: Tools, deps: RecordsDeps, keyId: string, key: string): void {
  const { pinned } = sharedOf(tools, deps)
  const first = pinned.get(keyId) ?? key
  pinned.set(keyId, first)
  if (key === first) return
  throw new tools.ProtocolError(
    `key ${keyId}: the service states or proves the public key ${key}, and this client saw ${first} first: ` +
      'the public key of a key never changes, so one of the two is of another service or false',
    200,
  )
}

/** How the service refuses an API key without `keys:read`, and how a broker does. */
const CANNOT_ASK = ['E_MISSING_PERMISSION', 'E_ROUTE_NOT_FOUND']

async function ask(
  { ProtocolError }: Tools,
  { getKey }: RecordsDeps,
  { keyId, signal }: Pick<Options, 'keyId' | 'signal'>,
): Promise<string | undefined> {
  const found = await getKey(keyId, signal).catch((error: EaasError) => {
    if (error.code !== 'E_API' || !CANNOT_ASK.includes(error.problem)) throw error
    const hint = "Name the public key of the key, its blind_hash_public_key: index: { by: 'oblivious', publicKey }."
    throw Object.assign(error, { hint })
  })
  const { blind_hash_public_key: key } = found
  if (key === undefined)
    throw new ProtocolError(`key ${keyId} has no public key for blind hashes: the service is too old for them`, 200)
  return key ?? undefined
}
