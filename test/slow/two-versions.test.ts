// Servers of two versions on one database, under load: what docs/upgrade.md of the server promises, and what happens to those who do not stop.
import { describe, expect, it } from 'vitest'
import { checkInvariants } from '../faults/invariants.js'
import { backend, freshDatabase, isPooled, type TestDatabase } from '../support/database/database.js'
import { connectTo, type EaasProcess, ROOT_KEY, runEaas, startEaas } from '../support/service/eaas-process.js'
import { startLoad } from '../support/service/load.js'
import { buildCommit, findCommits } from '../support/service/older-build.js'

const CLIENTS = 8
/** Calls that are acknowledged between two changes of the servers. */
const CALLS = 400

/** Without a default, so that `eaas doctor` finds the columns harmless, as schema.txt lacks them. */
const LATER = `alter table keys add column later text; alter table audit_log add column later integer;
create index if not exists audit_log_later on audit_log (actor);`

const commits = findCommits()
if ('reason' in commits)
  console.error(`!!! TWO VERSIONS WERE NOT RUN AT ONCE: ${commits.reason}. Fetch the whole history.`)

/** Two servers of a version on a new database with a tenant, and clients whose calls go to whichever server is in `serving`. */
async function startScene(program?: string) {
  const database = await freshDatabase('versions')
  const of = program === undefined ? {} : { program }
  const created = await runEaas(['tenant', 'create', '--name', 'acme', '--json'], { database, ...of })
  expect(created.code, created.stderr).toBe(0)
  const tenant: { tenant_id: string; api_key: { secret: string } } = JSON.parse(created.stdout)
  const started: EaasProcess[] = []
  const start = async (of: string | undefined, environment = {}) => {
    // The older version is built without its pages.
    const apart = { EAAS_CONSOLE: 'off', ...environment }
    const server = await startEaas({ database, environment: apart, ...(of === undefined ? {} : { program: of }) })
    started.push(server)
    return server
  }
  const serving = [await start(program), await start(program)]
  const load = await startLoad({
    target: (client) => serving[client % serving.length]?.url,
    secret: tenant.api_key.secret,
    clients: CLIENTS,
  })
  return {
    database,
    serving,
    load,
    start,
    async moreCalls() {
      const before = load.acked()
      await expect.poll(() => load.acked() - before, { timeout: 120_000 }).toBeGreaterThan(CALLS)
    },
    /** Checks what the clients wrote down by the first of the servers. */
    findings: () => check(database, tenant, load, serving[0]?.url ?? ''),
    close: async () => {
      await load.stop()
      await Promise.all(started.map((server) => server.kill9()))
    },
  }
}

async function check(
  database: TestDatabase,
  { tenant_id, api_key }: { tenant_id: string; api_key: { secret: string } },
  load: Awaited<ReturnType<typeof startLoad>>,
  url: string,
) {
  const sql = connectTo(database)
  try {
    const of = { tenant_id, rootKey: ROOT_KEY, load, url, secret: api_key.secret, mostUnacknowledged: 0 }
    return await checkInvariants(sql, of)
  } finally {
    await sql.end()
  }
}

describe.skipIf(backend() !== 'postgres' || isPooled() || 'reason' in commits)('two versions on one database', () => {
  if ('reason' in commits) return

  it('of the same schema replace each other one by one, and back, without a failed call', async () => {
    const older = buildCommit(commits.earliest)
    const scene = await startScene(older)
    const { serving, load, start, moreCalls } = scene
    try {
      for (const program of [undefined, older]) {
        for (let at = 0; at < serving.length; at++) {
          await moreCalls()
          const [leaving] = serving.splice(at, 1)
          const { code } = (await leaving?.stop()) ?? {}
          expect(code).toBe(0)
          serving.splice(at, 0, await start(program))
        }
      }
      await moreCalls()
      await load.stop()
      const { violations, entries, unacknowledged } = await scene.findings()
      console.log(
        `same schema: ${load.acked()} calls, ${entries} entries, ${load.failures()} failed, ${unacknowledged} lost answers`,
      )
      expect([violations, load.failures()]).toEqual([[], 0])
    } finally {
      await scene.close()
    }
  })

  it('of two schemas, in the order of the page: clients that try again lose nothing', async () => {
    const program = buildCommit(commits.current, LATER)
    const scene = await startScene()
    const { database, serving, load, start, moreCalls } = scene
    try {
      await moreCalls()
      const leaving = serving.splice(0)
      for (const { code } of await Promise.all(leaving.map((server) => server.stop()))) expect(code).toBe(0)
      const migrated = await runEaas(['migrate'], { database, program })
      expect([migrated.code, migrated.stderr]).toEqual([0, ''])
      expect((await runEaas(['doctor'], { database, program })).code).toBe(0)
      serving.push(await start(program), await start(program))
      await moreCalls()
      await load.stop()
      const { violations, unacknowledged } = await scene.findings()
      console.log(
        `stopped for a migration: ${load.acked()} calls, ${load.failures()} failed, ${unacknowledged} lost answers`,
      )
      expect([violations, load.failures()]).toEqual([[], 0])
    } finally {
      await scene.close()
    }
  })

  it('of two schemas, migrated while the older ones serve: their calls may fail, and none is lost; they do not start again', async () => {
    const program = buildCommit(commits.current, LATER)
    const scene = await startScene()
    const { database, serving, load, start, moreCalls } = scene
    try {
      await moreCalls()
      const newer = await start(program)
      serving.push(newer)
      await moreCalls()
      const [one, other] = serving.splice(0, 2)
      expect((await one?.stop())?.code).toBe(0)
      await expect(one?.start()).rejects.toThrow(/The database has schema \d+, this server knows \d+ at most/)
      await moreCalls()
      expect((await other?.stop())?.code).toBe(0)
      await load.stop()
      const { violations, unacknowledged } = await scene.findings()
      const alarms = (await runEaas(['audit', 'verify', '--all'], { database, program })).code
      console.log(
        `migrated meanwhile: ${load.acked()} calls, ${load.failures()} failed, ${unacknowledged} lost answers`,
      )
      expect([violations, alarms]).toEqual([[], 0])
    } finally {
      await scene.close()
    }
  })
})
