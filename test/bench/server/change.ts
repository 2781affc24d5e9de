// A tenant whose keys and API keys change without pause: what its wraps take, against the same tenant left alone; and creates beside
// a steady load. Not pinned.
import { randomBytes } from 'node:crypto'
import { type Database, type Running, startServer } from '../lib/process.js'
import { type BarRow, type Findings, short } from '../lib/report.js'
import { interleave, ratios, spread } from '../lib/rounds.js'
import { makeTenant, measure, recorder, type Scene, type Tenant } from '../lib/scene.js'

/** Enough to keep the log busy, so few that a quiet tenant's calls do not queue. */
const CONNECTIONS = 8
const CREATORS = 8

export async function measureChange(scene: Scene): Promise<Findings> {
  const shared = await scene.database()
  const cases = [
    await measureCase(scene, { name: 'PostgreSQL', database: await scene.database(), servers: 1 }),
    await measureCase(scene, { name: 'PostgreSQL, two servers', database: shared, servers: 2 }),
    await measureCase(scene, { name: 'embedded', database: scene.dataDir(), servers: 1 }),
  ]
  return {
    bars: cases.flatMap(({ bars }) => bars),
    tables: [
      {
        title: `Wraps of a tenant whose keys change, ${CONNECTIONS} connections`,
        columns: ['', 'wraps a second', 'p50 ms', 'p99 ms', 'failed', 'changes a second'],
        rows: cases.flatMap(({ rows }) => rows),
      },
    ],
    plots: [],
  }
}

async function measureCase(
  scene: Scene,
  { name, database, servers: count }: { name: string; database: Database; servers: number },
): Promise<{ bars: BarRow[]; rows: string[][] }> {
  const place = { guard: scene.guard, cpus: undefined }
  const servers: Running[] = []
  for (let at = 0; at < count; at++) {
    servers.push(await startServer(place, database, { environment: { EAAS_LOG_LEVEL: 'silent' } }))
  }
  const [first] = servers
  const last = servers.at(-1)
  if (!first || !last) throw new Error('no server')
  try {
    const tenant = await makeTenant(database, first)
    const target = wrapTarget(last, tenant)
    const { costs, record, figures, failures, cells } = recorder()
    const changed: Record<string, number[]> = { two: [], creators: [] }
    let refused = 0
    const during = async (kind: 'two' | 'creators', changers: ((index: number) => Promise<unknown>)[]) => {
      const change = withoutPause(changers)
      const perSecond = await record(`${name}: ${kind}`, measure(scene, last, target, { connections: CONNECTIONS }))
      const { changes, failed } = await change.stop()
      changed[kind]?.push(changes / scene.options.seconds)
      refused += failed
      return perSecond
    }
    const one = clientOf(first, tenant)
    await interleave(
      {
        quiet: () => record(`${name}: quiet`, measure(scene, last, target, { connections: CONNECTIONS })),
        two: () => during('two', [one.changeKeys, one.changeApiKeys]),
        creators: () =>
          during(
            'creators',
            Array.from({ length: CREATORS }, () => one.createKey),
          ),
      },
      scene.options,
    )
    const failed = failures()
    const p99 = (kind: string) => figures(`${name}: ${kind}`, 'p99')
    const sum = (count: number) => ({ median: count, min: count, max: count })
    return {
      bars: [
        {
          what: `${name}, a client each changes keys and API keys: p99 of a wrap`,
          against: 'a quiet tenant',
          measured: spread(ratios(p99('two'), p99('quiet'))),
          atMost: 5,
        },
        {
          what: `${name}, changes and 8 creators: wraps that failed`,
          against: '',
          measured: sum(failed),
          atMost: 0,
        },
        { what: `${name}: changes that were refused`, against: '', measured: sum(refused), atMost: 0 },
      ],
      rows: [...costs.keys()].map((kind) => [
        kind,
        ...cells(kind, ['perSecond', 'p50', 'p99', 'failed']),
        short(spread(changed[kind.split(': ')[1] ?? ''] ?? []).median),
      ]),
    }
  } finally {
    await Promise.all(servers.map((server) => server.stop()))
  }
}

function wrapTarget({ url }: Running, { keyId, secret }: Tenant) {
  const bodies = Array.from({ length: 64 }, () => JSON.stringify({ dek: randomBytes(32).toString('base64') }))
  return { url, path: `/v1/keys/${keyId}/wrap`, bodies, secret }
}

/** Calls that change the tenant. @throws unless they are answered with success */
function clientOf({ url }: Running, { secret, post }: Tenant) {
  const unique = () => randomBytes(8).toString('hex')
  const revoke = async (id: string) => {
    const headers = { authorization: `Bearer ${secret}` }
    const answer = await fetch(`${url}/v1/api-keys/${id}`, { method: 'DELETE', headers })
    if (!answer.ok) throw new Error(await answer.text())
  }
  let made = 0
  let latest = ''
  return {
    createKey: () => post('/v1/keys', { name: unique() }),
    async changeKeys() {
      if (made++ % 2 === 0) latest = (await post('/v1/keys', { name: unique() })).id
      else await post(`/v1/keys/${latest}/rotate`, {})
    },
    async changeApiKeys() {
      const { id } = await post('/v1/api-keys', { name: unique(), permissions: ['encrypt'] })
      await revoke(id)
    },
  }
}

function withoutPause(changers: ((index: number) => Promise<unknown>)[]) {
  let isOver = false
  let changes = 0
  let failed = 0
  const loops = changers.map(async (change, index) => {
    while (!isOver) {
      await change(index).then(
        () => {
          changes += 1
        },
        () => {
          failed += 1
        },
      )
    }
  })
  return {
    async stop() {
      isOver = true
      await Promise.all(loops)
      return { changes, failed }
    },
  }
}
