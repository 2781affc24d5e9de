/** Wipes DEKs that nobody asks for any more, at their time; without it they would stay in memory until the next call. */

/** Runs `sweep` every `everyMs` for as long as it answers that something is left. Never keeps a process alive. */
export class Sweeper {
  readonly #sweep: () => boolean
  readonly #everyMs: number
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(sweep: () => boolean, everyMs: number) {
    this.#sweep = sweep
    this.#everyMs = everyMs
  }

  /** Starts, unless it runs already. */
  start(): void {
    if (this.#timer !== undefined) return
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
}
