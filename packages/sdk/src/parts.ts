/**
 * What the client loads at its first call, in one file, since a program that needs one of these soon needs the
 * others: HTTP, what seals and opens values, the API's resources, models, and the code for many records.
 */
import { type DecryptDekLimits, DecryptDeks } from './deks/decrypt-deks.js'
import { createWrap, type EncryptDekLimits, EncryptDeks } from './deks/encrypt-deks.js'
import { createIvPool } from './deks/random.js'
import type { EngineName } from './engines/engine.js'
import { type Fallback, selectEngine } from './engines/select.js'
import { createBatcher } from './http/batcher.js'
import { createHttp, type Http, type HttpOptions, observe } from './http/calls.js'
import type { RecordsDeps } from './records/blocks.js'
import { createEnvelopes } from './records/envelopes.js'
import { rewrap } from './records/rewrapping.js'

export { readJson } from './json.js'
export { createIndexKey, rewrapIndexKey } from './models/local-index.js'
export { createModelRows } from './models/model-rows.js'
export { decryptMany } from './records/decrypt-many.js'
export { encryptMany } from './records/encrypt-many.js'
export { openOne, sealOne } from './records/envelopes.js'
export { createApiKeys } from './resources/api-keys.js'
export { createAudit } from './resources/audit.js'
export { createKeys } from './resources/keys.js'
export { createServerMode } from './resources/server-mode.js'
export { createService } from './resources/service.js'

export interface ConnectOptions extends HttpOptions {
  engine: EngineName
  /**
   * Whether each new wrapped key is unwrapped once before anything is sealed under it, or it replaces an old
   * one.
   */
  verify: boolean
  encryptLimits: EncryptDekLimits
  decryptLimits: DecryptDekLimits
}

/** What is one client's own of its parts. */
export interface Connection {
  /** Makes the calls of the resources. */
  http: Http
  records: RecordsDeps
  /** Zeroes every DEK and rejects the callers who wait for one with AbortedError. */
  close(): void
}

/**
 * Puts together what calls the service, seals and opens for one client. Does not use the network. @throws
 * InvalidInputError when the engine is known to be unavailable
 */
export function connect(options: ConnectOptions): Connection {
  const { engine, verify, closed, emit } = options
  const http = createHttp(options)
  const batcher = createBatcher(http, emit)
  const now = () => performance.now()
  const hitOf = (operation: 'wrap' | 'unwrap') => emit && ((keyId: string) => emit({ type: 'hit', operation, keyId }))
  const decryptDeks = new DecryptDeks(options.decryptLimits, { unwrap: batcher.unwrap, hit: hitOf('unwrap'), now })
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
  })
  const onClose = new Set<() => void>()
  const close = () => {
    encryptDeks.close()
    decryptDeks.close()
    for (const run of onClose) run()
  }
  if (closed.aborted) close() // closed while the parts were loaded
  return {
    http: (call) => observe(emit, call, () => http(call)),
    records: {
      envelopes,
      encryptDeks,
      decryptDeks,
      batcher,
      wrap,
      rewrap: (old, signal, commit) => rewrap({ batcher, envelopes, verify }, old, signal, commit),
      closed,
      onClose,
    },
    close,
  }
}
