/** The DEKs that open: the last ones used, each for an absolute time, and one unwrap for all who wait for the same. */
import type { WrappedKey } from '@eaas/protocol'
import { isPromise } from '../async/is-promise.js'
import { microtasks, requestsAreIsolated } from '../async/isolated-requests.js'
import { AbortedError } from '../errors.js'
import { Sweeper } from './sweeper.js'
import { joinWaiters, type Waiter } from './waiters.js'

const MAX_SWEEP_MS = 60_000

export interface DecryptDekLimits {
  /** How many DEKs are kept; 0 keeps none, and then each use is an unwrap of its own. */
  maxDeks: number
  maxAgeMs: number
}

export interface DecryptDekSource {
  /** Has a DEK unwrapped; what it resolves to is owned, and wiped, by the cache. */
  unwrap(wrapped: WrappedKey): Promise<Uint8Array>
  /** Milliseconds on a clock that never goes back. */
  now(): number
}

/**
 * Opens with the DEK: runs at once, and keeps nothing of it, though its answer may come by promise. What it throws is the
 * caller's error.
 */
export type Open<T> = (dek: Uint8Array) => T | Promise<T>

interface CachedDek {
  dek: Uint8Array
  expiresAt: number
}

interface ArrivedDek {
  dek: Uint8Array
  /** To be called when something authentic was opened with it: only then is it known to be the right one. */
  prove(): void
  /** What is being opened with it, and settles without an error. */
  opening: Promise<void>[]
}

export class DecryptDeks {
  readonly #limits: DecryptDekLimits
  readonly #source: DecryptDekSource
  readonly #cache = new Map<string, CachedDek>()
  readonly #flights = new Map<string, Set<Waiter<ArrivedDek>>>()
  readonly #sweeper: Sweeper
  readonly #isolated = requestsAreIsolated()
  #closed = false

  constructor(limits: DecryptDekLimits, source: DecryptDekSource) {
    this.#limits = limits
    this.#source = source
    this.#sweeper = new Sweeper(() => this.#sweep(), Math.min(limits.maxAgeMs, MAX_SWEEP_MS))
  }

  /**
   * Opens with the DEK that was wrapped. Answers at once where the DEK is cached, and promises where it has to be
   * unwrapped; all who wait for the same wrapped key share one unwrap, where requests are isolated those of one run of
   * microtasks. A DEK that has opened nothing is not kept.
   *
   * @throws AbortedError after `close()`, or by rejection when the signal is aborted; any error of unwrap by rejection
   */
  use<T>(wrapped: WrappedKey, signal: AbortSignal | undefined, open: Open<T>): T | Promise<T> {
    if (this.#closed) throw new AbortedError()
    const name = dekName(wrapped)
    const cached = this.#find(name)
    if (cached) return open(cached.dek)
    if (signal?.aborted) throw new AbortedError(signal)
    const shared = this.#limits.maxDeks > 0 // not kept: each read is to be an entry of its own in the audit log
    const flying = shared ? this.#flights.get(name) : undefined
    const waiters = flying ?? new Set<Waiter<ArrivedDek>>()
    const openArrived = (arrived: ArrivedDek) => {
      const opened = open(arrived.dek)
      // What it fails with is told to the caller, who has the same promise.
      if (isPromise(opened)) arrived.opening.push(opened.then(arrived.prove, () => undefined))
      else arrived.prove()
      return opened
    }
    const waiting = joinWaiters<ArrivedDek, T, Waiter<ArrivedDek>>(waiters, signal, openArrived, (waiter) => waiter)
    if (flying) return waiting
    if (shared) {
      this.#flights.set(name, waiters)
      if (this.#isolated) void microtasks().then(() => this.#land(name, waiters))
    }
    void this.#unwrap(name, wrapped, waiters)
    return waiting
  }

  /** Remembers a DEK that is known to be right; copies it. */
  add(wrapped: WrappedKey, dek: Uint8Array): void {
    if (this.#closed) return
    this.#keep(dekName(wrapped), new Uint8Array(dek), this.#source.now()) // `slice` of a Buffer copies nothing
  }

  /** Wipes every DEK and fails all who wait. */
  close(): void {
    this.#closed = true
    this.#sweeper.stop()
    for (const name of this.#cache.keys()) this.#drop(name)
    for (const waiters of this.#flights.values()) {
      for (const waiter of waiters) waiter.fail(new AbortedError())
    }
  }

  #find(name: string): CachedDek | undefined {
    const cached = this.#cache.get(name)
    if (!cached) return undefined
    if (this.#source.now() >= cached.expiresAt) {
      this.#drop(name)
      return undefined
    }
    this.#cache.delete(name)
    this.#cache.set(name, cached) // the order of the map is the order of use
    return cached
  }

  async #unwrap(name: string, wrapped: WrappedKey, waiters: Set<Waiter<ArrivedDek>>): Promise<void> {
    try {
      const dek = await this.#source.unwrap(wrapped)
      const arrivedAt = this.#source.now()
      const opening: Promise<void>[] = []
      let proven = false
      const serve = () => {
        for (const waiter of waiters) waiter.serve({ dek, prove, opening })
      }
      const prove = () => {
        if (proven) return
        proven = true
        this.#land(name, waiters)
        serve() // who came meanwhile: whoever comes from now on finds it in the cache
        this.#keep(name, dek, arrivedAt)
      }
      do {
        serve()
        await Promise.all(opening.splice(0)) // who comes meanwhile waits for the same DEK
      } while (waiters.size > 0 || opening.length > 0)
      if (proven) return
      // A wrong DEK, kept, would make every envelope of it unreadable until it expires.
      this.#land(name, waiters)
      dek.fill(0)
    } catch (error) {
      this.#land(name, waiters)
      for (const waiter of waiters) waiter.fail(error)
    }
  }

  #land(name: string, waiters: Set<Waiter<ArrivedDek>>): void {
    if (this.#flights.get(name) === waiters) this.#flights.delete(name)
  }

  #keep(name: string, dek: Uint8Array, since: number): void {
    this.#drop(name)
    if (this.#closed || this.#limits.maxDeks === 0) {
      dek.fill(0)
      return
    }
    for (const oldest of this.#cache.keys()) {
      if (this.#cache.size < this.#limits.maxDeks) break
      this.#drop(oldest)
    }
    this.#cache.set(name, { dek, expiresAt: since + this.#limits.maxAgeMs })
    this.#sweeper.start()
  }

  #drop(name: string): void {
    this.#cache.get(name)?.dek.fill(0)
    this.#cache.delete(name)
  }

  #sweep(): boolean {
    const now = this.#source.now()
    for (const [name, cached] of this.#cache) if (now >= cached.expiresAt) this.#drop(name)
    return this.#cache.size > 0
  }
}

/** What a wrapped key is known by. */
export function dekName({ key_id, wrapped_key }: Pick<WrappedKey, 'key_id' | 'wrapped_key'>): string {
  return `${key_id}/${wrapped_key}`
}
