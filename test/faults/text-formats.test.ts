// Settings of the database, the role or the cluster in which rows are read or written in another form: no false alarm comes of them.

import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findWrongFormats, WrongFormatError } from '../../packages/server/src/core/store/text-formats.js'
import { watchesOf } from '../../packages/server/src/guard/watch/head-watch.js'
import { backend, freshDatabase, isPooled, type TestDatabase } from '../support/database/database.js'
import { runCommand } from '../support/service/command-host.js'
import { asOwner } from '../support/service/eaas-process.js'
import { type Caller, ROOT_KEY, type Service, startService } from '../support/service/service.js'

/** What somebody with SQL sets, and what the setting is then. */
const SETTINGS: [name: string, value: string][] = [
  ['DateStyle', 'SQL, DMY'],
  ['DateStyle', 'German, DMY'],
  ['TimeZone', 'FOO0BAR-01:02:03,J2,J365'],
  ['bytea_output', 'escape'],
  ['array_nulls', 'off'],
  ['standard_conforming_strings', 'off'],
  ['extra_float_digits', '-15'],
  ['quote_all_identifiers', 'on'],
  ['default_transaction_isolation', 'serializable'],
]
/** What pgbouncer sets on each back end. */
const KEPT_BY_POOLERS = ['DateStyle', 'TimeZone', 'standard_conforming_strings']

const nameOf = (database: TestDatabase) =>
  database.backend === 'postgres' ? new URL(database.directUrl).pathname.slice(1) : 'postgres'

const set = (database: TestDatabase, name: string, value: string) =>
  asOwner(database, (sql) =>
    sql.unsafe(`alter database ${nameOf(database)} set ${name} = ${name === 'DateStyle' ? value : `'${value}'`}`),
  )
const reset = (database: TestDatabase) =>
  asOwner(database, (sql) => sql.unsafe(`alter database ${nameOf(database)} reset all`))
/** Ends the other sessions, so that a pooler has to begin new ones. */
const endSessions = (database: TestDatabase) =>
  asOwner(
    database,
    (sql) => sql`
      select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`,
  )

describe('a database that is set to another form of text', () => {
  let database: TestDatabase
  let owner: Caller
  let key_id: string
  let running: Service | undefined

  beforeAll(async () => {
    running = await startService()
    database = running.database
    owner = await running.createTenant()
    key_id = (await owner.call('POST', '/v1/keys', { name: 'k' })).body.id
    if (backend() === 'postgres') await close()
  })
  afterAll(() => close())

  async function close(): Promise<void> {
    await running?.close()
    running = undefined
  }

  const isKept = (name: string) => !isPooled() || KEPT_BY_POOLERS.includes(name)

  /** Starts a server after somebody set something; the embedded database takes statements from beside a server only. */
  async function startAfter(name: string, value: string): Promise<Service> {
    if (database.backend === 'embedded') {
      running ??= await startService({ database })
      await set(database, name, value)
      await close()
    } else {
      await set(database, name, value)
      await endSessions(database)
    }
    running = await startService({ database })
    return running
  }

  it.each(SETTINGS.filter(([name]) => isKept(name)))('is served as before: %s = %s', async (name, value) => {
    const service = await startAfter(name, value)
    try {
      const caller = service.caller(owner.secret)
      const wrapped = await caller.call('POST', `/v1/keys/${key_id}/wrap`, { dek: randomBytes(32).toString('base64') })
      expect([wrapped.status, service.alarms]).toEqual([200, []])
      expect((await caller.call('GET', '/v1/audit/verify')).body).toMatchObject({ valid: true })
      expect(await service.services.sql`select current_setting(${name}) as value`).not.toEqual([{ value }])
    } finally {
      await reset(database)
      if (database.backend === 'postgres') await close() // the next one is set beside the embedded one
    }
  })

  it.each(SETTINGS.filter(([name]) => !isKept(name)))(
    'is refused before anything is judged, with the statement that resets it: %s = %s',
    async (name, value) => {
      await set(database, name, value)
      await endSessions(database)
      try {
        const quoted = `"?${nameOf(database)}"?` // one of them is to quote every name
        const says = new RegExp(
          `${name} is ${value}\\. Nothing was judged by such rows\\. Reset it: alter database ${quoted} reset ${name}\\.`,
        )
        await expect(startService({ database })).rejects.toThrow(says)
        for (const command of [['doctor'], ['start']]) {
          const { code, stdout, stderr } = await runCommand(command, { database, rootKey: ROOT_KEY })
          expect([code, stdout + stderr]).toEqual([1, expect.stringMatching(says)])
        }
      } finally {
        await reset(database)
        await endSessions(database)
      }
      const service = await startService({ database })
      expect(service.alarms).toEqual([])
      await service.close()
    },
  )
})

describe.skipIf(!isPooled())('a server behind a pooler whose new sessions are set to another form of text', () => {
  it('fails calls without an alarm, and serves again after the reset', async () => {
    const service = await startService()
    const { database } = service
    const owner = await service.createTenant()
    const { id } = (await owner.call('POST', '/v1/keys', { name: 'k' })).body
    const wrap = () => owner.call('POST', `/v1/keys/${id}/wrap`, { dek: randomBytes(32).toString('base64') })
    try {
      await set(database, 'bytea_output', 'escape')
      await endSessions(database)
      watchesOf(service.services.committer).get(owner.tenant.tenant_id).forget() // so that the next append reads the head
      const { status } = await wrap()
      expect([status >= 500, service.alarms]).toEqual([true, []])
      await reset(database)
      await endSessions(database)
      await expect.poll(async () => (await wrap()).status, { timeout: 30_000 }).toBe(200)
      expect(service.alarms).toEqual([])
    } finally {
      await service.close()
    }
  })
})

describe('a new database', () => {
  it.skipIf(backend() === 'embedded' || isPooled())('is migrated and served whatever it is set to', async () => {
    const database = await freshDatabase('formats')
    for (const [name, value] of SETTINGS) await set(database, name, value)
    const service = await startService({ database })
    const owner = await service.createTenant()
    await service.close()
    const { code, stdout } = await runCommand(['doctor'], { database, rootKey: ROOT_KEY })
    expect([code, stdout]).toEqual([0, expect.stringContaining('No check failed')])
    const later = await startService({ database })
    expect((await later.caller(owner.secret).call('GET', '/v1/audit/verify')).body).toMatchObject({ valid: true })
    await later.close()
  })
})

describe('a session that is set to another form of text', () => {
  let service: Service
  let owner: Caller
  beforeAll(async () => {
    service = await startService({ now: () => Date.parse('2026-06-01T09:00:00.000Z') }) // when that zone has its seconds
    owner = await service.createTenant()
  })
  afterAll(() => service?.close())

  it.each(SETTINGS)('is named before a head is judged in it, and raises no alarm: %s = %s', async (name, value) => {
    const { sql, committer, states } = service.services
    const { tenant_id } = owner.tenant
    const state = await states.find(tenant_id)
    if (!state) throw new Error('no state')
    const judged = sql.begin(async (transaction) => {
      await transaction.unsafe(`set local ${name} = ${name === 'DateStyle' ? value : `'${value}'`}`)
      const [wrong] = await findWrongFormats(transaction)
      const watch = watchesOf(committer).get(tenant_id)
      const isWrong = await watch.read(transaction, state.auditKey).then(
        () => false,
        (error: unknown) => error instanceof WrongFormatError,
      )
      throw [wrong?.name, wrong?.value, wrong?.remedy, isWrong, watch.alarm] // rolls back
    })
    // Only what a head consists of is read otherwise.
    const isRead = ['DateStyle', 'TimeZone', 'bytea_output'].includes(name)
    const remedy = expect.stringContaining('restart what holds the session')
    expect(await judged.catch((found: unknown) => found)).toEqual([name, value, remedy, isRead, undefined])
    expect(service.alarms).toEqual([])
  })
})
