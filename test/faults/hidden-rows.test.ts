// Rows that the database hides from the server's role: nothing is concluded from their absence, no alarm is raised, and the server serves again
// by itself once they are visible.
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { asRole, backend, freshDatabase, type TestDatabase } from '../support/database/database.js'
import { guardedDir } from '../support/run/guarded-dir.js'
import { createTenantByCli, runCommand } from '../support/service/command-host.js'
import { connectTo } from '../support/service/eaas-process.js'
import { type RunningServer, startServer } from '../support/service/server.js'

/** Longer than a server takes to compare every log twice. */
const HIDDEN_MS = 2_500

interface Way {
  hide: (table: string, role: string) => string
  show: (table: string) => string
  /** what the server and its commands say */
  says: RegExp
  /** whether PostgreSQL answers without an error, so that a server notices it only at its next comparison */
  isSilent?: true
}
const enable = (table: string) => `alter table ${table} enable row level security`
const disable = (table: string) => `alter table ${table} disable row level security`
const WAYS: Record<string, Way> = {
  'row level security without a policy': { hide: enable, show: disable, says: /row[ -]level security/ },
  'a restrictive policy': {
    hide: (table) => `${enable(table)}; create policy all_rows on ${table} using (true);
      create policy few on ${table} as restrictive using (false)`,
    show: (table) => `drop policy all_rows on ${table}; drop policy few on ${table}; ${disable(table)}`,
    says: /row[ -]level security/,
  },
  'forced row level security for the owner': {
    hide: (table, role) =>
      `alter table ${table} owner to ${role}; ${enable(table)}; alter table ${table} force row level security`,
    show: (table) =>
      `alter table ${table} owner to current_user; ${disable(table)}; alter table ${table} no force row level security`,
    says: /row[ -]level security/,
  },
  'a view in the place of the table': {
    hide: (table, role) => `alter table ${table} rename to meant;
      create view ${table} with (security_barrier) as select * from meant where false;
      grant select, insert, update on ${table} to ${role}`,
    show: (table) => `drop view ${table}; alter table meant rename to ${table}`,
    says: /is a view/,
    isSilent: true,
  },
  'columns that may not be read': {
    hide: (table, role) => `revoke select on ${table} from ${role}`,
    show: () => '',
    says: /permission denied for table|may not read/,
  },
  'one column that may not be read': {
    hide: (table, role) => `revoke select on ${table} from ${role};
      do $$ begin execute (
        select format('grant select (%s) on ${table} to ${role}', string_agg(quote_ident(attname), ', ' order by attnum) filter (where attnum < last))
        from pg_attribute, lateral (select max(attnum) as last from pg_attribute where attrelid = '${table}'::regclass and not attisdropped) as l
        where attrelid = '${table}'::regclass and attnum > 0 and not attisdropped); end $$`,
    show: () => '',
    says: /permission denied for table|may not read/,
  },
}
const TABLES = ['instance', 'store_keys', 'tenants', 'heads', 'audit_log', 'keys', 'api_keys', 'anchored_heads']
/** Those of which a missing row is a missing log, tenant, key and API key. */
const FEW_TABLES = ['heads', 'tenants', 'keys', 'api_keys']
const CASES = Object.entries(WAYS).flatMap(([name, way], at) =>
  (at === 0 ? TABLES : FEW_TABLES).map((table) => ({ name, way, table })),
)

describe.skipIf(backend() === 'embedded')(
  'rows that are hidden from the role of a server',
  { timeout: 120_000 },
  () => {
    let owner: TestDatabase
    let database: TestDatabase
    let role: string
    let sql: postgres.Sql
    let server: RunningServer
    let secret: string
    const environment = { EAAS_CHECKPOINT_FILE: join(guardedDir('eaas-hidden').path, 'checkpoints') }

    beforeAll(async () => {
      owner = await freshDatabase('hidden')
      role = `eaas_${randomBytes(6).toString('hex')}`
      sql = connectTo(owner)
      await sql.unsafe(`create role ${role} login password 'secret'; grant create on schema public to ${role}`)
      database = asRole(owner, role)
      await grant()
      secret = (await createTenantByCli({ database }, 'acme')).api_key.secret
      server = await startServer({ database, environment })
      expect(await call('POST', '/v1/keys', { name: 'k' })).toMatchObject({ status: 201 })
    })
    afterAll(async () => {
      await server.stop()
      await sql.unsafe(`drop owned by ${role}; drop role ${role}`)
      await sql.end()
    })

    const grant = async () =>
      expect(await runCommand(['migrate', '--role', role], { database: owner })).toMatchObject({ code: 0 })

    async function call(method: string, path: string, body?: unknown) {
      const response = await fetch(server.url + path, {
        method,
        headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      return { status: response.status, body: await response.json() }
    }
    const listKeys = async () => {
      const { status, body } = await call('GET', '/v1/keys')
      return [status, body.count]
    }

    async function whileHidden(way: Way, table: string, work: () => Promise<void>): Promise<void> {
      await sql.unsafe(way.hide(table, role))
      try {
        await work()
      } finally {
        await sql.unsafe(way.show(table))
        await grant()
      }
    }

    /** A server may still answer from memory what the table said when it was visible. */
    const MAY_ANSWER = [
      [200, 1],
      [500, undefined],
      [503, undefined],
    ]
    const COLD = CASES.filter(({ name }) => !/forced|restrictive|columns/.test(name))

    it.each(CASES)('raise no alarm, and are served again: $table, by $name', async ({ way, table }) => {
      await whileHidden(way, table, async () => {
        const health = async () => (await call('GET', '/health')).body
        await expect.poll(health, { timeout: 10_000 }).toMatchObject({
          status: 'degraded',
          detail: expect.stringMatching(
            new RegExp(`(${way.says.source}).*\\b${table}\\b|\\b${table}\\b.*(${way.says.source})`),
          ),
        })
        if (way.isSilent) await expect.poll(listKeys, { interval: 100 }).toEqual([503, undefined])
        const until = performance.now() + HIDDEN_MS
        while (performance.now() < until) {
          expect(MAY_ANSWER).toContainEqual(await listKeys())
          await sleep(50)
        }
      })
      await expect.poll(listKeys, { timeout: 20_000, interval: 200 }).toEqual([200, 1])
      expect(await sql`select * from chain_alarms`).toEqual([])
      // What failed meanwhile is tried again within half a minute.
      expect((await call('GET', '/health')).body.database).toMatch(/^(?:up|job)$/)
    })

    it.each(COLD)(
      'are hidden at a start, which says so or serves once they are visible: $table, by $name',
      async (cold) => {
        const { way, table } = cold
        await server.stop()
        let isStarted = false
        await whileHidden(way, table, async () => {
          const refusal = await server.start().then(
            () => undefined,
            (error: Error) => error.message,
          )
          isStarted = refusal === undefined
          if (refusal !== undefined || way.isSilent) {
            expect(refusal).toMatch(way.says) // a server that starts would answer its first calls by what a view shows
            expect(refusal).not.toMatch(/restore a backup|emptied|somebody changed/i)
            return
          }
          const until = performance.now() + HIDDEN_MS
          while (performance.now() < until) {
            expect(MAY_ANSWER).toContainEqual(await listKeys())
            await sleep(100)
          }
        })
        if (!isStarted) await server.start()
        await expect.poll(listKeys, { timeout: 20_000, interval: 200 }).toEqual([200, 1])
        expect(await sql`select * from chain_alarms`).toEqual([])
      },
    )

    it.each(CASES)('are named by commands, and no backup is advised: $table, by $name', async ({ way, table }) => {
      await whileHidden(way, table, async () => {
        for (const args of [['key', 'list', '--tenant', 'acme'], ['doctor']]) {
          const { code, stdout, stderr } = await runCommand(args, { database, environment })
          const said = stdout + stderr
          expect(said).not.toMatch(/restore a backup|emptied|somebody changed/i)
          // What the command does not read may be hidden.
          if (code !== 0) expect(said).toMatch(way.says)
          if (args[0] === 'doctor') expect(code).toBe(1)
          else if (!way.isSilent) expect(said).not.toContain('0 keys')
        }
      })
      expect(await sql`select * from chain_alarms`).toEqual([])
    })
  },
)

describe.runIf(backend() === 'embedded')('rows of an embedded database, whose one user is a superuser', () => {
  let database: TestDatabase
  let server: RunningServer
  let sql: postgres.Sql
  let authorization: string

  beforeAll(async () => {
    database = await freshDatabase('hidden', { migrated: true })
    authorization = `Bearer ${(await createTenantByCli({ database }, 'acme')).api_key.secret}`
    server = await startServer({ database })
    sql = connectTo(database)
  })
  afterAll(async () => {
    await sql.end()
    await server.stop()
  })

  const read = async (path: string) => {
    const response = await fetch(server.url + path, { headers: { authorization } })
    return { status: response.status, body: await response.json() }
  }

  it('are seen whatever policies and rights say, which do not apply to it', async () => {
    for (const table of TABLES) {
      await sql.unsafe(`${enable(table)}; alter table ${table} force row level security; revoke all on ${table} from postgres;
        create policy few on ${table} as restrictive using (false)`)
    }
    const until = performance.now() + HIDDEN_MS
    while (performance.now() < until) {
      expect((await read('/v1/keys')).status).toBe(200)
      expect((await read('/health')).body).toMatchObject({ status: 'healthy' })
      await sleep(100)
    }
    // PostgreSQL leaves its first user a superuser.
    await expect(sql`alter role postgres nosuperuser`).rejects.toThrow('permission denied to alter role')
  })

  it.each(FEW_TABLES)('raise no alarm where a view is in the place of %s', async (table) => {
    const way = WAYS['a view in the place of the table'] as Way
    await sql.unsafe(way.hide(table, 'postgres'))
    const hidden = { status: 'degraded', detail: expect.stringMatching(way.says) }
    await expect.poll(async () => (await read('/health')).body).toMatchObject(hidden)
    await sql.unsafe(way.show(table))
    await expect.poll(async () => (await read('/v1/keys')).status, { timeout: 20_000, interval: 200 }).toBe(200)
    expect(await sql`select * from chain_alarms`).toEqual([])
  })
})
