// A tenant whose keys and API keys change without pause: what its wraps take, against the same tenant left alone. Not pinned.
import { randomBytes } from 'node:crypto'
import { type Running, startServer } from '../lib/process.js'
import { type Findings, short } from '../lib/report.js'
import { interleave, ratios, spread } from '../lib/rounds.js'
import { makeTenant, measure, recorder, type Scene, type Tenant } from '../lib/scene.js'

/** Enough to keep the log busy, so few that a quiet tenant's calls do not queue. */
const CONNECTIONS = 8

export async function measureChange(scene: Scene): Promise<Findings> {
  const database = await scene.database()
  const place = { ...scene.place, cpus: undefined }
  const server = await startServer(place, database, { environment: { EAAS_LOG_LEVEL: 'silent' } })
  try {
    const tenant = await makeTenant(database, server)
    const target = wrapTarget(server, tenant)
    const { record, figures, failures, cells } = recorder()
    const changed: Record<string, number[]> = { changing: [] }
    let refused = 0
    const wraps = (name: string) => record(name, measure(scene, server, target, { connections: CONNECTIONS }))
    const { changeKeys, changeApiKeys } = clientOf(server, tenant)
    await interleave(
      {
        quiet: () => wraps('quiet'),
        async changing() {
          const change = withoutPause([changeKeys, changeApiKeys])
          const perSecond = await wraps('changing')
          const { changes, failed } = await change.stop()
          changed.changing?.push(changes / scene.options.seconds)
          refused += failed
          return perSecond
        },
      },
      scene.options,
    )
    const sum = (count: number) => ({ median: count, min: count, max: count })
    return {
      bars: [
        {
          what: 'a client each changes keys and API keys: p99 of a wrap',
          against: 'a quiet tenant',
          measured: spread(ratios(figures('changing', 'p99'), figures('quiet', 'p99'))),
          atMost: 5,
        },
        { what: 'wraps that failed meanwhile', against: '', measured: sum(failures()), atMost: 0 },
        { what: 'changes that were refused', against: '', measured: sum(refused), atMost: 0 },
      ],
      tables: [
        {
          title: `Wraps of a tenant whose keys change, ${CONNECTIONS} connections`,
          columns: ['', 'wraps a second', 'p50 ms', 'p99 ms', 'failed', 'changes a second'],
          rows: ['quiet', 'changing'].map((name) => [
            name,
            ...cells(name, ['perSecond', 'p50', 'p99', 'failed']),
            short(spread(changed[name] ?? []).median),
          ]),
        },
      ],
      plots: [],
    }
  } finally {
    await server.stop()
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

function withoutPause(changers: (() => Promise<unknown>)[]) {
  let isOver = false
  let changes = 0
  let failed = 0
  const loops = changers.map(async (change) => {
    while (!isOver) {
      await change().then(
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
