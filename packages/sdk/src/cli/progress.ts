/** A progress bar on standard error, on a terminal only. */
import { type Io, printable } from './io.js'

const WIDTH = 24
const EVERY_MS = 100

export interface Progress {
  /** Adds to what is done. */
  add(amount: number): void
  /** Removes the bar. */
  done(): void
}

/** Shows how far the work is: in bytes, or whatever `show` makes of the amount. Without a total, shows the amount alone. */
export function showProgress(
  io: Io,
  what: string,
  { total, show = megabytes }: { total?: number | undefined; show?: (amount: number) => string } = {},
): Progress {
  if (!io.stderr.isTTY) return { add: () => undefined, done: () => undefined }
  let amount = 0
  let shownAt = 0
  return {
    add(more) {
      amount += more
      if (performance.now() - shownAt < EVERY_MS) return
      shownAt = performance.now()
      io.stderr.write(`\r\u001b[K${printable(`${what} ${total ? `${barOf(amount / total)} ` : ''}${show(amount)}`)}`)
    },
    done: () => void io.stderr.write('\r\u001b[K'),
  }
}

function barOf(share: number): string {
  const done = Math.min(1, share)
  const full = Math.round(done * WIDTH)
  return `[${'#'.repeat(full)}${'.'.repeat(WIDTH - full)}] ${Math.floor(done * 100)} %`
}

function megabytes(bytes: number): string {
  return `${(bytes / 1_000_000).toFixed(1)} MB`
}
