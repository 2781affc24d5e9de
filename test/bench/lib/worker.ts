// A measurement in a process of its own, so that it can be pinned: it prints `RESULT <json>`.
import { fileURLToPath } from 'node:url'
import { pinned } from './cpus.js'
import { run } from './load.js'
import type { Scene } from './scene.js'

const BENCH = fileURLToPath(new URL('..', import.meta.url))

interface WorkerArgument {
  rounds?: number
  [name: string]: unknown
}

/** Of one process: another one gets other addresses and other decisions of V8. */
const ROUNDS = 3

/** Runs a file of this folder with one argument, JSON; TypeScript by way of tsx. Many rounds are several processes. */
// biome-ignore lint/suspicious/noExplicitAny: what a worker prints is what its caller reads
export async function runWorker(scene: Scene, file: string, argument: WorkerArgument): Promise<any> {
  const { rounds = 1 } = argument
  const result = await runOnce(scene, file, { ...argument, rounds: Math.min(rounds, ROUNDS) })
  if (rounds <= ROUNDS) return result
  return joined(result, await runWorker(scene, file, { ...argument, rounds: rounds - ROUNDS }))
}

async function runOnce({ place, pinning, options }: Scene, file: string, argument: object): Promise<unknown> {
  await options.turn()
  const args = file.endsWith('.ts') ? ['--expose-gc', '--import', 'tsx'] : []
  const command = [place.node, ...args, BENCH + file, JSON.stringify(argument)]
  const [, json = ''] = /^RESULT (.*)$/m.exec(await run(pinned(pinning?.tested, command), BENCH)) ?? []
  return JSON.parse(json)
}

/** Lists one after the other; of other values the later. */
function joined(one: unknown, other: unknown): unknown {
  if (Array.isArray(one) && Array.isArray(other)) return [...one, ...other]
  if (typeof one !== 'object' || typeof other !== 'object') return other
  return Object.fromEntries(
    Object.entries(other ?? {}).map(([key, value]) => [key, joined(one?.[key as keyof typeof one], value)]),
  )
}
