// A PostgreSQL whose tables are spread over shards by Citus (docs/scaling.md): the suites whose statements an engine of shards may
// refuse, and an installation on three machines.
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { keepLedger } from '../faults/change-ledger.js'
import { checkInvariants } from '../faults/invariants.js'
import { backend, freshDatabase, isPooled, type TestDatabase } from '../support/database/database.js'
import { findOrInstallPgbouncer } from '../support/database/find-pgbouncer.js'
import { findPostgres } from '../support/database/find-postgres.js'
import { type Pgbouncer, startPgbouncer } from '../support/database/pgbouncer.js'
import { createDatabase, type PostgresServer, startPostgres } from '../support/database/postgres.js'
import { runCommand, runDoctor } from '../support/service/command-host.js'
import { connectTo } from '../support/service/eaas-process.js'
import { startLoad } from '../support/service/load.js'
import { ROOT_KEY, startService } from '../support/service/service.js'
import { ROOT } from '../support/sources/source-files.js'

const run = promisify(execFile)
const MAX_OUTPUT_BYTES = 16 * 1_048_576

/** Without those that write rows or schemas by statements of their own that Citus refuses, or that name the files of a call. */
const SUITES = [
  ...['access', 'api-keys', 'batch', 'blind-hash', 'conformance', 'counted-wraps', 'key-states', 'keys', 'listed-keys'],
  ...['many-keys', 'metrics', 'problems', 'refusals', 'server-mode', 'unrecorded-calls', 'wrapped-uses'],
].map((name) => `test/api/${name}.test.ts`)
/** Makes a trigger, which Citus refuses. */
const LEFT_OUT = 'creates nothing when its entries cannot be written'

/** Whether the PostgreSQL of the tests has the extension. */
function hasCitus(): boolean {
  const bin = findPostgres()
  if (!bin) return false
  const found = ['../lib', '../lib/postgresql', '../../../lib/postgresql'].some((folder) =>
    existsSync(join(bin, folder, 'citus.so')),
  )
  if (!found) {
    console.error('!!! NO CITUS FOUND: nothing runs on tables that are spread over shards. Set EAAS_TEST_POSTGRES_BIN.')
  }
  return found
}

/** Without what tells a process that it belongs to this run. */
function environment(): NodeJS.ProcessEnv {
  const others = Object.entries(process.env).filter(
    ([name]) => !/^(VITEST|EAAS_TEST_SLOW|EAAS_TEST_FAULTS|NODE_ENV|TEST|DEV|PROD|SSR)/.test(name),
  )
  return { ...Object.fromEntries(others), EAAS_TEST_DISTRIBUTED: '1' }
}

/** Of a tenant, while a worker is killed. */
const CLIENTS = 4

const IS_SKIPPED = backend() !== 'postgres' || isPooled() || !hasCitus()
const PGBOUNCER = IS_SKIPPED ? '' : findOrInstallPgbouncer()
if (PGBOUNCER === undefined)
  throw new Error('there is no pgbouncer: install it, or set EAAS_TEST_PGBOUNCER to its path')

describe.skipIf(IS_SKIPPED)('tables that are spread over shards', () => {
  it('serve every call', async () => {
    const args = ['vitest', 'run', '--project', 'postgres', '-t', `^(?!.*${LEFT_OUT})`, ...SUITES]
    const { code, output } = await run('npx', args, {
      cwd: ROOT,
      env: environment(),
      maxBuffer: MAX_OUTPUT_BYTES,
    }).then(
      ({ stdout }) => ({ code: 0, output: stdout }),
      ({ code, stdout, stderr }: { code: number; stdout: string; stderr: string }) => ({
        code,
        output: stdout + stderr,
      }),
    )
    expect(code, output.slice(-20_000)).toBe(0)
  })
})

/** Starts a coordinator and two workers, with a database `eaas` that spans them. */
async function startMachines(): Promise<PostgresServer[]> {
  const bin = findPostgres() ?? ''
  const settings = {
    shared_preload_libraries: 'citus',
    max_prepared_transactions: '200',
    'citus.node_connection_timeout': '2s',
    'citus.shard_count': '8',
  }
  const password = randomBytes(16).toString('hex')
  const machines = await Promise.all([0, 1, 2].map(() => startPostgres({ bin, settings, password })))
  for (const { url } of machines) {
    await onDatabase(await createDatabase(url, 'eaas'), async (sql) => {
      await sql`create extension citus`
      await sql`insert into pg_dist_authinfo values (0, 'postgres', ${`password=${password}`})`
    })
  }
  await onDatabase(inEaas(machines[0]), async (sql) => {
    const [coordinator, ...workers] = machines.map(({ port }) => port)
    await sql`select citus_set_coordinator_host('127.0.0.1', ${coordinator ?? 0})`
    for (const port of workers) await sql`select citus_add_node('127.0.0.1', ${port})`
  })
  return machines
}

function inEaas(machine: PostgresServer | undefined): string {
  return Object.assign(new URL(machine?.url ?? ''), { pathname: '/eaas' }).href
}

async function onDatabase<T>(url: string, work: (sql: postgres.Sql) => Promise<T>): Promise<T> {
  const sql = postgres(url, { max: 1, onnotice: () => undefined })
  return work(sql).finally(() => sql.end())
}

describe.skipIf(IS_SKIPPED)('an installation on a coordinator and two workers', () => {
  let machines: PostgresServer[]
  let pooler: Pgbouncer
  let database: TestDatabase
  let folder: string
  const eaas = (args: string[], on = database, environment = {}) =>
    runCommand(args, { database: on, rootKey: ROOT_KEY, environment })
  const succeeds = async (...run: Parameters<typeof eaas>) => {
    const { code, stdout, stderr } = await eaas(...run)
    expect([code, stderr], stdout).toEqual([0, ''])
    return stdout
  }

  beforeAll(async () => {
    machines = await startMachines()
    const url = inEaas(machines[0])
    database = { backend: 'postgres', url, directUrl: url, drop: async () => undefined }
    pooler = await startPgbouncer({ program: PGBOUNCER, postgresUrl: url })
    folder = await mkdtemp(join(tmpdir(), 'eaas-test-distributed-'))
  })
  afterAll(async () => {
    for (const machine of machines) await machine.remove()
    await pooler.remove()
    await rm(folder, { recursive: true, force: true })
  })

  it('is made by eaas migrate --distribute, which may be repeated', async () => {
    for (let run = 0; run < 2; run++) await succeeds(['migrate', '--distribute'])
    const rest = await onDatabase(
      inEaas(machines[0]),
      (sql) => sql`
      select c.relname from pg_class c join pg_dist_partition p on p.logicalrelid = c.oid where pg_relation_size(c.oid) > 0`,
    )
    expect(rest).toEqual([])
    const { findings } = await runDoctor({ database, rootKey: ROOT_KEY })
    expect(findings.filter(({ ok }) => !ok)).toEqual([])
  })

  it('keeps each change that two servers acknowledge, one of them behind a pooler, and no verification is wrong', async () => {
    const databases = [database, { ...database, url: pooler.urlOf(inEaas(machines[0])) }]
    const service = await startService({ database })
    const owner = await service.createTenant()
    let isDone = false
    const keeping = keepLedger({ changes: 300, tenants: 6, databases }).finally(() => {
      isDone = true
    })
    const verdicts = new Map<boolean, number>()
    for (let open = true; !isDone; open = !open) {
      const changing = eaas(['tenant', 'set', owner.tenant.tenant_id, '--envelope-only', String(open)])
      while (!isDone && (await Promise.race([changing, sleep(1, 'verify')])) === 'verify') {
        const { body } = await owner.call('GET', '/v1/audit/verify')
        verdicts.set(body.valid, (verdicts.get(body.valid) ?? 0) + 1)
      }
      await changing
    }
    const { acknowledged, missing, surprises } = await keeping
    await service.close()
    expect([missing, surprises, service.alarms]).toEqual([[], [], []])
    expect([[...verdicts.keys()], acknowledged >= 300]).toEqual([[true], true])
  })

  it('rotates, purges, is backed up and restored', async () => {
    const past = Date.now() - 100 * 86_400_000
    const old = await startService({ database, now: () => past })
    const owner = await old.createTenant({ name: 'old' })
    const { key_id } = (await owner.call('POST', '/v1/keys', { name: 'k' })).body
    const dek = Buffer.alloc(32, 7).toString('base64')
    const { wrapped_key } = (await owner.call('POST', `/v1/keys/${key_id}/wrap`, { dek })).body
    await old.close()
    await succeeds(['store-key', 'rotate', '--rotate-keys'])
    const months = { EAAS_AUDIT_RETENTION_MONTHS: '2' }
    await succeeds(['purge', '--tenant', 'old', '--resume', 'a test', '--json'], database, months)
    const file = join(folder, 'backup')
    await succeeds(['backup', '--plain', file])
    await succeeds(['restore', '--check', file])
    const restored = await freshDatabase('restored')
    await succeeds(['restore', file], restored)
    for (const on of [database, restored]) {
      await succeeds(['audit', 'verify', '--all'], on)
      const service = await startService({ database: on })
      const { body } = await service.caller(owner.secret).call('POST', `/v1/keys/${key_id}/unwrap`, { wrapped_key })
      await service.close()
      expect(body.dek).toBe(dek)
    }
  })

  it('is not healthy while no entry can be appended', async () => {
    const service = await startService({ database })
    const health = async () => (await (await fetch(`${service.url}/health`)).json()).database
    const change = (sql: string) => onDatabase(inEaas(machines[0]), (session) => session.unsafe(sql))
    await change('alter table audit_log add constraint refused check (false) not valid')
    service.services.committer.recent.succeededAt = Number.NEGATIVE_INFINITY
    expect(await health()).toBe('failing')
    await change('alter table audit_log drop constraint refused')
    expect(await health()).toBe('up')
    await service.close()
  })

  it('goes on for the tenants of a worker that lives while the other is killed, and loses nothing', async () => {
    const service = await startService({ database })
    const dead = machines[2]
    if (!dead) throw new Error('there is no second worker')
    const loadOf = async (isWanted: (port: number) => boolean) => {
      let owner = await service.createTenant()
      while (!isWanted(await machineOf(owner.tenant.tenant_id))) owner = await service.createTenant()
      return { owner, load: await startLoad({ target: () => service.url, secret: owner.secret, clients: CLIENTS }) }
    }
    const [living, stopped] = [await loadOf((port) => port !== dead.port), await loadOf((port) => port === dead.port)]
    const both = [living, stopped]
    const acked = () => both.map(({ load }) => load.acked())
    await sleep(2_000)
    await dead.kill()
    const atKill = acked()
    const states: number[] = []
    for (let second = 0; second < 20; second++) {
      await sleep(1_000)
      states.push((await fetch(`${service.url}/health`)).status)
    }
    const [meanwhile = 0, refused = 0] = acked().map((count, at) => count - (atKill[at] ?? 0))
    await dead.start()
    const since = stopped.load.acked()
    for (let tries = 0; stopped.load.acked() === since && tries < 600; tries++) await sleep(100)
    await Promise.all(both.map(({ load }) => load.stop()))
    console.log(`${meanwhile} calls by the other worker's tenant meanwhile, ${refused} by its own; /health ${states}`)
    expect([meanwhile > 20, refused <= CLIENTS, stopped.load.acked() > since]).toEqual([true, true, true])
    expect(new Set(states)).toEqual(new Set([200]))
    const sql = connectTo(database)
    for (const { owner, load } of both) {
      const { tenant_id } = owner.tenant
      const ledger = { load, mostUnacknowledged: 2 * CLIENTS } // those under way at the kill and at the start
      const server = { url: service.url, secret: owner.secret, rootKey: ROOT_KEY }
      expect((await checkInvariants(sql, { tenant_id, ...ledger, ...server })).violations).toEqual([])
    }
    await sql.end()
    await service.close()
  })

  /** The port of the worker that holds a tenant's log. */
  async function machineOf(tenant_id: string): Promise<number> {
    const [row] = await onDatabase(
      inEaas(machines[0]),
      (sql) => sql<{ nodeport: number }[]>`
      select nodeport from pg_dist_shard_placement
      where shardid = get_shard_id_for_distribution_column('heads', ${tenant_id}::uuid)`,
    )
    if (!row) throw new Error('the tenant is on no machine')
    return row.nodeport
  }
})
