// The tables as the migrations make them: eaas doctor and a running server name what somebody changed, see changed-schema.test.ts.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openStore } from '../../packages/server/src/core/store/open-store.js'
import { createTableComparison } from '../../packages/server/src/guard/jobs/compare-tables.js'
import { compareTables, compareTablesIn, describeSchema } from '../../packages/server/src/guard/store/schema.js'
import { MIGRATIONS_DIRECTORY } from '../../packages/server/src/package-directory.js'
import { backend, freshDatabase } from '../support/database/database.js'
import { databaseWithTenant } from '../support/database/filled-database.js'
import { runCommand, runDoctor } from '../support/service/command-host.js'
import { connectTo } from '../support/service/eaas-process.js'
import { startServer } from '../support/service/server.js'
import { ROOT_KEY, type Service, startService } from '../support/service/service.js'

const SAME = { missing: [], added: [], refusing: [], harmless: [], beside: [], settings: [], digest: '' }

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service?.close())

describe('the schema of a database that was only migrated', () => {
  it('is what migrations/schema.txt says', async () => {
    const lines = await service.services.sql.begin(describeSchema)
    await expect(`${lines.map(({ line }) => line).join('\n')}\n`).toMatchFileSnapshot(
      '../../packages/server/migrations/schema.txt',
    )
  })

  // A test of its own: `-u` writes the snapshot when the file's tests have ended, so with the one above it would read the old one.
  it('has no difference that a server or eaas doctor would name', async () => {
    expect(await compareTables(service.services.sql, MIGRATIONS_DIRECTORY)).toEqual(SAME)
  })
})

describe('a server that compares', () => {
  it('tells a change once, and again when it is undone, and counts another version, of which it compares nothing', async () => {
    const { sql } = service.services
    const compareOnce = createTableComparison(service.services)
    const none = { missing: [], added: [], refusing: [], harmless: [], settings: [], accepted: undefined }
    const same = { ...none, differences: 0, isOtherVersion: false, hasNewHarmless: false }
    expect(await compareOnce()).toEqual({ ...same, isNews: false })
    await sql`create unique index meddle on heads (created_at)`
    expect(await compareOnce()).toMatchObject({
      differences: 1,
      refusing: [expect.stringContaining('meddle')],
      isNews: true,
    })
    expect(await compareOnce()).toMatchObject({ isNews: false })
    await sql`drop index meddle`
    expect(await compareOnce()).toEqual({ ...same, isNews: true })
    await sql`create index meddle on heads (created_at)`
    const harmless = [expect.stringContaining('meddle')]
    expect(await compareOnce()).toEqual({ ...same, harmless, isNews: false, hasNewHarmless: true })
    expect(await compareOnce()).toEqual({ ...same, harmless, isNews: false })
    await sql`drop index meddle`
    expect(await compareOnce()).toMatchObject({ hasNewHarmless: true })
    await sql`drop index keys_listed`
    const dropped = [expect.stringMatching(/^dropped, which only makes calls slow: CREATE INDEX keys_listed /)]
    expect(await compareOnce()).toEqual({ ...same, harmless: dropped, isNews: false, hasNewHarmless: true })
    await sql`create index keys_listed on keys (tenant_id, created_at, key_id)`
    expect(await compareOnce()).toEqual({ ...same, isNews: false, hasNewHarmless: true })
    for (const by of [1, -1]) {
      await sql`update schema_version set version = version + ${by}`
      expect(await compareOnce()).toMatchObject({ differences: 1, isOtherVersion: true })
      await sql`update schema_version set version = version - ${by}`
    }
  })
})

describe('eaas doctor and a server', () => {
  it('name what was changed and what to do, and nothing before', async () => {
    const database = await freshDatabase('schema')
    const server = await startServer({ database, rootKey: ROOT_KEY, environment: { EAAS_LOG_LEVEL: 'warn' } })
    const find = async () => {
      const { code, found } = await runDoctor({ database, rootKey: ROOT_KEY })
      return { code, ...found('tables') }
    }
    const differences = async () =>
      /^eaas_schema_differences (.*)$/m.exec(await (await fetch(`${server.url}/metrics`)).text())?.[1]
    try {
      await expect.poll(differences).toBe('0')
      expect(await find()).toMatchObject({ ok: true })
      const sql = connectTo(database)
      // The one session of the embedded database keeps what it began with.
      if (database.backend === 'postgres') {
        const on = new URL(database.directUrl).pathname.slice(1)
        await sql.unsafe(`alter database ${on} set transform_null_equals = on`)
        expect((await find()).detail).toMatch(
          new RegExp(
            `^somebody changed .*: setting transform_null_equals on \\(Reset it: alter database ${on} reset transform_null_equals\\)\\. Then verify every log [^;]*$`,
          ),
        )
        await sql.unsafe(`alter database ${on} reset transform_null_equals`)
      }
      await sql.unsafe(
        `create function meddle() returns trigger language plpgsql as $$ begin return null; end $$;
         create trigger meddle before update on chain_alarms for each row execute function meddle()`,
      )
      await sql.end()
      const found = await find()
      expect([found.code, found.ok, found.detail]).toEqual([
        1,
        false,
        expect.stringMatching(/not made by eaas: trigger meddle on chain_alarms\. Verify every log .* then undo/),
      ])
      expect(server.log).not.toContain('changed them outside eaas')
      await server.stop()
      await server.start()
      await expect.poll(differences).toBe('1')
      expect(server.log).toContain('changed them outside eaas')
    } finally {
      await server.stop()
    }
  })

  it.each([
    ['of before the first release', '13', /^The database has schema \d+, .* from before the first release/],
    ['that nobody wrote', '0', /^The database has the tables of eaas, but schema_version does not say/],
    ['of a newer server', 'version + 1', /^The database has schema \d+, this server knows \d+ at most/],
  ])('say the same of a schema %s, and change nothing', async (_, version, sentence) => {
    const database = await freshDatabase('schema', { migrated: true })
    const server = await startServer({ database })
    await server.stop()
    if (database.backend === 'postgres') {
      const sql = connectTo(database)
      await sql.unsafe(`update schema_version set version = ${version}`)
      await sql.end()
    } else {
      const { sql, close } = await openStore(
        { databaseUrl: undefined, databasePooler: 'auto', dataDir: database.dataDir },
        { beside: false, mayCreate: false },
      )
      await sql.unsafe(`update schema_version set version = ${version}`)
      await close()
    }
    const { code, found } = await runDoctor({ database })
    const schema = found('schema')
    expect([code, schema]).toEqual([1, { check: 'schema', ok: false, detail: expect.stringMatching(sentence) }])
    await expect(server.start()).rejects.toThrow(schema?.detail)
    const migrated = await runCommand(['migrate'], { database })
    expect([migrated.code, migrated.stderr]).toEqual([1, expect.stringContaining(schema?.detail ?? '')])
  })

  it.skipIf(backend() === 'embedded').each([
    [
      'a view, which they would read',
      'alter table heads rename to meddle; create view heads as select * from meddle where called()',
    ],
    [
      'a function in the place of what PostgreSQL has',
      'create function unnest(text[]) returns setof text language sql as $$ select called(); select pg_catalog.unnest($1) $$',
    ],
    [
      'a type in the place of a function that PostgreSQL has',
      'create domain to_regclass as regclass check (public.called()); create domain current_setting as text check (public.called())',
    ],
    [
      'a trigger, which they would write',
      'create trigger meddle before insert on audit_log execute function called_by_trigger()',
    ],
  ])('run nothing as a superuser that somebody else made: %s', async (_, change) => {
    const { database } = await databaseWithTenant()
    const sql = connectTo(database)
    try {
      await sql.unsafe(`create sequence called;
        create function called() returns boolean language sql as $$ select nextval('public.called') > 0 $$;
        create function called_by_trigger() returns trigger language plpgsql as $$ begin perform called(); return null; end $$;
        ${change}`)
      const { code, findings } = await runDoctor({ database })
      expect([code, findings.at(-1)]).toMatchObject([
        1,
        { check: 'tables', ok: false, detail: expect.stringContaining('Connect as another role') },
      ])
      expect(await sql`select is_called from called`).toEqual([{ is_called: false }])
    } finally {
      await sql.end()
    }
  })

  it.skipIf(backend() === 'embedded')('see as a role that only serves what the owner sees', async () => {
    const { sql } = service.services
    await sql`create role meddle`
    await sql.begin(async (transaction) => {
      await transaction`set local role meddle`
      expect(await compareTablesIn(transaction, MIGRATIONS_DIRECTORY)).toEqual(SAME)
    })
    await sql`drop role meddle`
  })
})
