// How long the disk below a folder takes to keep what PostgreSQL writes at a commit: a page of its log, flushed as it does by default on Linux.
import { closeSync, fdatasyncSync, openSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { spread } from './rounds.js'

const PAGE_BYTES = 8_192
const PAGES = 512
const FLUSHES = 300

/** The median of some flushes one after another, in milliseconds. */
export function fsyncMs(folder: string): number {
  const path = join(folder, 'flushed')
  const page = Buffer.alloc(PAGE_BYTES, 1)
  const file = openSync(path, 'w')
  try {
    writeSync(file, Buffer.alloc(PAGE_BYTES * PAGES)) // the log's files have their size, too, before they are written
    fdatasyncSync(file)
    const times = Array.from({ length: FLUSHES }, (_, at) => {
      const begun = performance.now()
      writeSync(file, page, 0, PAGE_BYTES, (at % PAGES) * PAGE_BYTES)
      fdatasyncSync(file)
      return performance.now() - begun
    })
    return spread(times).median
  } finally {
    closeSync(file)
    rmSync(path)
  }
}
