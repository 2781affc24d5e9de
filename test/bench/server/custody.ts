// 100,000 key versions: how long a rotation of the store key takes, what calls take beside it, and what a start takes. Not pinned.
import { randomBytes } from 'node:crypto'
import postgres from 'postgres'
import { importKey } from '../../../packages/server/src/crypto/aead.js'
import { sealNewSecret } from '../../../packages/server/src/crypto/key-hierarchy.js'
import { localProvider } from '../../../packages/server/src/root-key/provider.js'
import { openStoreKeys } from '../../../packages/server/src/runner/store-keys.js'
import { type Database, eaas, ROOT_KEY, startServer } from '../lib/process.js'
import { type Findings, short, withSpread } from '../lib/report.js'
import { interleave, ratios, spread } from '../lib/rounds.js'
import { makeTenant, measure, recorder, type Scene, unwrapTarget } from '../lib/scene.js'

const VERSIONS = 100_000
const VERSIONS_A_KEY = 100
/** Callers that each wait for an answer before they call again: the CPUs are not used up. */
const CONNECTIONS = 2

export async function measureCustody(scene: Scene): Promise<Findings> {
  const place = { guard: scene.guard, cpus: undefined }
  const [full, few] = [await scene.database(), await scene.database()]
  const start = (database: Database) => startServer(place, database, { environment: { EAAS_LOG_LEVEL: 'silent' } })
  const readyMs = async (database: Database) => {
    const server = await start(database)
    await server.stop()
    return server.readyMs
  }
  const server = await start(full)
  const tenant = await makeTenant(full, server)
  await readyMs(few)
  await addVersions(full, VERSIONS)
  const starts = await interleave({ full: () => readyMs(full), few: () => readyMs(few) }, scene.options)

  const { record, figures } = recorder()
  const call = () => measure(scene, server, unwrapTarget(server, tenant), { connections: CONNECTIONS })
  const rotations: number[] = []
  try {
    await interleave(
      {
        quiet: () => record('quiet', call()),
        beside: async () => {
          const startedAt = performance.now()
          let isDone = false
          const rotation = eaas(full, ['store-key', 'rotate']).then(({ resealed }) => {
            if (resealed < VERSIONS) throw new Error(`${resealed} rows were sealed again`)
            rotations.push((performance.now() - startedAt) / 1_000)
            isDone = true
          })
          let perSecond = 0
          while (!isDone) perSecond = await record('beside', call())
          await rotation
          return perSecond
        },
      },
      scene.options,
    )
  } finally {
    await server.stop()
  }
  const p99 = { quiet: figures('quiet', 'p99'), beside: figures('beside', 'p99') }
  const quiet = spread(p99.quiet).median
  return {
    bars: [
      {
        what: `store key rotated, ${VERSIONS} key versions: seconds, with the 10 that servers have to learn it`,
        against: '',
        measured: spread(rotations),
        atMost: 70,
      },
      {
        what: `p99 of an unwrap beside it, ${CONNECTIONS} connections`,
        against: 'without it',
        measured: spread(p99.beside.map((ms) => ms / quiet)),
        atMost: 2,
      },
      {
        what: `start with ${VERSIONS} key versions`,
        against: 'start with one',
        measured: spread(ratios(starts.full, starts.few)),
        atMost: 1.1,
      },
    ],
    tables: [
      {
        title: `${VERSIONS} key versions`,
        columns: ['', 'quiet', 'beside a rotation'],
        rows: [
          ['unwraps a second', ...['quiet', 'beside'].map((kind) => withSpread(spread(figures(kind, 'perSecond'))))],
          ['p99 ms', withSpread(spread(p99.quiet)), withSpread(spread(p99.beside))],
          ['start, ms', short(spread(starts.few).median), short(spread(starts.full).median)],
        ],
      },
    ],
    plots: [],
  }
}

/** Key versions of keys and of a tenant that nobody asks for. Their MACs are none: a rotation looks at seals alone. */
async function addVersions({ url = '' }: Database, count: number): Promise<void> {
  const sql = postgres(url, { max: 1, onnotice: () => undefined })
  const rootKey = importKey(new Uint8Array(Buffer.from(ROOT_KEY, 'base64')))
  const storeKeys = await openStoreKeys(sql as never, localProvider(rootKey, { kind: 'variable', name: '' }))
  const tenant_id = crypto.randomUUID()
  for (let at = 0; at < count; at += VERSIONS_A_KEY) {
    const key_id = crypto.randomUUID()
    const rows = Array.from({ length: VERSIONS_A_KEY }, (_, index) => ({
      tenant_id,
      key_id,
      version: index + 1,
      status: 'retired',
      wrapped_kek: sealNewSecret(storeKeys, { purpose: 'kek', tenant_id, id: key_id, version: index + 1 }),
      created_at: '2026-01-01T00:00:00.000Z',
      entry_id: 1,
      mac: randomBytes(32),
    }))
    await sql`insert into key_versions ${sql(rows)}`
  }
  await sql`analyze key_versions`
  await sql.end()
}
