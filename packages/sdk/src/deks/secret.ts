/**
 * Keys in memory: DEKs, and what is derived from them.
 *
 * Code that uses a key never finds it zeroed. Only this file zeroes keys, after their owners release them. Only `use`
 * and `useBound` reach the bytes. They count their caller as a holder until it returned or its promise settled. When
 * the last holder lets go, the key and everything derived from it are zeroed. So neither the order in which promises
 * settle nor the moment when a cache drops a DEK matters.
 */
import { type BoundKeys, splitBoundKeys } from '@eaas/protocol'
import { AbortedError } from '../errors.js'
import { isPromise, requestsAreIsolated, type Soon, use as take } from '../waiting.js'

/** One holder's share of a key of 32 bytes. */
export interface Secret {
  /**
   * Runs a function with the key's bytes, which stay until its promise has settled. It must not keep or change them
   * (the WebCrypto engine zeroes them). @throws AbortedError once no holder or user is left
   */
  use<R>(run: (bytes: Uint8Array) => R): R
  /** Runs with the keys of format v2 (envelope-v2.md 2). Calls `derive`, unless that was done before with the same `mixed`. */
  useBound<T>(
    derive: (bytes: Uint8Array) => Soon<Uint8Array>,
    run: (keys: BoundKeys) => Soon<T>,
    mixed?: Secret,
  ): Soon<T>
  /** Returns another holder's share, which that holder releases. The key is not copied. */
  share(): Secret
  /** Ends this share. Once no holder or user is left, the key and everything derived from it are zeroed. */
  release(): void
}

interface Held {
  readonly bytes: Uint8Array
  readonly secrets: Uint8Array[]
  bound: Map<Secret | undefined, Soon<BoundKeys>>
  holders: number
}

/** Takes over the bytes of a key, which from then on belong to its holders. */
export function createSecret(bytes: Uint8Array): Secret {
  return hold({ bytes, secrets: [bytes], bound: new Map(), holders: 0 })
}

function hold(held: Held): Secret {
  held.holders++
  let isReleased = false
  const assertHeld = () => {
    if (!held.holders) throw new AbortedError() // only the end of a call, or its client, releases what the call may still use
  }
  const use = <R>(run: (bytes: Uint8Array) => R): R => {
    assertHeld()
    held.holders++
    let running: Promise<unknown> | undefined
    try {
      const result = run(held.bytes)
      if (!isPromise<unknown>(result)) return result
      running = result.finally(() => letGo(held))
      return running as R
    } finally {
      if (!running) letGo(held)
    }
  }
  return {
    use,
    useBound: (derive, run, mixed) => use(() => take(boundKeys(held, derive, mixed), run)),
    share() {
      assertHeld()
      return hold(held)
    },
    release() {
      if (isReleased) return
      isReleased = true
      letGo(held)
    },
  }
}

function letGo(held: Held): void {
  held.holders--
  if (held.holders > 0) return
  for (const secret of held.secrets) secret.fill(0)
}

/** Derives once for all callers; where requests are isolated, once per caller until there is a result. */
function boundKeys(
  held: Held,
  derive: (bytes: Uint8Array) => Soon<Uint8Array>,
  mixed: Secret | undefined,
): Soon<BoundKeys> {
  const known = held.bound.get(mixed)
  if (known) return known
  const keep = (okm: Uint8Array) => {
    const keys = splitBoundKeys(okm)
    held.secrets.push(keys.key)
    held.bound.set(mixed, keys)
    return keys
  }
  const derived = derive(held.bytes)
  if (!isPromise(derived)) return keep(derived)
  const deriving = derived.then(keep)
  if (requestsAreIsolated()) return deriving // another request could not await it
  held.bound.set(mixed, deriving)
  const forget = () => {
    held.bound.delete(mixed)
  }
  deriving.catch(forget) // the caller handles the error
  return deriving
}

/** Sweeps until nothing is left, without keeping a process alive; where requests are isolated, only at `start`. */
export class Sweeper {
  readonly #sweep: () => boolean
  readonly #everyMs: number
  readonly #isolated = requestsAreIsolated()
  #sweptAt = 0
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(sweep: () => boolean, everyMs: number) {
    this.#sweep = sweep
    this.#everyMs = everyMs
  }

  start(): void {
    if (this.#isolated) this.#sweepIfDue()
    if (this.#isolated || this.#timer !== undefined) return
    const timer: unknown = setTimeout(() => {
      this.#timer = undefined
      if (this.#sweep()) this.start()
    }, this.#everyMs)
    this.#timer = timer as ReturnType<typeof setTimeout>
    if (typeof timer === 'object') (timer as { unref?: () => void }).unref?.()
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #sweepIfDue(): void {
    const now = performance.now()
    if (now - this.#sweptAt < this.#everyMs) return
    this.#sweptAt = now
    this.#sweep()
  }
}
