/** Limits how often the log gets lines of one kind, whoever causes them. */

/** Writes a line. `leftOut` is the number of lines of its kind that were left out before it. */
export type Write = (leftOut: number, isFirst: boolean) => void

/** How many lines of a kind are written at once in a window, and how many kinds are distinguished at a time. */
type SamplerOptions = Record<'first' | 'windowMs' | 'mostKinds', number>

export type Sampler = ReturnType<typeof createSampler>

interface Kind {
  timer: NodeJS.Timeout
  written: number // lines written in this window
  waiting: number
  last?: Write
}

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
     * Writes the first lines of a kind at once. Of the following ones, it writes only the last, at the end of the
     * window. While there are too many kinds, a new one is sampled as `otherwise`, which must have few values.
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
