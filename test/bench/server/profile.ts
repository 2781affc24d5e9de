// Where the time of calls goes, one by one and in batches: V8's sampling profiler in the server, under load, by function.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Target } from '../lib/load.js'
import { type Running, startServer } from '../lib/process.js'
import { type Findings, short, type Table } from '../lib/report.js'
import {
  batchTarget,
  type Cost,
  callTargets,
  type MeasuredCall,
  makeTenant,
  measure,
  type Scene,
  type Tenant,
} from '../lib/scene.js'

const SHOWN = 40

interface Profile {
  nodes: { id: number; callFrame: { functionName: string; url: string; lineNumber: number } }[]
  samples: number[]
  timeDeltas: number[]
}

const CALLS: readonly MeasuredCall[] = ['unwrap', 'wrap', 'encrypt 256 B', 'decrypt 256 B']

/** Profiles the server while it answers single calls, and while it answers batches of 100. */
export async function profileCalls(scene: Scene): Promise<Findings> {
  const tables: Table[] = []
  for (const name of CALLS) {
    tables.push(...(await profile(scene, name, async (...of) => (await callTargets(...of))[name])))
  }
  tables.push(...(await profile(scene, 'batch of 100 unwraps', (...of) => batchTarget(...of, 100))))
  return { bars: [], tables, plots: [] }
}

async function profile(
  scene: Scene,
  call: string,
  targetOf: (server: Running, tenant: Tenant) => Target | Promise<Target>,
): Promise<Table[]> {
  const folder = mkdtempSync(join(tmpdir(), 'eaas-bench-profile-'))
  try {
    const database = await scene.database()
    const server = await startServer(scene.place, database, {
      environment: { EAAS_LOG_LEVEL: 'silent' },
      nodeArgs: ['--cpu-prof', '--cpu-prof-interval', '250', '--cpu-prof-dir', folder],
    })
    const target = await targetOf(server, await makeTenant(database, server))
    const cost = await measure(scene, server, target, { seconds: scene.options.quick ? 3 : 15 })
    await server.stop()
    const [file = ''] = readdirSync(folder)
    const selves = readProfile(join(folder, file))
    return [bySource(selves, call, cost), byFunction(selves, call, cost)]
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** A function's own time. */
interface Self {
  name: string
  /** the file that it was written in, or the module of Node, or what V8 says that it did */
  source: string
  us: number
}

function readProfile(path: string): Self[] {
  const { nodes, samples, timeDeltas }: Profile = JSON.parse(readFileSync(path, 'utf8'))
  const functions = new Map(
    nodes.map(({ id, callFrame: { functionName, url, lineNumber } }): [number, Self] => {
      const source = url === '' ? functionName : sourceOf(url, lineNumber)
      return [id, { name: functionName || `(anonymous, line ${lineNumber + 1})`, source, us: 0 }]
    }),
  )
  samples.forEach((id, at) => {
    const found = functions.get(id)
    if (found) found.us += timeDeltas[at + 1] ?? 0
  })
  return [...functions.values()].filter(({ name, us }) => name !== '(idle)' && us > 0)
}

const bundles = new Map<string, string[]>()

/** The build keeps a comment with the source's path above what came from it. */
function sourceOf(url: string, line: number): string {
  if (url.startsWith('node:')) return url.split('/').slice(0, 2).join('/')
  const [, dependency] = /^.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url) ?? []
  if (dependency !== undefined) return dependency
  if (!url.startsWith('file:')) return url
  const lines = bundles.get(url) ?? readFileSync(new URL(url), 'utf8').split('\n')
  bundles.set(url, lines)
  for (let at = line; at >= 0; at--) {
    const [, source] = /^\/\/ (\S+\.[jt]s)$/.exec(lines[at] ?? '') ?? []
    if (source !== undefined) return source.replace(/^.*node_modules\/(?=postgres)/, '').replace(/^\.\.\//, '')
  }
  return url
}

function bySource(profile: readonly Self[], call: string, { requests, cpuUs }: Cost): Table {
  return sharesOf(profile, ({ source }) => source, {
    title: `Where the time goes, ${call}: ${short(cpuUs)} µs of CPU with the profiler on, ${requests} requests`,
    cpuUs,
  })
}

function byFunction(profile: readonly Self[], call: string, { cpuUs }: Cost): Table {
  return sharesOf(profile, ({ name, source }) => (name === source ? name : `${name}, ${source}`), {
    title: `The same by function: ${call}`,
    cpuUs,
  })
}

function sharesOf(
  profile: readonly Self[],
  nameOf: (self: Self) => string,
  { title, cpuUs }: { title: string; cpuUs: number },
): Table {
  const sums = new Map<string, number>()
  for (const self of profile) sums.set(nameOf(self), (sums.get(nameOf(self)) ?? 0) + self.us)
  const total = [...sums.values()].reduce((sum, us) => sum + us, 0)
  return {
    title,
    columns: ['own time', 'share', 'CPU µs a request'],
    rows: [...sums]
      .sort(([, a], [, b]) => b - a)
      .slice(0, SHOWN)
      .map(([name, us]) => [name, `${((100 * us) / total).toFixed(1)} %`, short((us / total) * cpuUs)]),
  }
}
