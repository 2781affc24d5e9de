/** A progress bar on standard error, on a terminal only. */
import { visibleLine } from '@eaas/protocol'
import type { Io } from './io.js'

const WIDTH = 24
const EVERY_MS = 100

export interface Progress {
  /** Adds to what is done. */
  add(amount: number): void
  /** Removes the bar. */
  done(): void
}

export interface Bar {
  show(done: number, total: number | undefined, text: string): void
  /** Removes the bar. */
  done(): void
}

/** Shows a text, and a bar if the total is known. */
export function showBar(io: Io, what: string): Bar {
  if (!io.stderr.isTTY) return { show: () => undefined, done: () => undefined }
  let shownAt = 0
  return {
    show(done, total, text) {
      if (performance.now() - shownAt < EVERY_MS) return
      shownAt = performance.now()
      io.stderr.write(`\r\u001b[K${visibleLine(`${what} ${total ? `${barOf(done / total)} ` : ''}${text}`)}`)
    },
    done: () => void io.stderr.write('\r\u001b[K'),
  }
}

/**
 * Shows how far the work is: in bytes, or whatever `show` makes of the amount. Without a total, shows only the
 * amount.
 */
export function showProgress(
  io: Io,
  what: string,
  { total, show = megabytes }: { total?: number | undefined; show?: (amount: number) => string } = {},
): Progress {
  const bar = showBar(io, what)
  let amount = 0
  return {
    add(more) {
      amount += more
      bar.show(amount, total, show(amount))
    },
    done: () => bar.done(),
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
