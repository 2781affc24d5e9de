/** What the parts that the client loads at its first call share, in one file: HTTP, the DEKs that open, and the engine. */
import { type DecryptDekLimits, DecryptDeks } from './deks/decrypt-deks.js'
import type { EncryptDekLimits } from './deks/encrypt-deks.js'
import { type EngineName, type Fallback, selectEngine } from './engines/engine.js'
import { createBatcher } from './http/batcher.js'
import { createHttp, type Http, type HttpOptions } from './http/calls.js'
import type { Observer } from './http/events.js'
import type { settleRefused } from './http/failures.js'
import type { Schemas, SendOptions } from './http/send.js'
import type { AuditContext, GivenSecrets } from './input.js'
import type { Rare } from './models/definition.js'
import type { OpenDeps } from './records/blocks.js'
import { createEnvelopes, holdSecrets } from './records/bound-envelopes.js'
import type { inEitherUse } from './records/open-envelopes.js'
import type { rewrap, unwrapsTo } from './records/rewrapping.js'
import type { createKeyLookup } from './resources/keys.js'
import { now, requestsAreIsolated, type Soon } from './waiting.js'

// Loaded for sealing and for opening, so that bundlers put it into the same file.
export { bindRow } from './models/bindings.js'
export { packRow } from './models/compact-rows.js'
export { pickFields } from './models/definition.js' // exported only so that each part finds it in what pages load first
export { createModelRows } from './models/model-rows.js'
export { attempt } from './records/blocks.js'
export { copyRow } from './records/plain-rows.js'

interface Later extends Schemas {
  rewrap: typeof rewrap
  unwrapsTo: typeof unwrapsTo
  createKeyLookup: typeof createKeyLookup
}

export interface ConnectOptions extends Omit<HttpOptions, 'closed' | 'loadSchemas'> {
  engine: EngineName
  secrets: GivenSecrets
  /** Whether each new wrapped key is unwrapped once before anything is sealed under it, or it replaces an old one. */
  verify: boolean
  auditContext: AuditContext | undefined
  encryptLimits: EncryptDekLimits
  decryptLimits: DecryptDekLimits
  loadMore: () => Soon<Later>
  loadOpening: () => Soon<{ inEitherUse: typeof inEitherUse }>
  loadRare: () => Soon<Rare & Awaited<ReturnType<HttpOptions['loadRare']>>>
  loadFailures: () => Soon<Awaited<ReturnType<SendOptions['loadFailures']>> & { settleRefused: typeof settleRefused }>
}

export interface Connection {
  http: Http
  observer: Observer | undefined
  records: OpenDeps
  /** Runs a function when the client is closed, or at once if it already is. */
  onClose(run: () => void): void
  /** Aborts all calls, zeroes every DEK, and rejects waiting callers with AbortedError. */
  close(): void
}

/** Emits that a DEK was already there, so that no call was needed. */
export function hitOf(
  observer: Observer | undefined,
  operation: 'wrap' | 'unwrap',
): ((keyId: string) => void) | undefined {
  return observer && ((keyId) => observer.emit({ type: 'hit', operation, keyId }))
}

/** Connects the parts of one client that call the service, and its engine. Does not use the network. */
export function connect(options: ConnectOptions): Connection {
  const { engine, verify, observer, loadMore, loadOpening, loadRare } = options
  const closing = createCloser()
  const closed = closing.signal
  const secrets = holdSecrets(options.secrets)
  const http = createHttp({ ...options, closed, loadSchemas: loadMore })
  const batcher = createBatcher(http, options)
  if (secrets.list.length > 0) {
    batcher.hash = async () => {
      throw (await loadRare()).hashDespiteSecret()
    }
  }
  const decryptDeks = new DecryptDeks(options.decryptLimits, {
    unwrap: (wrapped) => batcher.unwrap(wrapped),
    hit: hitOf(observer, 'unwrap'),
    now,
  })
  let hasFallenBack = false
  const fellBack = (why: Fallback) => {
    if (hasFallenBack) return // the engine is selected twice: early, and when it is first needed
    hasFallenBack = true
    observer?.emit({ type: 'fallback', engine: 'noble', ...why })
  }
  const envelopes = createEnvelopes(() => selectEngine(engine, fellBack), secrets)
  const observed: Http = observer ? (call) => observer.observe(call, () => http(call)) : http
  const loadKeys = async () => (await loadMore()).createKeyLookup(observed)
  const records: OpenDeps = {
    envelopes,
    decryptDeks,
    batcher,
    async rewrap(old, signal, options) {
      const [{ rewrap }, { inEitherUse }] = await Promise.all([loadMore(), loadOpening()])
      return inEitherUse(old, (one) => rewrap({ batcher, envelopes, verify }, one, signal, options))
    },
    closed,
    getKey: async (...key) => (await loadKeys()).getKey(...key),
    findKey: async (name) => (await loadKeys()).findKey(name),
    ensureKey: async (name) => (await loadKeys()).ensureKey(name),
  }
  const closers = [
    () => {
      decryptDeks.close()
      for (const secret of secrets.list) secret.release()
    },
  ]
  return {
    http: observed,
    observer,
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

/** Signals that a client is closed. Where requests are isolated it is a plain flag, since controllers belong to one request. */
function createCloser(): Pick<AbortController, 'signal' | 'abort'> {
  if (!requestsAreIsolated()) return new AbortController()
  const signal = { aborted: false, addEventListener: () => undefined }
  const abort = () => {
    signal.aborted = true
  }
  return { signal: signal as Partial<AbortSignal> as AbortSignal, abort }
}
