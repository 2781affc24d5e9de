/** The DEKs that seal: one for each key, within limits, the next one made ready before it is needed. */
import type { WrappedKey } from '@eaas/protocol'
import { microtasks, requestsAreIsolated } from '../async/isolated-requests.js'
import { AbortedError } from '../errors.js'
import { randomDek } from './random.js'
import { Sweeper } from './sweeper.js'
import { joinWaiters, type Waiter } from './waiters.js'

/** The share of a limit at which the next DEK is made ready. */
const PREPARE_AT = 0.9
/** How long no DEK is made ready after that failed; who needs one by then asks for itself. */
const PREPARE_PAUSE_MS = 10_000
const MAX_SWEEP_MS = 60_000

/** What is about to be sealed. */
export interface Load {
  messages: number
  bytes: number
}

export interface EncryptDekLimits {
  maxMessages: number
  maxBytes: number
  maxAgeMs: number
  /** How many keys' DEKs are kept at once. */
  maxKeys: number
}

export interface EncryptDekSource {
  /** Has a DEK wrapped; rejects when it cannot. */
  wrap(dek: Uint8Array, keyId: string): Promise<WrappedKey>
  /** Is told each new DEK; copies what it keeps. */
  made(wrapped: WrappedKey, dek: Uint8Array): void
  /** Milliseconds on a clock that never goes back. */
  now(): number
}

/**
 * Seals what it was said to: runs at once, and keeps nothing of the DEK, which is wiped at any time after, though its answer
 * may come by promise.
 */
export type Seal<T> = (dek: Uint8Array, wrapped: WrappedKey) => T | Promise<T>

interface SealingDek {
  dek: Uint8Array
  wrapped: WrappedKey
  messages: number
  bytes: number
  madeAt: number
}

interface LoadedWaiter extends Waiter<SealingDek> {
  load: Load
}

interface Slot {
  current?: SealingDek
  next?: SealingDek
  /** Those who wait for a DEK on its way; undefined when none is. */
  flight?: Flight
  /** On its way to be wrapped. */
  young?: Uint8Array
  preparePausedUntil: number
}

type Flight = Set<LoadedWaiter>

export class EncryptDeks {
  readonly #limits: EncryptDekLimits
  readonly #source: EncryptDekSource
  readonly #slots = new Map<string, Slot>()
  readonly #sweeper: Sweeper
  readonly #isolated = requestsAreIsolated()
  #closed = false

  constructor(limits: EncryptDekLimits, source: EncryptDekSource) {
    this.#limits = limits
    this.#source = source
    this.#sweeper = new Sweeper(() => this.#sweep(), Math.min(limits.maxAgeMs, MAX_SWEEP_MS))
  }

  /**
   * Seals messages under the key's DEK, all under the same, and counts them. Answers at once where a DEK is there, and
   * promises where one has to be wrapped first; all who wait for one key share one wrap.
   *
   * @throws AbortedError after `close()`, or by rejection when the signal is aborted; any error of wrap by rejection
   */
  use<T>(keyId: string, load: Load, signal: AbortSignal | undefined, seal: Seal<T>): T | Promise<T> {
    if (this.#closed) throw new AbortedError()
    const slot = this.#slot(keyId)
    const dek = this.#usable(slot, load)
    const spend = (spent: SealingDek) => this.#spend(spent, load, seal)
    if (dek) {
      const sealed = spend(dek)
      this.#prepare(keyId, slot, dek)
      return sealed
    }
    if (signal?.aborted) throw new AbortedError(signal)
    const waiters: Flight = slot.flight ?? new Set()
    const waiting = joinWaiters<SealingDek, T, LoadedWaiter>(waiters, signal, spend, (waiter) => ({ ...waiter, load }))
    if (!slot.flight) this.#make(keyId, slot, waiters)
    return waiting
  }

  /** Wipes every DEK and fails all who wait. */
  close(): void {
    this.#closed = true
    this.#sweeper.stop()
    for (const [keyId, slot] of this.#slots) {
      this.#drop(keyId, slot)
      slot.young?.fill(0)
      for (const waiter of slot.flight ?? []) waiter.fail(new AbortedError())
    }
  }

  #slot(keyId: string): Slot {
    const slot = this.#slots.get(keyId) ?? { preparePausedUntil: 0 }
    if (this.#slots.size < 2 && this.#slots.has(keyId)) return slot // one key needs no order, which is a third of the time here
    this.#slots.delete(keyId)
    this.#slots.set(keyId, slot) // the order of the map is the order of use
    this.#evict(slot)
    return slot
  }

  /** Drops those longest unused, until no more are left than are kept; those that are being made have their turn later. */
  #evict(keep?: Slot): void {
    for (const [keyId, slot] of this.#slots) {
      if (this.#slots.size <= this.#limits.maxKeys) return
      if (slot !== keep && !slot.flight) this.#drop(keyId, slot)
    }
  }

  #drop(keyId: string, slot: Slot): void {
    wipe(slot.current)
    wipe(slot.next)
    delete slot.current
    delete slot.next
    this.#slots.delete(keyId)
  }

  #usable(slot: Slot, load: Load): SealingDek | undefined {
    if (slot.current && this.#fits(slot.current, load)) return slot.current
    if (!slot.next || !this.#fits(slot.next, load)) return undefined
    wipe(slot.current)
    slot.current = slot.next
    delete slot.next
    return slot.current
  }

  #fits(dek: SealingDek, { messages, bytes }: Load): boolean {
    const { maxAgeMs, maxMessages, maxBytes } = this.#limits
    if (this.#source.now() - dek.madeAt >= maxAgeMs) return false
    // A first message longer than maxBytes has to go somewhere.
    return dek.messages === 0 || (dek.messages + messages <= maxMessages && dek.bytes + bytes <= maxBytes)
  }

  #spend<T>(dek: SealingDek, { messages, bytes }: Load, seal: Seal<T>): T | Promise<T> {
    // Counted first: a message whose sealing failed half-way counts as sealed.
    dek.messages += messages
    dek.bytes += bytes
    return seal(dek.dek, dek.wrapped)
  }

  #prepare(keyId: string, slot: Slot, dek: SealingDek): void {
    // Where requests are isolated, it would end with the request that began it.
    if (slot.next || slot.flight || this.#isolated) return
    const { maxMessages, maxBytes, maxAgeMs } = this.#limits
    const now = this.#source.now()
    const near =
      dek.messages >= maxMessages * PREPARE_AT ||
      dek.bytes >= maxBytes * PREPARE_AT ||
      now - dek.madeAt >= maxAgeMs * PREPARE_AT
    if (near && now >= slot.preparePausedUntil) this.#make(keyId, slot, new Set())
  }

  #make(keyId: string, slot: Slot, waiters: Flight): void {
    slot.flight = waiters
    const land = () => {
      if (slot.flight === waiters) delete slot.flight
    }
    const made = (keeper: Slot) => {
      land()
      this.#serve(keyId, keeper, waiters)
    }
    const failed = (error: unknown) => {
      land()
      slot.preparePausedUntil = this.#source.now() + PREPARE_PAUSE_MS
      // With nobody waiting it was a preparation: whoever needs a DEK later asks again, and is told.
      for (const waiter of waiters) waiter.fail(error)
    }
    void this.#makeNext(keyId, slot)
      .then(made, failed)
      .then(() => this.#evict())
    if (this.#isolated) void microtasks().then(land) // who comes later may be of another request, and makes a DEK as well
  }

  /** Returns the slot that keeps the DEK: a new one where the first was dropped meanwhile, its flight having landed. */
  async #makeNext(keyId: string, slot: Slot): Promise<Slot> {
    const dek = randomDek()
    if (!this.#isolated) slot.young = dek // several may be on their way there
    let kept = false
    try {
      const wrapped = await this.#source.wrap(dek, keyId)
      if (this.#closed) throw new AbortedError()
      this.#source.made(wrapped, dek)
      const keeper = this.#isolated ? this.#slot(keyId) : slot
      wipe(keeper.next)
      keeper.next = { dek, wrapped, messages: 0, bytes: 0, madeAt: this.#source.now() }
      kept = true
      this.#sweeper.start()
      return keeper
    } finally {
      delete slot.young
      if (!kept) dek.fill(0)
    }
  }

  #serve(keyId: string, slot: Slot, waiters: Flight): void {
    for (const waiter of waiters) {
      const dek = this.#usable(slot, waiter.load)
      if (!dek) {
        this.#make(keyId, slot, waiters) // the limits allow each DEK fewer messages than there are callers
        return
      }
      waiter.serve(dek)
    }
  }

  #sweep(): boolean {
    const expired = (dek: SealingDek | undefined) => dek && this.#source.now() - dek.madeAt >= this.#limits.maxAgeMs
    for (const [keyId, slot] of this.#slots) {
      if (expired(slot.next)) {
        wipe(slot.next)
        delete slot.next
      }
      if (expired(slot.current)) {
        wipe(slot.current)
        delete slot.current
      }
      if (!slot.current && !slot.next && !slot.flight) this.#slots.delete(keyId)
    }
    return this.#slots.size > 0
  }
}

function wipe(dek: SealingDek | undefined): void {
  dek?.dek.fill(0)
}
