// A measurement in a process of its own, so that it can be pinned: it prints `RESULT <json>`.
import { fileURLToPath } from 'node:url'
import { pinned } from './cpus.js'
import { run } from './load.js'
import type { Scene } from './scene.js'

const BENCH = fileURLToPath(new URL('..', import.meta.url))

/** Runs a file of this folder with one argument, JSON; TypeScript by way of tsx. */
// biome-ignore lint/suspicious/noExplicitAny: what a worker prints is what its caller reads
export async function runWorker({ pinning }: Scene, file: string, argument: object): Promise<any> {
  const args = file.endsWith('.ts') ? ['--expose-gc', '--import', 'tsx'] : []
  const command = [process.execPath, ...args, BENCH + file, JSON.stringify(argument)]
  const [, json = ''] = /^RESULT (.*)$/m.exec(await run(pinned(pinning?.tested, command), BENCH)) ?? []
  return JSON.parse(json)
}
