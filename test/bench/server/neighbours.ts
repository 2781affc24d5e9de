// Two tenants on one server: what the wraps of one take while the other sends the worst bodies that it may. Not pinned.
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { run } from '../lib/load.js'
import { type Running, startServer } from '../lib/process.js'
import { type Findings, withSpread } from '../lib/report.js'
import { interleave, spread } from '../lib/rounds.js'
import { makeTenant, type Scene, type Tenant } from '../lib/scene.js'

const CALLER = fileURLToPath(new URL('caller.mjs', import.meta.url))
const EVERY_MS = 5
const CLIENTS = 2
const BODY_BYTES = 8 * 1_048_576
const QUIET = 'nothing'

export interface Call {
  method: string
  path: string
  /** with the body */
  file?: string
}

export interface Timed {
  calls: number
  failed: number
  p50: number
  p99: number
  most: number
}

export async function measureNeighbours(scene: Scene): Promise<Findings> {
  const database = await scene.database()
  const place = { ...scene.place, cpus: undefined }
  const server = await startServer(place, database, { environment: { EAAS_LOG_LEVEL: 'silent' } })
  const { seconds } = scene.options
  try {
    const tenant = await makeTenant(database, server)
    const pressing = await makeTenant(database, server)
    const wrap = [callOf(scene, 'wrap', `/v1/keys/${tenant.keyId}/wrap`, { dek: dek() })]
    const worst = { [QUIET]: [], ...worstCalls(scene, pressing) }
    const found = new Map<string, { timed: Timed; pressed: Timed | undefined }[]>()
    const measure = (kind: string, calls: readonly Call[]) => async () => {
      const presses =
        calls.length > 0 ? call(server, { secret: pressing.secret, calls, clients: CLIENTS, seconds }) : undefined
      const timed = await call(server, { secret: tenant.secret, calls: wrap, clients: 1, seconds, everyMs: EVERY_MS })
      found.set(kind, [...(found.get(kind) ?? []), { timed, pressed: await presses }])
      return timed.p99
    }
    const kinds = Object.keys(worst)
    await interleave(
      Object.fromEntries(Object.entries(worst).map(([kind, calls]) => [kind, measure(kind, calls)])),
      scene.options,
    )
    const counted = (kind: string) => (found.get(kind) ?? []).slice(1)
    const of = (kind: string, figure: keyof Timed) => spread(counted(kind).map(({ timed }) => timed[figure]))
    const sum = (values: (number | undefined)[]) => String(values.reduce<number>((all, value = 0) => all + value, 0))
    return {
      bars: kinds.slice(1).flatMap((kind) =>
        (
          [
            ['p50', 10],
            ['p99', 50],
          ] as const
        ).map(([figure, atMost]) => ({
          what: `${figure} of a wrap beside ${kind} by another tenant`,
          against: '',
          measured: of(kind, figure),
          unit: 'ms',
          atMost,
        })),
      ),
      tables: [
        {
          title: `A tenant's wraps, one each ${EVERY_MS} ms, while another tenant calls without pause, ${CLIENTS} calls at once`,
          columns: ['the other sends', 'p50 ms', 'p99 ms', 'slowest ms', 'failed', 'calls of the other', 'failed'],
          rows: kinds.map((kind) => [
            kind,
            ...(['p50', 'p99', 'most'] as const).map((figure) => withSpread(of(kind, figure))),
            sum(counted(kind).map(({ timed }) => timed.failed)),
            sum(counted(kind).map(({ pressed }) => pressed?.calls)),
            sum(counted(kind).map(({ pressed }) => pressed?.failed)),
          ]),
        },
      ],
      plots: [],
    }
  } finally {
    await server.stop()
  }
}

/** The bodies that cost the most of each kind, all of them answered with success. */
function worstCalls(scene: Scene, { keyId, tokens }: Tenant): Record<string, Call[]> {
  const batch = (name: string, count: number, item: (at: number) => object) =>
    callOf(scene, name, '/v1/batch', {
      operations: Array.from({ length: count }, (_, at) => ({ ...item(at), key_id: keyId })),
    })
  const encrypts = (count: number) => {
    const bytes = Math.min(65_536, Math.floor(BODY_BYTES / count) - 120)
    const plaintext = 'x'.repeat(bytes)
    return batch(`encrypt-${count}`, count, () => ({ op: 'encrypt', plaintext }))
  }
  return {
    'bodies of 8 MiB': [encrypts(1_000), encrypts(127)],
    'batches of 1,000': [
      batch('wraps', 1_000, () => ({ op: 'wrap', dek: dek() })),
      batch('unwraps', 1_000, (at) => ({ op: 'unwrap', wrapped_key: tokens[at % tokens.length] })),
    ],
  }
}

function callOf({ guard }: Scene, name: string, path: string, body: object): Call {
  const file = `${guard.path}/${name}-${randomBytes(4).toString('hex')}.json`
  writeFileSync(file, JSON.stringify(body))
  return { method: 'POST', path, file }
}

function dek(): string {
  return randomBytes(32).toString('base64')
}

/** Calls as `caller.mjs` is told to, from a process of its own. */
export async function call({ url }: Running, options: object): Promise<Timed> {
  const output = await run([process.execPath, CALLER, JSON.stringify({ url, ...options })])
  const [, json = ''] = /^RESULT (.*)$/m.exec(output) ?? []
  return JSON.parse(json)
}
