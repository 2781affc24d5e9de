/** Zeroes expired DEKs in time. Without it, they would stay in memory until the next call. */
import { requestsAreIsolated } from '../async/isolated-requests.js'

/**
 * Runs `sweep` every `everyMs` milliseconds for as long as it returns that something is left. Never keeps a
 * process alive. Where requests are isolated, a timer would end with its request: there, `start` sweeps where
 * it is due.
 */
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

  /** Starts, unless it runs already. */
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
