/** Limits how often the log has lines of one kind, whoever causes them. */

/** Writes a line. `leftOut` is how many lines of its kind were left out before it. */
export type Write = (leftOut: number, isFirst: boolean) => void

export interface SamplerOptions {
  first: number // lines of a kind that are written at once in a window
  windowMs: number
  mostKinds: number // kinds that are told apart at a time: each has a timer, and keeps its last line
}

export interface Sampler {
  /**
   * Writes the first lines of a kind at once; of those that follow, only the last one, when the window ends. While
   * there are too many kinds, a new one is sampled as `otherwise`, which must have few values.
   */
  take(kind: string, otherwise: string, write: Write): void
  close(): void
}

interface Kind {
  timer: NodeJS.Timeout
  written: number // lines written in this window
  waiting: number
  last?: Write
}

/** Creates a sampler; one for each sort of lines. */
export function createSampler({ first, windowMs, mostKinds }: SamplerOptions): Sampler {
  const kinds = new Map<string, Kind>()

  function flush(name: string, kind: Kind): void {
    clearTimeout(kind.timer)
    kinds.delete(name)
    kind.last?.(kind.waiting - 1, false)
  }

  function open(name: string): void {
    const timer = setTimeout(() => {
      flush(name, kind)
      if (kind.waiting > 0) open(name) // its last line, just written, is the first of the next window
    }, windowMs)
    timer.unref()
    const kind: Kind = { timer, written: 1, waiting: 0 }
    kinds.set(name, kind)
  }

  return {
    take(own, otherwise, write) {
      const name = kinds.has(own) || kinds.size < mostKinds ? own : otherwise
      const kind = kinds.get(name)
      if (!kind) {
        open(name)
        write(0, true)
      } else if (kind.written < first) {
        kind.written += 1
        write(0, false)
      } else {
        kind.waiting += 1
        kind.last = write
      }
    },
    close() {
      for (const [name, kind] of kinds) flush(name, kind)
    },
  }
}
