/** What the client loads at its first call, in one file: HTTP, and what seals and opens values and the rows of models. */
import { type DecryptDekLimits, DecryptDeks } from './deks/decrypt-deks.js'
import { createWrap, type EncryptDekLimits, EncryptDeks } from './deks/encrypt-deks.js'
import { createIvPool } from './deks/random.js'
import type { EngineName } from './engines/engine.js'
import { type Fallback, selectEngine } from './engines/select.js'
import { InvalidInputError } from './errors.js'
import { type Batcher, createBatcher } from './http/batcher.js'
import { createHttp, type Http, type HttpOptions, observe } from './http/calls.js'
import type { AuditContext, GivenSecrets } from './input.js'
import { createIndexSecrets } from './models/local-index.js'
import type * as More from './more.js'
import type { RecordsDeps } from './records/blocks.js'
import { holdSecrets } from './records/bound-envelopes.js'
import { createEnvelopes } from './records/envelopes.js'
import { loadOnce, loadPart, now, requestsAreIsolated } from './waiting.js'

export { readJson } from './json.js'
export { createModelRows, warnOfFewValues } from './models/model-rows.js'
export { openOne, rewrapEnvelope, sealOne } from './records/envelopes.js'

export const loadMore = /* @__PURE__ */ loadOnce(() => loadPart(() => import('./more.js')))

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
}

/** The parts that belong to one client. */
export interface Connection {
  /** Makes the calls of the resources. */
  http: Http
  records: RecordsDeps
  /** Loads what few programs need. */
  withMore(): Promise<typeof More & { http: Http; records: RecordsDeps }>
  /** Ends all calls, zeroes every DEK, and rejects the callers who wait for one with AbortedError. */
  close(): void
}

/**
 * Puts together the parts that call the service, seal and open for one client. Does not use the network. @throws
 * InvalidInputError when the engine is known to be unavailable
 */
export function connect(options: ConnectOptions): Connection {
  const { engine, verify, emit } = options
  const closing = createCloser()
  const closed = closing.signal
  const secrets = holdSecrets(options.secrets)
  const http = createHttp({ ...options, closed, loadSchemas: loadMore })
  const batcher = createBatcher(http, { emit, auditContext: options.auditContext })
  if (secrets.list.length > 0) batcher.hash = refuseHash
  const hitOf = (operation: 'wrap' | 'unwrap') => emit && ((keyId: string) => emit({ type: 'hit', operation, keyId }))
  const decryptDeks = new DecryptDeks(options.decryptLimits, {
    unwrap: (wrapped) => batcher.unwrap(wrapped),
    hit: hitOf('unwrap'),
    now,
  })
  const indexSecrets = new DecryptDeks(options.decryptLimits, {
    unwrap: createIndexSecrets(batcher.indexSecret, () => envelopes.engine()),
    now,
  })
  const made = decryptDeks.add.bind(decryptDeks)
  const wrap = createWrap(batcher, verify)
  const encryptDeks = new EncryptDeks(options.encryptLimits, { wrap, made, hit: hitOf('wrap'), now })
  let hasFallenBack = false
  const fellBack = (why: Fallback) => {
    if (hasFallenBack) return // the engine is selected twice: early, and when it is first needed
    hasFallenBack = true
    emit?.({ type: 'fallback', engine: 'noble', ...why })
  }
  const envelopes = createEnvelopes({
    selectEngine: () => selectEngine(engine, fellBack),
    takeIv: createIvPool(),
    encryptDeks,
    decryptDeks,
    secrets,
  })
  const observed: Http = (call) => observe(emit, call, () => http(call))
  const loadKeys = async () => {
    const { createKeys, findKey } = await loadMore()
    return { keys: createKeys(observed), findKey }
  }
  const records: RecordsDeps = {
    envelopes,
    encryptDeks,
    decryptDeks,
    indexSecrets,
    batcher,
    wrap,
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
  return {
    http: observed,
    records,
    withMore: async () => ({ ...(await loadMore()), http: observed, records }),
    close() {
      closing.abort()
      encryptDeks.close()
      decryptDeks.close()
      indexSecrets.close()
      for (const secret of secrets.list) secret.release()
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
