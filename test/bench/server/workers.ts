// The same load on a server that is one process and on one with two workers. Neither is pinned: on a machine with two cores, workers,
// database and load compete for both, so the rate says what such a machine gains, and the CPU time of all processes what workers cost.
import { readdirSync, readFileSync } from 'node:fs'
import { cpuMs, type Running, residentBytes, startServer } from '../lib/process.js'
import { type Findings, short, withSpread } from '../lib/report.js'
import { interleave, ratios, spread } from '../lib/rounds.js'
import { makeTenant, type Scene } from '../lib/scene.js'

const TENANTS = 16
const MIB = 2 ** 20

interface Figures {
  perSecond: number
  p99: number
  cpuUs: number
  failed: number
}

export async function measureWorkers(scene: Scene): Promise<Findings> {
  const place = { guard: scene.guard, cpus: undefined }
  const kinds = ['one process', 'two workers'] as const
  const loads = ['a tenant for each connection', 'all tenants on each connection'] as const
  const servers = new Map<string, Running>()
  const found = new Map<string, Figures[]>()
  try {
    const measures: Record<string, () => Promise<number>> = {}
    for (const [kind, load] of kinds.flatMap((kind) => loads.map((load) => [kind, load] as const))) {
      // A server of its own for each: workers that met in a tenant's log avoid each other there for some seconds.
      const name = `${kind}, ${load}`
      const database = await scene.database()
      const environment = { EAAS_LOG_LEVEL: 'silent', ...(kind === 'two workers' ? { EAAS_WORKERS: '2' } : {}) }
      const server = await startServer(place, database, { environment })
      servers.set(name, server)
      const requests: { path: string; secret: string; body: string }[] = []
      for (let at = 0; at < TENANTS; at++) {
        const { keyId, secret, tokens } = await makeTenant(database, server)
        const body = JSON.stringify({ wrapped_key: tokens[0] })
        requests.push({ path: `/v1/keys/${keyId}/unwrap`, secret, body })
      }
      measures[name] = async () => {
        const before = cpuOfAll(server.pid)
        const onePerConnection = load === loads[0]
        const target = { url: server.url, path: '', bodies: [], requests, onePerConnection }
        const { perSecond, p99, failed, requests: made } = await scene.load(target, { cpus: undefined })
        const cpuUs = ((cpuOfAll(server.pid) - before) * 1_000) / made
        found.set(name, [...(found.get(name) ?? []), { perSecond, p99, cpuUs, failed }])
        return perSecond
      }
    }
    const measured = await interleave(measures, scene.options)
    return {
      bars: loads.map((load) => ({
        what: `unwraps a second with two workers, ${TENANTS} tenants, 64 connections, ${load}`,
        against: 'one process',
        measured: spread(ratios(measured[`two workers, ${load}`] ?? [], measured[`one process, ${load}`] ?? [])),
      })),
      tables: [
        {
          title: 'A server with two workers beside the load and the database on the same cores',
          columns: [
            '',
            'unwraps a second',
            'p99 ms',
            'CPU µs a request, all processes',
            'failed',
            'RSS MiB, each process',
          ],
          rows: kinds.flatMap((kind) => {
            return loads.map((load) => {
              const { pid = 0 } = servers.get(`${kind}, ${load}`) ?? {}
              const memory = processesOf(pid).map((each) => short(residentBytes(each) / MIB))
              const of = (figure: keyof Figures) =>
                (found.get(`${kind}, ${load}`) ?? []).slice(1).map((run) => run[figure])
              return [
                `${kind}, ${load}`,
                withSpread(spread(of('perSecond'))),
                withSpread(spread(of('p99'))),
                withSpread(spread(of('cpuUs'))),
                String(of('failed').reduce((sum, value) => sum + value, 0)),
                memory.join(', '),
              ]
            })
          }),
        },
      ],
      plots: [],
    }
  } finally {
    for (const server of servers.values()) await server.stop()
  }
}

/** A process and its children. */
function processesOf(pid: number): number[] {
  const children = readdirSync(`/proc/${pid}/task`).flatMap((id) =>
    readFileSync(`/proc/${pid}/task/${id}/children`, 'utf8').split(' ').filter(Boolean).map(Number),
  )
  return [pid, ...children]
}

function cpuOfAll(pid: number): number {
  return processesOf(pid).reduce((sum, each) => sum + cpuMs(each), 0)
}
