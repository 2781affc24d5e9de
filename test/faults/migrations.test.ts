// Migrations have time limits of their own: those of calls would abort them, and a start that waits for another process's migration.
import { rm } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { connect, type Sql } from '../../packages/server/src/core/store/db.js'
import { migrate } from '../../packages/server/src/core/store/migrations.js'
import { MIGRATIONS_DIRECTORY } from '../../packages/server/src/package-directory.js'
import { backend, freshDatabase } from '../support/database/database.js'
import { withMigration } from '../support/database/migrations.js'
import { callsOf } from '../support/service/load.js'
import { startService } from '../support/service/service.js'

/** Calls that are answered while a migration waits for the tables. */
const CALLS = 20

const DEK = Buffer.alloc(32, 1).toString('base64')

/** Statements of calls end after 5 s, and wait for a lock for 4 s. */
const LONGER_S = 6

// The embedded database serves a single process and has no such limits.
describe.skipIf(backend() === 'embedded')('migrations', { timeout: 60_000 }, () => {
  let one: Sql
  let other: Sql

  beforeAll(async () => {
    const database = await freshDatabase('migrations')
    if (database.backend !== 'postgres') throw new Error('this needs PostgreSQL')
    one = connect({ url: database.directUrl, max: 1 })
    other = connect({ url: database.directUrl, max: 1 })
    await migrate(one, MIGRATIONS_DIRECTORY)
  })
  afterAll(async () => {
    await one?.end()
    await other?.end()
  })

  it('wait for another process that is at it', async () => {
    const migrating = one.begin(async (transaction) => {
      await transaction`select version from schema_version where id = 1 for update`
      for (let second = 0; second < LONGER_S; second++) {
        await transaction`select 1`
        await sleep(1_000)
      }
    })
    await sleep(100)
    expect(await migrate(other, MIGRATIONS_DIRECTORY)).toEqual([])
    await migrating
  })

  it('take the time that they need, and leave the limits of calls as they are', async () => {
    const migrations = withMigration(`select pg_sleep(${LONGER_S})`)
    expect(await migrate(one, migrations)).toEqual([900])
    await rm(migrations, { recursive: true })
    expect(
      await one`select current_setting('statement_timeout') as statement, current_setting('lock_timeout') as lock`,
    ).toEqual([{ statement: '5s', lock: '4s' }])
  })

  it.each([
    // It fails, because two entries have one actor, and leaves an index that is not valid.
    ['was interrupted', 'create unique index concurrently later on audit_log (actor)'],
    ['still goes on for a process that was killed', 'create index concurrently later on audit_log (actor)'],
  ])('build an index once beside calls and readers, where a build %s', async (_, build) => {
    const service = await startService()
    const { secret } = await service.createTenant()
    const { database } = service
    if (database.backend !== 'postgres') throw new Error('this needs PostgreSQL')
    const [reader, former] = [postgres(database.directUrl, { max: 1 }), postgres(database.directUrl, { max: 1 })]
    const migrations = withMigration('create index if not exists later on audit_log (actor);')
    const call = callsOf(secret)
    const migrated: number[][] = []
    const migrateIt = async () => void migrated.push(await migrate(service.services.sql, migrations))
    let working: Promise<unknown> | undefined
    try {
      const { body } = await call(service.url, 'POST', '/v1/keys', { name: 'k' })
      const wrap = async () => {
        const { status } = await call(service.url, 'POST', `/v1/keys/${body.id}/wrap`, { dek: DEK })
        expect(status).toBe(200)
      }
      await Promise.all([wrap(), wrap()])
      await reader.begin('isolation level repeatable read', async (transaction) => {
        await transaction`select from audit_log`
        const building = former.unsafe(build).catch(() => undefined)
        await expect.poll(() => service.services.sql`select from pg_class where relname = 'later'`).toHaveLength(1)
        working = Promise.all([migrateIt(), migrateIt(), building])
        working.catch(() => undefined)
        for (let second = 0; second < LONGER_S; second++) {
          for (let times = 0; times < CALLS; times++) await wrap()
          await sleep(1_000)
        }
        expect(migrated).toEqual([])
      })
      await working
      expect(migrated.sort()).toEqual([[], [900]])
      expect(await reader`select indisvalid, indisunique from pg_index where indexrelid = 'later'::regclass`).toEqual([
        { indisvalid: true, indisunique: false },
      ])
    } finally {
      await working?.catch(() => undefined)
      await Promise.all([reader.end(), former.end()])
      await service.close()
      await rm(migrations, { recursive: true })
    }
  })

  it('build every index before they lock a table', async () => {
    const database = await freshDatabase('built_before', { migrated: true })
    if (database.backend !== 'postgres') throw new Error('this needs PostgreSQL')
    const sql = connect({ url: database.directUrl, max: 2 })
    const holder = postgres(database.directUrl, { max: 1 })
    const indexes = ['later on audit_log (actor)', 'latest on audit_counts (entries)']
    const migrations = withMigration(`alter table instance add column later integer;
${indexes.map((index) => `create index if not exists ${index};`).join('\n')}`)
    try {
      await holder.begin(async (transaction) => {
        await transaction`lock table public.instance in access share mode`
        await expect(migrate(sql, migrations, { lockedMs: 0 })).rejects.toThrow(/got no locks on the tables/)
      })
      const built = () => sql`select indisvalid from pg_index where indexrelid::regclass::text in ('later', 'latest')`
      expect(await built()).toEqual([{ indisvalid: true }, { indisvalid: true }])
      expect(await migrate(sql, migrations)).toEqual([900])
      expect(await built()).toHaveLength(2)
    } finally {
      await Promise.all([holder.end(), sql.end()])
      await rm(migrations, { recursive: true })
    }
  })

  it('are tried again after a deadlock with a transaction that has one table and waits for another', async () => {
    const database = await freshDatabase('deadlock')
    if (database.backend !== 'postgres') throw new Error('this needs PostgreSQL')
    const sql = connect({ url: database.directUrl, max: 2 })
    const holder = postgres(database.directUrl, { max: 1 })
    const migrations = withMigration(`
      set local deadlock_timeout = '1ms';
      alter table heads add column later integer; select pg_sleep(1);
      alter table keys add column later integer`)
    try {
      await migrate(sql, MIGRATIONS_DIRECTORY)
      let migrating: Promise<number[]> | undefined
      await holder.begin(async (transaction) => {
        await transaction`set local deadlock_timeout = '1h'`
        await transaction`lock table keys in access share mode`
        migrating = migrate(sql, migrations)
        migrating.catch(() => undefined)
        const held = () => sql`
          select from pg_locks where relation = 'heads'::regclass and mode = 'AccessExclusiveLock' and granted`
        await expect.poll(held, { interval: 20 }).toHaveLength(1)
        await transaction`lock table heads in access share mode`
      })
      expect(await migrating).toEqual([900])
    } finally {
      await Promise.all([holder.end(), sql.end()])
      await rm(migrations, { recursive: true })
    }
  })

  it('let calls go on while somebody reads the tables, and say who', async () => {
    const service = await startService()
    const { secret } = await service.createTenant()
    const { database } = service
    if (database.backend !== 'postgres') throw new Error('this needs PostgreSQL')
    const reader = postgres(database.directUrl, { max: 1, connection: { application_name: 'dump' } })
    const call = callsOf(secret)
    const { body } = await call(service.url, 'POST', '/v1/keys', { name: 'k' })
    const statuses: number[] = []
    const messages: string[] = []
    let isDone = false
    const client = async () => {
      while (!isDone) {
        const { status } = await call(service.url, 'POST', `/v1/keys/${body.id}/wrap`, { dek: DEK })
        statuses.push(status)
        await sleep(10)
      }
    }
    const migrations = withMigration(
      'alter table heads add column later integer; alter table audit_log add column later integer',
    )
    let calling: Promise<void> | undefined
    let migrating: Promise<number[]> | undefined
    try {
      await reader.begin(async (transaction) => {
        await transaction`select from audit_log`
        await expect(migrate(service.services.sql, migrations, { lockedMs: 0 })).rejects.toThrow(
          /^The migration got no locks .* held by process \d+ \(dump, role \w+, in a tr.*\)\. Nothing was/,
        )
        calling = client()
        let answeredBefore = 0
        const onLocked = (message: string) => {
          if (messages.push(message) === 1) answeredBefore = statuses.length
        }
        migrating = migrate(service.services.sql, migrations, { onLocked })
        await expect.poll(() => messages.length).toBeGreaterThan(0)
        await expect.poll(() => statuses.length - answeredBefore).toBeGreaterThan(CALLS)
      })
      expect(await migrating).toEqual([900])
    } finally {
      isDone = true
      await migrating?.catch(() => undefined)
      await calling
      await reader.end()
      await service.close()
      await rm(migrations, { recursive: true })
    }
    expect(statuses.filter((status) => status !== 200)).toEqual([])
    expect(messages[0]).toEqual(expect.stringMatching(/^the migration waits .* held by process \d+ \(dump, role /))
  })
})
