import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import type { EaasProcess } from './eaas-process.js'

/** In the environment of a server whose heap `heapOf` reads. */
export const WITH_HEAP = { NODE_OPTIONS: '--heapsnapshot-signal=SIGUSR2' }

/** Has the server collect its garbage and write its heap, and returns that. */
export async function heapOf({ pid, folder }: EaasProcess): Promise<Buffer> {
  const snapshots = () =>
    readdirSync(folder).filter((name) => name.endsWith('.heapsnapshot') && name.includes(`.${pid}.`))
  process.kill(pid, 'SIGUSR2')
  await expect
    .poll(() => snapshots().map((name) => readFileSync(join(folder, name)).subarray(-2).toString()), {
      interval: 100,
      timeout: 30_000,
    })
    .toEqual([']}'])
  const [name = ''] = snapshots()
  const heap = readFileSync(join(folder, name))
  rmSync(join(folder, name))
  return heap
}
