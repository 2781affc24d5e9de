/** Keeps the DEKs that seal, one for each key and use, within limits. Makes the next one in advance. */
import { decodeBase64, encodeBase64, equalInConstantTime, type WrappedKey } from '@eaas/protocol'
import { AbortedError, ProtocolError } from '../errors.js'
import { type NamedUse, type WrappedFor, wrappedFor } from '../uses.js'
import { joinWaiters, microtasks, requestsAreIsolated, type Waiter } from '../waiting.js'
import { random32 } from './random.js'
import { createSecret, type Secret, Sweeper } from './secret.js'

const PREPARE_AT = 0.9
/** How long no DEK is made in advance after a failure. A caller who needs one meanwhile still makes it. */
const PREPARE_PAUSE_MS = 10_000
const MAX_SWEEP_MS = 60_000

export interface Load {
  messages: number
  bytes: number
  /** What its DEK is wrapped for; undefined for format 1. */
  use?: NamedUse | undefined
}

export interface EncryptDekLimits {
  maxMessages: number
  maxBytes: number
  maxAgeMs: number
  maxKeys: number
}

/** Has a DEK wrapped under the current version of a key: in format 2 if it has a use. */
export type Wrap = (dek: Secret, keyId: string, use?: NamedUse) => Promise<WrappedFor>

export interface EncryptDekSource {
  wrap: Wrap
  /** Called with each new DEK. To keep it, share it. */
  made(wrapped: WrappedFor, dek: Secret): void
  /** Called after a seal that did not wait for a wrap. Must not throw. */
  hit?: ((keyId: string) => void) | undefined
  /** The time of a monotonic clock, in milliseconds. */
  now(): number
}

export type Seal<T> = (dek: Secret, wrapped: WrappedKey) => T | Promise<T>

type SealingDek = { dek: Secret; wrapped: WrappedKey; messages: number; bytes: number; madeAt: number }

interface LoadedWaiter extends Waiter<SealingDek> {
  load: Load
}

type Target = { keyId: string; use: NamedUse | undefined }

interface Slot extends Target {
  current?: SealingDek
  next?: SealingDek
  flight?: Flight
  preparePausedUntil: number
}

type Flight = Set<LoadedWaiter>

export class EncryptDeks {
  readonly #limits: EncryptDekLimits
  readonly #source: EncryptDekSource
  readonly #slots = new Map<string, Slot>()
  readonly #young = new Set<Secret>()
  readonly #sweeper: Sweeper
  readonly #isolated = requestsAreIsolated()
  #closed = false

  constructor(limits: EncryptDekLimits, source: EncryptDekSource) {
    this.#limits = limits
    this.#source = source
    this.#sweeper = new Sweeper(() => this.#sweep(), Math.min(limits.maxAgeMs, MAX_SWEEP_MS))
  }

  /** Seals synchronously if there is a DEK, or after one wrap for all waiting callers. @throws AbortedError; errors of wrap */
  use<T>(keyId: string, load: Load, signal: AbortSignal | undefined, seal: Seal<T>): T | Promise<T> {
    if (this.#closed) throw new AbortedError()
    const slot = this.#slot({ keyId, use: load.use })
    const dek = this.#usable(slot, load)
    const spend = (spent: SealingDek) => this.#spend(spent, load, seal)
    if (dek) {
      const sealed = spend(dek)
      this.#source.hit?.(keyId) // late: it may close the client, which releases the DEK
      this.#prepare(slot, dek)
      return sealed
    }
    if (signal?.aborted) throw new AbortedError(signal)
    const waiters: Flight = slot.flight ?? new Set()
    const waiting = joinWaiters<SealingDek, T, LoadedWaiter>(waiters, signal, spend, (waiter) => ({ ...waiter, load }))
    if (!slot.flight) this.#make(slot, waiters)
    return waiting
  }

  close(): void {
    this.#closed = true
    this.#sweeper.stop()
    for (const [name, slot] of this.#slots) {
      this.#drop(name, slot)
      for (const waiter of slot.flight ?? []) waiter.fail(new AbortedError())
    }
    for (const dek of this.#young) dek.release()
  }

  #slot(target: Target): Slot {
    const { keyId, use } = target
    const name = use ? `${keyId}/${use.name}` : keyId
    const known = this.#slots.get(name)
    if (known && this.#slots.size < 2) return known // a single slot needs no order, which takes a third of the time here
    const slot = known ?? { ...target, preparePausedUntil: 0 }
    this.#slots.delete(name)
    this.#slots.set(name, slot) // the order of the map is the order of use
    this.#evict(slot)
    return slot
  }

  /** Drops the least recently used DEKs until the limit holds. A slot whose DEK is being made is dropped later. */
  #evict(keep?: Slot): void {
    for (const [name, slot] of this.#slots) {
      if (this.#slots.size <= this.#limits.maxKeys) return
      if (slot !== keep && !slot.flight) this.#drop(name, slot)
    }
  }

  #drop(name: string, slot: Slot): void {
    for (const which of ['current', 'next'] as const) release(slot, which)
    this.#slots.delete(name)
  }

  #usable(slot: Slot, load: Load): SealingDek | undefined {
    if (slot.current && this.#fits(slot.current, load)) return slot.current
    if (!slot.next || !this.#fits(slot.next, load)) return undefined
    slot.current?.dek.release()
    slot.current = slot.next
    delete slot.next
    return slot.current
  }

  #fits(dek: SealingDek, { messages, bytes }: Load): boolean {
    const { maxAgeMs, maxMessages, maxBytes } = this.#limits
    if (this.#source.now() - dek.madeAt >= maxAgeMs) return false
    // An unused DEK takes any message: otherwise one longer than maxBytes could never be sealed.
    return dek.messages === 0 || (dek.messages + messages <= maxMessages && dek.bytes + bytes <= maxBytes)
  }

  #spend<T>(dek: SealingDek, { messages, bytes }: Load, seal: Seal<T>): T | Promise<T> {
    // Counted before sealing, so that a message whose sealing fails half-way also counts.
    dek.messages += messages
    dek.bytes += bytes
    return seal(dek.dek, dek.wrapped)
  }

  #prepare(slot: Slot, dek: SealingDek): void {
    // Where requests are isolated, the work would end with the request that started it.
    if (slot.next || slot.flight || this.#isolated) return
    const { maxMessages, maxBytes, maxAgeMs } = this.#limits
    const now = this.#source.now()
    const near =
      dek.messages >= maxMessages * PREPARE_AT ||
      dek.bytes >= maxBytes * PREPARE_AT ||
      now - dek.madeAt >= maxAgeMs * PREPARE_AT
    if (near && now >= slot.preparePausedUntil) this.#make(slot, new Set())
  }

  #make(slot: Slot, waiters: Flight): void {
    slot.flight = waiters
    const land = () => {
      if (slot.flight === waiters) delete slot.flight
    }
    const made = (keeper: Slot) => {
      land()
      this.#serve(keeper, waiters)
    }
    const failed = (error: unknown) => {
      land()
      slot.preparePausedUntil = this.#source.now() + PREPARE_PAUSE_MS
      // Without waiters it was made in advance. A later caller who needs a DEK tries again, and gets the error.
      for (const waiter of waiters) waiter.fail(error)
    }
    void this.#makeNext(slot)
      .then(made, failed)
      .then(() => this.#evict())
    if (this.#isolated) void microtasks().then(land) // a later caller may belong to another request, and makes its own DEK
  }

  /** Returns the slot that keeps the DEK: a new one if the given one was dropped once its flight had landed. */
  async #makeNext(slot: Slot): Promise<Slot> {
    const dek = createSecret(random32())
    this.#young.add(dek)
    let kept = false
    try {
      const { keyId, use } = slot
      const wrapped = await this.#source.wrap(dek, keyId, use)
      if (this.#closed) throw new AbortedError()
      this.#source.made(wrapped, dek)
      const keeper = this.#isolated ? this.#slot({ keyId, use }) : slot
      keeper.next?.dek.release()
      keeper.next = { dek, wrapped, messages: 0, bytes: 0, madeAt: this.#source.now() }
      kept = true
      this.#sweeper.start()
      return keeper
    } finally {
      this.#young.delete(dek)
      if (!kept) dek.release()
    }
  }

  #serve(slot: Slot, waiters: Flight): void {
    for (const waiter of waiters) {
      const dek = this.#usable(slot, waiter.load)
      if (!dek) {
        this.#make(slot, waiters) // these callers exceed the limits of one DEK
        return
      }
      waiter.serve(dek)
    }
  }

  #sweep(): boolean {
    const expired = (dek: SealingDek | undefined) => dek && this.#source.now() - dek.madeAt >= this.#limits.maxAgeMs
    for (const [name, slot] of this.#slots) {
      for (const which of ['current', 'next'] as const) if (expired(slot[which])) release(slot, which)
      if (!slot.current && !slot.next && !slot.flight) this.#slots.delete(name)
    }
    return this.#slots.size > 0
  }
}

function release(slot: Slot, which: 'current' | 'next'): void {
  slot[which]?.dek.release()
  delete slot[which]
}

export type Verify = (dek: Secret, wrapped: WrappedFor) => Promise<boolean>

/**
 * Refuses a wrapped key that contains the DEK in clear. With `verify`, unwraps each one before anything is sealed: data
 * under a wrong one would be lost unnoticed. Rejects if the DEK is released meanwhile. @throws AbortedError
 */
export function createWrap(
  wrap: (dek: string, keyId: string, use?: NamedUse) => Promise<WrappedKey>,
  verify: Verify | undefined,
): Wrap {
  return async (dek, keyId, use) => {
    const refuse = (why: string) => new ProtocolError(`POST /v1/keys/${keyId}/wrap: the wrapped key ${why}`, 200)
    const wrapped = wrappedFor(await wrap(dek.use(encodeBase64), keyId, use), () => use && { use })
    const bytes = decodeBase64(wrapped.wrapped_key)
    const isInClear = dek.use((own) =>
      bytes.some((_, at) => equalInConstantTime(bytes.subarray(at, at + own.length), own)),
    )
    if (isInClear) throw refuse('holds the DEK in clear')
    if (verify && !(await verify(dek, wrapped))) throw refuse('does not unwrap to the same DEK')
    return wrapped
  }
}
