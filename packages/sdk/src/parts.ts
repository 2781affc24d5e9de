/** What the client loads at its first call, in one file: HTTP, and what opens values. */
import { type DecryptDekLimits, DecryptDeks } from './deks/decrypt-deks.js'
import type { EncryptDekLimits } from './deks/encrypt-deks.js'
import type { EngineName } from './engines/engine.js'
import { type Fallback, selectEngine } from './engines/select.js'
import { InvalidInputError } from './errors.js'
import { type Batcher, createBatcher } from './http/batcher.js'
import { createHttp, type Http, type HttpOptions, observe } from './http/calls.js'
import type { Emit } from './http/events.js'
import type { Schemas } from './http/send.js'
import type { AuditContext, GivenSecrets } from './input.js'
import type { OpenDeps } from './records/blocks.js'
import { holdSecrets } from './records/bound-envelopes.js'
import { createEnvelopes } from './records/envelopes.js'
import type { rewrap } from './records/rewrapping.js'
import type { findKey } from './resources/ensure-key.js'
import type createKeys from './resources/keys.js'
import { now, requestsAreIsolated, type Soon } from './waiting.js'

// What sealing and opening both load, so that bundlers put it in the same file.
export { bindRow } from './models/bindings.js'
export { encodeField } from './models/codecs.js'
export { packRow } from './models/compact-rows.js'
export { createModelRows } from './models/model-rows.js'
export { attempt } from './records/blocks.js'
export { openOne } from './records/envelopes.js'
export { copyRow } from './records/plain-rows.js'

/** What few programs need, and the client loads later. */
interface Later extends Schemas {
  rewrap: typeof rewrap
  createKeys: typeof createKeys
  findKey: typeof findKey
}

export interface ConnectOptions extends Omit<HttpOptions, 'closed' | 'loadSchemas'> {
  engine: EngineName
  /** The application's. */
  secrets: GivenSecrets
  /**
   * Whether each new wrapped key is unwrapped once before anything is sealed under it, or it replaces an old
   * one.
   */
  verify: boolean
  auditContext: AuditContext | undefined
  encryptLimits: EncryptDekLimits
  decryptLimits: DecryptDekLimits
  loadMore: () => Soon<Later>
}

/** The parts that belong to one client. */
export interface Connection {
  /** Makes the calls of the resources. */
  http: Http
  records: OpenDeps
  /** Runs the function when the client is closed; at once if it is. */
  onClose(run: () => void): void
  /** Ends all calls, zeroes every DEK, and rejects the callers who wait for one with AbortedError. */
  close(): void
}

/** Emits that a DEK was there already, so that no call was needed. */
export function hitOf(emit: Emit | undefined, operation: 'wrap' | 'unwrap'): ((keyId: string) => void) | undefined {
  return emit && ((keyId) => emit({ type: 'hit', operation, keyId }))
}

/**
 * Puts together the parts that call the service and open for one client. Does not use the network. @throws
 * InvalidInputError when the engine is known to be unavailable
 */
export function connect(options: ConnectOptions): Connection {
  const { engine, verify, emit, loadMore } = options
  const closing = createCloser()
  const closed = closing.signal
  const secrets = holdSecrets(options.secrets)
  const http = createHttp({ ...options, closed, loadSchemas: loadMore })
  const batcher = createBatcher(http, { emit, auditContext: options.auditContext })
  if (secrets.list.length > 0) batcher.hash = refuseHash
  const decryptDeks = new DecryptDeks(options.decryptLimits, {
    unwrap: (wrapped) => batcher.unwrap(wrapped),
    hit: hitOf(emit, 'unwrap'),
    now,
  })
  let hasFallenBack = false
  const fellBack = (why: Fallback) => {
    if (hasFallenBack) return // the engine is selected twice: early, and when it is first needed
    hasFallenBack = true
    emit?.({ type: 'fallback', engine: 'noble', ...why })
  }
  const envelopes = createEnvelopes({ selectEngine: () => selectEngine(engine, fellBack), decryptDeks, secrets })
  const observed: Http = (call) => observe(emit, call, () => http(call))
  const loadKeys = async () => {
    const { createKeys, findKey } = await loadMore()
    return { keys: createKeys(observed), findKey }
  }
  const records: OpenDeps = {
    envelopes,
    decryptDeks,
    batcher,
    rewrap: async (old, signal, options) =>
      (await loadMore()).rewrap({ batcher, envelopes, verify }, old, signal, options),
    closed,
    async getKey(keyId, signal) {
      const { keys } = await loadKeys()
      return keys.get(keyId, { signal })
    },
    async findKey(name) {
      const { keys, findKey } = await loadKeys()
      return (await findKey(keys, name))?.id
    },
    async ensureKey(name) {
      const { keys } = await loadKeys()
      return (await keys.ensure({ name })).id
    },
  }
  const closers = [
    () => {
      decryptDeks.close()
      for (const secret of secrets.list) secret.release()
    },
  ]
  return {
    http: observed,
    records,
    onClose(run) {
      closers.unshift(run)
      if (closed.aborted) run()
    },
    close() {
      closing.abort()
      for (const run of closers) run()
    },
  }
}

/** Hashing would show the service the value, which a secret is there to prevent. */
const refuseHash: Batcher['hash'] = async () => {
  const hint = 'Let a model make the index, or leave it out.'
  throw new InvalidInputError('a client with a secret sends no value to be hashed', hint)
}

/**
 * Makes what says that a client is closed. Where requests are isolated it is a mere flag: older workerd refuses a
 * controller at the top of a module, and each controller to all requests but one.
 */
function createCloser(): Pick<AbortController, 'signal' | 'abort'> {
  if (!requestsAreIsolated()) return new AbortController()
  const signal = { aborted: false, addEventListener: () => undefined }
  const abort = () => {
    signal.aborted = true
  }
  return { signal: signal as Partial<AbortSignal> as AbortSignal, abort }
}
