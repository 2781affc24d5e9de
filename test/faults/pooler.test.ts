// PostgreSQL through pgbouncer in transaction mode, with its default configuration: each transaction may run on a different PostgreSQL session.
import { randomBytes } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readConfig } from '../../packages/server/src/core/config.js'
import { connect } from '../../packages/server/src/core/store/db.js'
import { migrate } from '../../packages/server/src/core/store/migrations.js'
import { openStore, type Store } from '../../packages/server/src/core/store/open-store.js'
import { backend, freshDatabase, isPooled, type TestDatabase } from '../support/database/database.js'
import { withMigration } from '../support/database/migrations.js'
import { runCommand } from '../support/service/command-host.js'
import { connectTo, startEaas } from '../support/service/eaas-process.js'

type OnPostgres = Extract<TestDatabase, { backend: 'postgres' }>

async function onPostgres(options?: { migrated: boolean }): Promise<OnPostgres> {
  const database = await freshDatabase('pooler', options)
  if (database.backend !== 'postgres') throw new Error('not PostgreSQL')
  return database
}

function open(url: string, pooler?: string): Promise<Store> {
  const environment = { EAAS_DATABASE_URL: url, ...(pooler ? { EAAS_DATABASE_POOLER: pooler } : {}) }
  return openStore(readConfig(environment), { beside: true, mayCreate: false })
}

describe.skipIf(backend() === 'embedded')('the connection to PostgreSQL', () => {
  let database: OnPostgres
  beforeAll(async () => {
    database = await onPostgres()
  })

  it('finds out by itself whether there is a pooler in between', async () => {
    const store = await open(database.url)
    expect([store.isPooled, store.description.includes('through a pooler')]).toEqual([isPooled(), isPooled()])
    await store.close()
  })

  it.each([undefined, 'transaction'])(
    'limits the time of each transaction, EAAS_DATABASE_POOLER=%s',
    async (pooler) => {
      const store = await open(database.url, pooler)
      try {
        const limits = await store.sql.begin(
          (transaction) => transaction`
          select current_setting('statement_timeout') as statement, current_setting('lock_timeout') as lock,
                 current_setting('idle_in_transaction_session_timeout') as idle`,
        )
        expect([...limits]).toEqual([{ statement: '5s', lock: '4s', idle: '5s' }])
        const [isolation] = await store.sql.begin(
          'isolation level repeatable read read only',
          (transaction) => transaction`select current_setting('transaction_isolation') as level`,
        )
        expect(isolation).toEqual({ level: 'repeatable read' })
      } finally {
        await store.close()
      }
    },
  )
})

describe.skipIf(!isPooled())('behind pgbouncer', () => {
  let database: OnPostgres
  let store: Store
  beforeAll(async () => {
    database = await onPostgres()
    store = await open(database.url)
  })
  afterAll(() => store.close())

  it('leaves nothing in a session: no limit, no named statement', async () => {
    const { sql } = store
    await Promise.all(
      Array.from({ length: 20 }, (_, n) => sql.begin((transaction) => transaction`select ${n}::integer`)),
    )
    await Promise.all(Array.from({ length: 20 }, (_, n) => sql`select ${n}::integer`))
    const [row] = await sql`
      select current_setting('statement_timeout') as timeout,
             (select count(*)::integer from pg_prepared_statements where name <> '') as statements`
    expect(row).toEqual({ timeout: '0', statements: 0 })
  })

  it('answers every statement, also those sent beside ones without parameters', async () => {
    const { sql } = store
    const asked = Array.from({ length: 3_000 }, (_, at) =>
      at % 3 === 0 ? sql`select 0 as is` : sql`select ${at}::integer as is`,
    )
    const answers = (await Promise.all(asked)).map(([row]) => row?.is)
    expect(answers).toEqual(asked.map((_, at) => (at % 3 === 0 ? 0 : at)))
  })

  it('cannot be told that there is no pooler: pgbouncer refuses the limits of a session', async () => {
    const message = expect.stringContaining('unsupported startup parameter')
    await expect(open(database.url, 'none')).rejects.toMatchObject({ message })
  })

  it('a server that is given a wrong password ends at once', async () => {
    const url = new URL(database.url)
    url.password = 'wrong'
    const environment = { EAAS_START_WAIT_SECONDS: '60' }
    const { code, stderr } = await runCommand(['start'], { database: { ...database, url: url.href }, environment })
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/authentication failed.*: check the user and the password/),
    ])
  })

  it('a migration whose index takes longer than the role may run a statement says what to do', async () => {
    const database = await onPostgres({ migrated: true })
    const [admin, sql] = [connectTo(database), connect({ url: database.url, max: 3, isPooled: true })]
    const migrations = withMigration('create index if not exists later on audit_log (actor);')
    await admin`do $$ begin execute format('alter database %I set statement_timeout = 500', current_database()); end $$`
    await admin.begin('isolation level repeatable read', async (reader) => {
      await reader`select from audit_log` // the index waits for this snapshot
      await expect(migrate(sql, migrations)).rejects.toThrow(
        /^Behind a pooler .* Run "eaas migrate" with a URL that reaches PostgreSQL directly$/,
      )
    })
    await Promise.all([admin.end(), sql.end(), rm(migrations, { recursive: true })])
  })

  it('a server starts, and doctor says which limits the role should set', async () => {
    const role = `eaas_${randomBytes(6).toString('hex')}`
    const admin = connectTo(database)
    await admin.unsafe(`create role ${role} login superuser password '${role}'`)
    const url = new URL(database.url)
    url.username = role
    url.password = role
    const served = { ...database, url: url.href }
    const eaas = await startEaas({ database: served })
    expect((await eaas.stop()).stdout).toContain('through a pooler')

    const before = await runCommand(['doctor'], { database: served })
    expect([before.code, before.stdout]).toEqual([0, expect.stringMatching(/WARN {3}pooler .*alter role/)])
    await admin.unsafe(
      `alter role ${role} set statement_timeout = '5s'; alter role ${role} set lock_timeout = '4s';
       alter role ${role} set idle_in_transaction_session_timeout = '5s'`,
    )
    await admin`select pg_terminate_backend(pid) from pg_stat_activity where usename = ${role}` // or the pool keeps them
    const after = await runCommand(['doctor'], { database: served })
    expect([after.code, after.stdout]).toEqual([0, expect.stringMatching(/ok {5}pooler /)])
    await admin.end()
  })
})
