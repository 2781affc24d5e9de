// A server whose database role may only read and write rows; another role owns the schema.
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { GRANTED_TABLES } from '../../packages/server/src/core/store/grants.js'
import { asRole, backend, freshDatabase, isPooled, type TestDatabase } from '../support/database/database.js'
import { guardedDir } from '../support/run/guarded-dir.js'
import { createTenantByCli, runCommand } from '../support/service/command-host.js'
import { connectTo, startEaas } from '../support/service/eaas-process.js'
import { callsOf } from '../support/service/load.js'
import { startServer } from '../support/service/server.js'

const DENIED = '42501'
/** Part of the role's name; empty for the pooler of the tests, which supports only plain names. */
const UNUSUAL = isPooled() ? '' : '."; drop table heads'

describe.skipIf(backend() === 'embedded')('a role that may only read and write rows', { timeout: 120_000 }, () => {
  let owner: TestDatabase
  let database: TestDatabase
  let role: string
  let sql: postgres.Sql

  const migrate = (...args: string[]) => runCommand(['migrate', ...args], { database: owner })
  const grantsNow = () => sql`
    select c.relname, c.relacl::text, array(select a.attacl::text from pg_attribute a where a.attrelid = c.oid) as columns
    from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' order by c.relname`

  beforeAll(async () => {
    owner = await freshDatabase('role')
    role = `Eaas_${randomBytes(6).toString('hex')}${UNUSUAL}`
    sql = connectTo(owner)
    await sql.unsafe(`create role ${quoted(role)} login password 'secret'; revoke create on schema public from public`)
    database = asRole(owner, role)
  })
  afterAll(async () => {
    await sql.unsafe(`drop owned by ${quoted(role)}; drop role ${quoted(role)}`)
    await sql.end()
  })

  it('is told to have the owner migrate before, and serves after eaas migrate --role', async () => {
    const before = await runCommand(['doctor'], { database })
    expect([before.code, before.stdout]).toEqual([1, expect.stringContaining('run eaas migrate as the owner')])

    expect(await migrate('--role', role)).toMatchObject({ code: 0, stderr: '' })
    const environment = { EAAS_DESTROY_WINDOW_DAYS: '0' }
    const eaas = await startEaas({ database, environment })
    const { api_key } = await createTenantByCli({ database }, 'acme')
    const call = async (method: string, path: string, body?: unknown) => {
      const response = await fetch(eaas.url + path, {
        method,
        headers: {
          authorization: `Bearer ${api_key.secret}`,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      return { status: response.status, body: await response.json().catch(() => undefined) }
    }
    const { key_id } = (await call('POST', '/v1/keys', { name: 'orders' })).body
    const dek = Buffer.alloc(32, 1).toString('base64')
    const { wrapped_key } = (await call('POST', `/v1/keys/${key_id}/wrap`, { dek })).body
    expect(await call('POST', `/v1/keys/${key_id}/unwrap`, { wrapped_key })).toMatchObject({ body: { dek } })
    expect((await call('POST', `/v1/keys/${key_id}/rotate`)).status).toBe(200)
    expect((await call('POST', '/v1/hash', { key_id, value: 'x', context: 'email' })).status).toBe(200)
    expect((await call('DELETE', `/v1/keys/${key_id}`)).status).toBe(204)
    expect((await call('POST', `/v1/keys/${key_id}/destroy`, { confirm: 'orders' })).status).toBe(200)
    expect((await call('GET', '/v1/audit/verify')).body).toMatchObject({ valid: true })
    expect((await call('GET', '/health')).status).toBe(200)
    const made = await call('POST', '/v1/api-keys', { name: 'reader', permissions: ['keys:read'] })
    expect(made.status).toBe(201)
    expect((await call('DELETE', `/v1/api-keys/${made.body.id}`)).status).toBeLessThan(300)
    expect(await runCommand(['purge'], { database })).toMatchObject({ code: 0, stderr: '' })
    const { code, stdout, stderr } = await eaas.stop()
    expect([code, stdout]).toEqual([0, expect.stringContaining('This is the first start.')])
    expect(stderr).not.toContain('denied')
    const doctor = async (who: TestDatabase) => (await runCommand(['doctor'], { database: who })).stdout
    expect(await doctor(database)).toMatch(/^ok +rights +this role may not change audit entries$/m)
    expect(await doctor(database)).toMatch(
      /^WARN +erasure +this role may not vacuum keys, key_versions and store_keys.*vacuum keys, key_versions, store_keys$/m,
    )
    expect(await doctor(owner)).toMatch(/^ok +erasure +this role may vacuum/m)
    expect(await doctor(owner)).toMatch(/^WARN +rights +this role may change audit entries.*eaas migrate --role/m)
  })

  it('is not warned of the tables of keys that their owner vacuumed, until a row of them changes', async () => {
    const erasure = async () => /^\S+ +erasure .*$/m.exec((await runCommand(['doctor'], { database })).stdout)?.[0]
    const vacuumed = async () => {
      await sql`vacuum keys, key_versions, store_keys`
      return erasure()
    }
    const poll = { timeout: 20_000, interval: 500 }
    await expect.poll(vacuumed, poll).toMatch(/^ok +erasure +this role may not vacuum .*, but they were vacuumed/)
    await sql`update keys set updated_at = updated_at`
    await expect.poll(erasure, poll).toMatch(/^WARN +erasure +this role may not vacuum/)
  })

  it('says after a destruction that it may not remove what the key left, and that the owner can', async () => {
    const server = await startServer({ database })
    await expect.poll(() => server.log).toContain('this role may not vacuum keys, key_versions and store_keys')
    await server.stop()
    const byOwner = await startServer({ database: owner, environment: { EAAS_LOG_LEVEL: 'info' } })
    await expect.poll(() => byOwner.log).toContain('erased what destroyed key versions had left')
    await byOwner.stop()
  })

  it('is told that only the owner replaces the root key and the store key, and changes neither', async () => {
    const rows = await sql`select * from store_keys`
    const to = join(guardedDir('eaas-serving-role').path, 'root-key')
    expect((await runCommand(['root-key', 'generate', '--out', to], { database })).code).toBe(0)
    for (const args of [
      ['root-key', 'rotate', '--to-file', to],
      ['store-key', 'rotate'],
    ]) {
      const { code, stderr } = await runCommand(args, { database })
      expect([code, stderr]).toEqual([
        1,
        expect.stringContaining('(42501): run this command as the owner of the tables'),
      ])
    }
    expect(await sql`select * from store_keys`).toEqual(rows)
  })

  it('may neither alter the schema nor change an entry, and deletes entries only where a purge does', async () => {
    expect((await migrate('--role', role)).code).toBe(0)
    const connection = connectTo(database)
    const outcome = (statement: string) =>
      connection.unsafe(statement).then(
        () => 'done',
        (error: { code?: string }) => error.code,
      )
    for (const statement of [
      'drop table heads',
      'alter table audit_log add column more text',
      'alter table audit_log disable trigger all',
      'create table more (id integer)',
      'create index more on audit_log (actor)',
      'truncate audit_log',
      "update audit_log set actor = 'nobody'",
      'delete from heads',
      'delete from keys',
      'delete from purge_marks',
      'update purge_marks set entries = 0',
      "update instance set wrapped_pepper = ''",
      'insert into schema_version values (2, 1)',
    ]) {
      expect([statement, await outcome(statement)]).toEqual([statement, DENIED])
    }
    expect(await outcome('delete from audit_log where false')).toBe('done')
    expect(await outcome('select id from chain_alarms, instance where false for update')).toBe('done')
    expect(await outcome('delete from chain_alarms where false')).toBe('done')

    const kept = await runCommand(['migrate', '--role', role, '--json'], {
      database: owner,
      environment: { EAAS_AUDIT_RETENTION_MONTHS: '0' },
    })
    expect(JSON.parse(kept.stdout)).toMatchObject({ role, may_purge: false, may_create: false })
    expect(await outcome('delete from audit_log where false')).toBe(DENIED)
    await connection.end()
    const rights = async (EAAS_AUDIT_RETENTION_MONTHS: string) => {
      const { stdout } = await runCommand(['doctor'], { database, environment: { EAAS_AUDIT_RETENTION_MONTHS } })
      return /^.* rights .*$/m.exec(stdout)?.[0]
    }
    expect(await rights('60')).toMatch(
      /^WARN .*may not delete them.*so every purge fails\. Run eaas migrate --role .*Eaas_/,
    )
    expect(await rights('0')).toMatch(/^ok +rights +this role may not change audit entries$/)
  })

  it('is told by doctor and in the log which rights it lacks, and by eaas accept that an alarm could not be written', async () => {
    expect((await migrate('--role', role)).code).toBe(0)
    const eaas = await startEaas({ database })
    const { tenant_id, api_key } = await createTenantByCli({ database }, 'lacking')
    const call = callsOf(api_key.secret)
    const [head] =
      await sql`select last_id, hash, policy_version, created_at, mac from heads where tenant_id = ${tenant_id}`
    expect((await call(eaas.url, 'POST', '/v1/keys', { name: 'orders' })).status).toBe(201)
    await eaas.stop() // and anchors the tenant
    await sql`delete from audit_log where tenant_id = ${tenant_id} and id > ${head?.last_id}`
    for (const table of ['key_versions', 'keys']) await sql`delete from ${sql(table)} where tenant_id = ${tenant_id}`
    await sql`update heads set ${sql(head ?? {})} where tenant_id = ${tenant_id}`
    await sql.unsafe(`revoke insert, update, delete on chain_alarms from ${quoted(role)};
      revoke insert, update on unrecorded_calls from ${quoted(role)}; revoke insert on purge_marks from ${quoted(role)};
      revoke update (id) on instance from ${quoted(role)}`)
    const lacking =
      'this role lacks rights that the server needs: update (id) on instance, insert on purge_marks, insert on unrecorded_calls, ' +
      'update on unrecorded_calls, insert on chain_alarms, update on chain_alarms, delete on chain_alarms. Run eaas migrate --role Eaas_'
    const doctor = await runCommand(['doctor'], { database })
    expect([doctor.code, doctor.stdout]).toEqual([1, expect.stringContaining(`rights           ${lacking}`)])
    await eaas.start()
    await expect.poll(() => eaas.stdout + eaas.stderr, { timeout: 30_000 }).toContain(lacking)
    await eaas.stop()
    const accept = () => runCommand(['accept', 'rollback', '--tenant', 'lacking', '--reason', 'a drill'], { database })
    expect(await accept()).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /there is an alarm about tenant lacking \(.*went back.*\), but it could not be written/,
      ),
    })
    expect((await migrate('--role', role)).code).toBe(0)
    expect(await accept()).toMatchObject({ code: 0, stdout: expect.stringContaining('Accepted') })
  })

  it('is told by /health which tables calls cannot write any more, whichever right on them it lacks', async () => {
    expect((await migrate('--role', role)).code).toBe(0)
    const server = await startServer({ database })
    const closed = async () => {
      const { detail } = await (await fetch(`${server.url}/health`)).json()
      return /^this role may not write these tables: (.*)$/.exec(detail)?.[1]
    }
    expect(await closed()).toBeUndefined()
    for (const [right, tables] of [
      ['insert', ['audit_log', 'audit_counts', 'keys', 'key_versions', 'api_keys', 'budget_uses']],
      ['update', ['heads', 'tenants', 'audit_counts', 'keys', 'key_versions', 'api_keys', 'budget_uses']],
    ] as const) {
      for (const table of tables) {
        await sql.unsafe(`revoke ${right} on ${table} from ${quoted(role)}`)
        expect([right, await closed()]).toEqual([right, table])
        await sql.unsafe(`grant ${right} on ${table} to ${quoted(role)}`)
      }
    }
    await sql.unsafe(`revoke insert, update on keys from ${quoted(role)}`)
    expect(await closed()).toBe('keys')
    await server.stop()
  })

  it('does not complete the deletion of a tenant while a policy hides an API key from it', async () => {
    expect((await migrate('--role', role)).code).toBe(0)
    const { tenant_id } = await createTenantByCli({ database }, 'hiding')
    const tenant = (...args: string[]) => runCommand(['tenant', ...args], { database })
    expect((await tenant('suspend', 'hiding')).code).toBe(0)
    await sql.unsafe(`alter table api_keys enable row level security;
      create policy hide on api_keys to ${quoted(role)} using (tenant_id <> '${tenant_id}')`)
    expect(await tenant('delete', 'hiding', '--confirm', 'hiding')).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/row-level security policy for table "api_keys" .*turn row level security off/),
    })
    await sql.unsafe('drop policy hide on api_keys; alter table api_keys disable row level security')
    const [row] = await sql`
      select status, (select revoked_at from api_keys where tenant_id = ${tenant_id}) from tenants where tenant_id = ${tenant_id}`
    expect(row).toEqual({ status: 'suspended', revoked_at: null })
    expect((await tenant('delete', 'hiding', '--confirm', 'hiding')).code).toBe(0)
    expect((await runCommand(['audit', 'verify', '--tenant', 'hiding'], { database })).code).toBe(0)
  })

  it('gets the same rights each time, on every table, and loses what was granted beyond them', async () => {
    await migrate('--role', role)
    const once = await grantsNow()
    expect(once.map(({ relname }) => relname)).toEqual([...GRANTED_TABLES].sort())
    expect(once.filter(({ relacl }) => !relacl?.includes(role.slice(0, 12)))).toEqual([])
    await sql.unsafe(`grant all on all tables in schema public to ${quoted(role)}`)
    expect(await migrate('--role', role)).toMatchObject({ code: 0, stderr: '' })
    expect(await grantsNow()).toEqual(once)
  })

  it('has to be there, and to be neither a superuser nor the owner', async () => {
    expect(await migrate('--role', 'public')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('There is no role "public"'),
    })
    const [me] = await sql<{ name: string }[]>`select current_user::text as name`
    expect(await migrate('--role', me?.name ?? '')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('is a superuser'),
    })
    await sql.unsafe(`alter table heads owner to ${quoted(role)}`)
    expect(await migrate('--role', role)).toMatchObject({ code: 1, stderr: expect.stringContaining('owns the tables') })
    await sql.unsafe('alter table heads owner to current_user')
  })

  it('is told of when it may still create tables', async () => {
    await sql.unsafe(`grant create on schema public to ${quoted(role)}`)
    expect((await migrate('--role', role)).stdout).toContain('It may still create tables')
    await sql.unsafe(`revoke create on schema public from ${quoted(role)}`)
    expect((await migrate('--role', role)).stdout).not.toContain('It may still create tables')
  })
})

describe.skipIf(backend() === 'embedded' || isPooled())('a database that the owner of its tables does not own', () => {
  it('has eaas migrate --role fail with what its owner has to run, and grant nothing', {
    timeout: 60_000,
  }, async () => {
    const database = await freshDatabase('foreign')
    const sql = connectTo(database)
    const [owner, role] = ['Own er', 'serv"er'].map((of) => `${of}_${randomBytes(6).toString('hex')}`)
    if (!owner || !role) throw new Error('no names')
    const [found] = await sql<{ name: string }[]>`select pg_catalog.current_database()::text as name`
    const on = quoted(found?.name ?? '')
    try {
      await sql.unsafe(`create role ${quoted(owner)} login password 'secret'; create role ${quoted(role)} login;
        revoke all on database ${on} from public; grant connect on database ${on} to ${quoted(owner)};
        revoke all on schema public from public; grant usage, create on schema public to ${quoted(owner)}`)
      const migrate = () => runCommand(['migrate', '--role', role], { database: asRole(database, owner) })
      const statements = /repeat the command: (grant connect on database .*; grant usage on schema public to .*?)\.?$/m

      const { code, stdout, stderr } = await migrate()
      expect([code, stdout, stderr]).toEqual([1, '', expect.stringMatching(statements)])
      const [before] = await sql<
        { may: boolean }[]
      >`select pg_catalog.has_table_privilege(${role}, 'heads', 'select') as may`
      expect(before?.may).toBe(false)

      await sql.unsafe(statements.exec(stderr)?.[1] ?? '')
      expect(await migrate()).toMatchObject({ code: 0, stdout: expect.stringContaining('can run a server') })
      await sql.unsafe('alter table audit_counts owner to current_user')
      await sql.unsafe(`grant all on audit_counts to ${quoted(owner)}; revoke all on audit_counts from ${quoted(role)}`)
      expect(await migrate()).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('grant select on audit_counts to'),
      })
    } finally {
      await sql.unsafe(
        `drop owned by ${quoted(role)} cascade; drop owned by ${quoted(owner)} cascade; drop role ${quoted(role)}; drop role ${quoted(owner)}`,
      )
      await sql.end()
    }
  })
})

describe.skipIf(backend() === 'embedded' || isPooled())('tables in another schema than public', () => {
  it('have eaas migrate --role say how the search path of the role is to lead there', {
    timeout: 60_000,
  }, async () => {
    const database = await freshDatabase('elsewhere')
    if (database.backend !== 'postgres') throw new Error('not PostgreSQL')
    const sql = connectTo(database)
    const role = `Serv"er_${randomBytes(6).toString('hex')}`
    const in_schema = (name: string): TestDatabase => {
      const url = new URL(database.directUrl)
      url.searchParams.set('options', `-c search_path=${name}`)
      return { ...database, url: url.href, directUrl: url.href }
    }
    try {
      await sql.unsafe(`create role ${quoted(role)} login password 'secret'; create schema apart`)
      const migrate = async (name: string) =>
        (await runCommand(['migrate', '--role', role], { database: in_schema(name) })).stdout
      const doctor = async () => (await runCommand(['doctor'], { database: asRole(database, role) })).stdout
      const first = await migrate('apart')
      expect(first).not.toContain('can run a server')
      const [, statement = ''] = /does not lead to the schema apart, .* run: (alter role .*)$/m.exec(first) ?? []
      expect(await doctor()).toMatch(/schema +.*\bapart\b/)
      await sql.unsafe(statement)
      expect(await migrate('apart')).toContain('can run a server')
      expect(await doctor()).toMatch(/schema +version \d\d/)
      expect(await migrate('public')).toContain('does not lead to the schema public')
      await sql.unsafe(
        `alter role ${quoted(role)} reset all; alter role ${quoted(role)} set search_path = "$user", public`,
      )
      await sql.unsafe(statement.replace('set search_path = apart', 'reset all'))
      expect(await migrate('public')).toContain('can run a server')
    } finally {
      await sql.unsafe(`drop owned by ${quoted(role)} cascade; drop role ${quoted(role)}`)
      await sql.end()
    }
  })
})

describe.skipIf(backend() !== 'embedded')('eaas migrate --role on the embedded database', () => {
  it('says that there are no roles', async () => {
    const database = await freshDatabase('role')
    expect(await runCommand(['migrate', '--role', 'eaas'], { database, rootKey: null })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('--role needs EAAS_DATABASE_URL'),
    })
  })
})

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
