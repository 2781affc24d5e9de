/**
 * Puts together what seals and opens for one client: its engine, its DEKs and its envelopes. Loaded at the
 * first call.
 */
import { type DecryptDekLimits, DecryptDeks } from '../deks/decrypt-deks.js'
import { type EncryptDekLimits, EncryptDeks } from '../deks/encrypt-deks.js'
import { createWrap } from '../deks/own-dek.js'
import { createIvPool } from '../deks/random.js'
import type { EngineName } from '../engines/names.js'
import { type Fallback, selectEngine } from '../engines/select.js'
import type { Batcher } from '../http/batcher.js'
import type { Emit } from '../http/events.js'
import type { RecordsDeps } from './blocks.js'
import { createEnvelopes } from './envelopes.js'
import { createRewrap } from './rewrapping.js'

export interface SealingOptions {
  engine: EngineName
  /**
   * Whether each new wrapped key is unwrapped once before anything is sealed under it, or it replaces an old
   * one.
   */
  verify: boolean
  encryptLimits: EncryptDekLimits
  decryptLimits: DecryptDekLimits
  batcher: Batcher
  /** Takes an event of each DEK at hand that is used, and of an engine in JavaScript. */
  emit?: Emit | undefined
  /** Aborted when the client is closed. */
  closed: AbortSignal
}

export interface Sealing extends RecordsDeps {
  /** The DEKs that seal. */
  encryptDeks: EncryptDeks
  /** Zeroes every DEK and rejects the callers who wait for one with AbortedError. */
  close(): void
}

/**
 * Makes what seals and opens. Does not use the network. @throws InvalidInputError when the engine is known to
 * be unavailable
 */
export function createSealing(options: SealingOptions): Sealing {
  const { engine, batcher, closed, emit } = options
  const now = () => performance.now()
  const hitOf = (operation: 'wrap' | 'unwrap') => emit && ((keyId: string) => emit({ type: 'hit', operation, keyId }))
  const decryptDeks = new DecryptDeks(options.decryptLimits, { unwrap: batcher.unwrap, hit: hitOf('unwrap'), now })
  const made = decryptDeks.add.bind(decryptDeks)
  const wrap = createWrap(batcher, options.verify)
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
  const rewrap = createRewrap(batcher, envelopes, options.verify)
  const onClose = new Set<() => void>()
  const close = () => {
    encryptDeks.close()
    decryptDeks.close()
    for (const run of onClose) run()
  }
  if (closed.aborted) close() // closed while the part was loaded
  return { envelopes, encryptDeks, decryptDeks, batcher, wrap, rewrap, closed, onClose, close }
}
