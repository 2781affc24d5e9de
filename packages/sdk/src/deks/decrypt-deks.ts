/** Caches the DEKs that open, each for a fixed time. The least recently used is dropped first. */
import { AbortedError } from '../errors.js'
import type { WrappedFor } from '../uses.js'
import { isPromise, joinWaiters, microtasks, requestsAreIsolated, type Waiter } from '../waiting.js'
import { createSecret, type Secret, Sweeper } from './secret.js'

const MAX_SWEEP_MS = 60_000

export interface DecryptDekLimits {
  /** How many DEKs are kept. With 0, each use unwraps. */
  maxDeks: number
  maxAgeMs: number
}

export interface DecryptDekSource {
  /** The cache takes over the bytes. */
  unwrap(wrapped: WrappedFor): Promise<Uint8Array>
  hit?: ((keyId: string) => void) | undefined
  now(): number
}

/** Its errors go to the caller of `use`. */
export type Open<T> = (dek: Secret) => T | Promise<T>

type CachedDek = { dek: Secret; expiresAt: number }

interface ArrivedDek {
  dek: Secret
  /** Called once the DEK opened something authentic, which proves that it is the right one. */
  prove(): void
  opening: Promise<void>[]
}

export class DecryptDeks {
  readonly #limits: DecryptDekLimits
  readonly #source: DecryptDekSource
  readonly #cache = new Map<string, CachedDek>()
  readonly #flights = new Map<string, Set<Waiter<ArrivedDek>>>()
  readonly #sweeper: Sweeper
  readonly #isolated = requestsAreIsolated()
  /** The most recently used DEK: it is used most often, and need not move. */
  #newest: CachedDek | undefined
  #closed = false

  constructor(limits: DecryptDekLimits, source: DecryptDekSource) {
    this.#limits = limits
    this.#source = source
    this.#sweeper = new Sweeper(() => this.#sweep(), Math.min(limits.maxAgeMs, MAX_SWEEP_MS))
  }

  /** Opens synchronously if the DEK is cached, or after one unwrap for all waiting callers. @throws AbortedError; errors of unwrap */
  use<T>(wrapped: WrappedFor, signal: AbortSignal | undefined, open: Open<T>): T | Promise<T> {
    if (this.#closed) throw new AbortedError()
    const name = dekName(wrapped)
    const cached = this.#find(name) ?? this.#findInOtherUse(wrapped)
    if (cached) {
      const opened = open(cached.dek)
      this.#source.hit?.(wrapped.key_id) // last: it may close the client, which releases the DEK
      return opened
    }
    if (signal?.aborted) throw new AbortedError(signal)
    const shared = this.#limits.maxDeks > 0 // without a cache, each read must have its own entry in the audit log
    const flying = shared ? this.#flights.get(name) : undefined
    const waiters = flying ?? new Set<Waiter<ArrivedDek>>()
    const openArrived = (arrived: ArrivedDek) => {
      const opened = open(arrived.dek)
      // The caller has the same promise, and handles its error.
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

  add(wrapped: WrappedFor, dek: Secret): void {
    this.#keep(dekName(wrapped), dek.share(), this.#source.now())
  }

  close(): void {
    this.#closed = true
    this.#sweeper.stop()
    for (const name of this.#cache.keys()) this.#drop(name)
    for (const waiters of this.#flights.values()) {
      for (const waiter of waiters) waiter.fail(new AbortedError())
    }
  }

  /** Finds a DEK that is cached for its other use: stored data does not tell which of the two it has (bindings.md 5). */
  #findInOtherUse({ orUse, ...wrapped }: WrappedFor): CachedDek | undefined {
    const use = orUse?.()
    return use && this.#find(dekName({ ...wrapped, use }))
  }

  #find(name: string): CachedDek | undefined {
    const cached = this.#cache.get(name)
    if (!cached) return undefined
    if (this.#source.now() >= cached.expiresAt) {
      this.#drop(name)
      return undefined
    }
    if (cached === this.#newest) return cached
    this.#cache.delete(name)
    this.#append(name, cached)
    return cached
  }

  async #unwrap(name: string, wrapped: WrappedFor, waiters: Set<Waiter<ArrivedDek>>): Promise<void> {
    try {
      const dek = createSecret(await this.#source.unwrap(wrapped))
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
        serve() // callers that joined meanwhile; later ones find the DEK in the cache
        this.#keep(name, dek, arrivedAt)
      }
      do {
        serve()
        await Promise.all(opening.splice(0)) // callers may join meanwhile
      } while (waiters.size > 0 || opening.length > 0)
      if (proven) return
      // A wrong DEK must not be kept: its envelopes could not be read until it expires.
      this.#land(name, waiters)
      dek.release()
    } catch (error) {
      this.#land(name, waiters)
      for (const waiter of waiters) waiter.fail(error)
    }
  }

  #land(name: string, waiters: Set<Waiter<ArrivedDek>>): void {
    if (this.#flights.get(name) === waiters) this.#flights.delete(name)
  }

  #keep(name: string, dek: Secret, since: number): void {
    this.#drop(name)
    if (this.#closed || this.#limits.maxDeks === 0) {
      dek.release()
      return
    }
    for (const oldest of this.#cache.keys()) {
      if (this.#cache.size < this.#limits.maxDeks) break
      this.#drop(oldest)
    }
    this.#append(name, { dek, expiresAt: since + this.#limits.maxAgeMs })
    this.#sweeper.start()
  }

  #append(name: string, cached: CachedDek): void {
    this.#cache.set(name, cached)
    this.#newest = cached
  }

  #drop(name: string): void {
    const cached = this.#cache.get(name)
    cached?.dek.release()
    this.#cache.delete(name)
  }

  #sweep(): boolean {
    const now = this.#source.now()
    for (const [name, cached] of this.#cache) if (now >= cached.expiresAt) this.#drop(name)
    return this.#cache.size > 0
  }
}

/** The last name: values often share a DEK, and V8 hashes a text for a map once. */
let last = { key_id: '', used: '', wrapped_key: '', name: '' }

/** Names the DEK of a wrapped key for its use. The stored text comes last, after JSON, so that names differ. */
export function dekName({ key_id, wrapped_key, use }: WrappedFor): string {
  const used = use ? use.name : '[]'
  if (last.wrapped_key !== wrapped_key || last.used !== used || last.key_id !== key_id)
    last = { key_id, used, wrapped_key, name: key_id + used + wrapped_key }
  return last.name
}
