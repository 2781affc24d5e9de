/** Limits how often the log has lines of one kind, whoever causes them. */

/** Writes a line. `leftOut` is how many lines of its kind were left out before it. */
export type Write = (leftOut: number, isFirst: boolean) => void

/** How many lines of a kind are written at once in a window, and how many kinds are told apart at a time. */
type SamplerOptions = Record<'first' | 'windowMs' | 'mostKinds', number>

export type Sampler = ReturnType<typeof createSampler>

interface Kind {
  timer: NodeJS.Timeout
  written: number // lines written in this window
  waiting: number
  last?: Write
}

/** Creates a sampler; one for each sort of lines. */
export function createSampler({ first, windowMs, mostKinds }: SamplerOptions) {
  const kinds = new Map<string, Kind>()

  function flush(name: string, kind: Kind): void {
    clearTimeout(kind.timer)
    kinds.delete(name)
    kind.last?.(kind.waiting - 1, false)
  }

  function open(name: string): void {
    const end = () => {
      flush(name, kind)
      if (kind.waiting > 0) open(name) // its last line, just written, is the first of the next window
    }
    const kind: Kind = { timer: setTimeout(end, windowMs).unref(), written: 1, waiting: 0 }
    kinds.set(name, kind)
  }

  return {
    /**
     * Writes the first lines of a kind at once; of those that follow, only the last one, when the window ends. While
     * there are too many kinds, a new one is sampled as `otherwise`, which must have few values.
     */
    take(own: string, otherwise: string, write: Write): void {
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
    close(): void {
      for (const [name, kind] of kinds) flush(name, kind)
    },
  }
}
