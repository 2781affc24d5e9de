// What an entry of the audit log takes in the database, table and indexes, and what it costs to append: a mixed load by
// batches of several lengths, of tenants with several keys of which one is busy.
import { randomBytes } from 'node:crypto'
import { openStore } from '../../../packages/server/src/core/store/open-store.js'
import { randomFrom } from '../../support/audit/long-log.js'
import { postgresCpuMs } from '../lib/cpus.js'
import { cpuMs, type Database, type Running, startServer } from '../lib/process.js'
import { type Findings, short, type Table } from '../lib/report.js'
import { makeTenant, type Scene, type Tenant } from '../lib/scene.js'

const TENANTS = 10
const KEYS = 20
/** Of the wraps and encryptions of a tenant, how many are under its first key besides its share; all unwraps are. */
const BUSY = 0.5
const LONGEST_BATCH = 30
const CALLERS = 32

interface Relation {
  name: string
  bytes: number
}

export async function measureStorage(scene: Scene): Promise<Findings> {
  const entries = scene.options.quick ? 20_000 : 300_000
  const database = await scene.database()
  const server = await startServer(scene.place, database, { environment: { EAAS_LOG_LEVEL: 'silent' } })
  const before = cpuMs(server.pid) + postgresCpuMs(scene.postgres)
  await append(database, server, entries)
  const cpuUs = ((cpuMs(server.pid) + postgresCpuMs(scene.postgres) - before) * 1_000) / entries
  await server.stop()
  const { count, relations } = await findSizes(database)
  const total = relations.reduce((sum, { bytes }) => sum + bytes, 0) / count
  const measured = { median: total, min: total, max: total }
  const table: Table = {
    title: `Storage of ${entries.toLocaleString('en-US')} entries: ${TENANTS} tenants with ${KEYS} keys, PostgreSQL`,
    columns: ['relation', 'bytes an entry', 'CPU µs an entry, server and database'],
    rows: [
      ...relations.map(({ name, bytes }) => [name, short(bytes / count), '']),
      ['total', short(total), short(cpuUs)],
    ],
  }
  const bars = [{ what: 'an entry of the log on PostgreSQL', against: '', measured, unit: 'bytes', atMost: 350 }]
  return { bars, tables: [table], plots: [] }
}

async function append(database: Database, server: Running, entries: number): Promise<void> {
  const random = randomFrom(1)
  const tenants: (Pick<Tenant, 'post' | 'tokens'> & { keys: string[] })[] = []
  for (let at = 0; at < TENANTS; at++) {
    const { post, keyId, tokens } = await makeTenant(database, server)
    const keys = [keyId]
    while (keys.length < KEYS) keys.push((await post('/v1/keys', { name: `key ${keys.length}` })).id)
    tenants.push({ post, keys, tokens })
  }
  let left = entries
  const call = async () => {
    while (left > 0) {
      const size = Math.min(left, 1 + Math.floor(random() * LONGEST_BATCH))
      left -= size
      const tenant = tenants[Math.floor(random() * TENANTS)]
      if (!tenant) throw new Error('there is no tenant')
      const { post, keys, tokens } = tenant
      const operations = Array.from({ length: size }, () => {
        if (random() < 0.5) {
          const wrapped_key = tokens[Math.floor(random() * tokens.length)]
          return { op: 'unwrap', key_id: keys[0], wrapped_key }
        }
        const key_id = random() < BUSY ? keys[0] : keys[Math.floor(random() * KEYS)]
        if (random() < 0.5) return { op: 'encrypt', key_id, plaintext: 'ada@example.org' }
        return { op: 'wrap', key_id, dek: randomBytes(32).toString('base64') }
      })
      await post('/v1/batch', { operations })
    }
  }
  await Promise.all(Array.from({ length: CALLERS }, call))
}

async function findSizes({ url }: Database): Promise<{ count: number; relations: Relation[] }> {
  const location = { databaseUrl: url, databasePooler: 'none' as const, dataDir: '' }
  const { sql, close } = await openStore(location, { beside: false, mayCreate: false })
  try {
    const [row] = await sql<{ count: number }[]>`select pg_catalog.count(*) as count from audit_log`
    const relations = await sql<Relation[]>`
      select relname::text as name, case when relkind = 'r' then pg_catalog.pg_table_size(oid) else pg_catalog.pg_relation_size(oid) end as bytes
      from pg_class where oid = 'audit_log'::regclass or oid in (select indexrelid from pg_index where indrelid = 'audit_log'::regclass)
      order by relkind desc, relname`
    return { count: row?.count ?? 0, relations: [...relations] }
  } finally {
    await close()
  }
}
