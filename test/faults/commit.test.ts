// Everything reported as committed is committed: the driver sends COMMIT in a form that the database always understands, and
// checks the tag of the answer.
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { connect, isRolledBack, type Sql } from '../../packages/server/src/core/store/db.js'
import { backend, freshDatabase, isPooled, type TestDatabase } from '../support/database/database.js'
import { createTenantByCli } from '../support/service/command-host.js'
import { runEaas } from '../support/service/eaas-process.js'
import { type Service, startService } from '../support/service/service.js'
import { type CommitProxy, startCommitProxy } from './commit-proxy.js'

/** The pool of a server, so that a statement can be run on each of its connections. */
const CONNECTIONS = backend() === 'embedded' ? 1 : 10

async function inEachConnection(sql: Sql, work: (transaction: Sql) => Promise<unknown>): Promise<void> {
  let entered = 0
  let open: () => void = () => undefined
  const all = new Promise<void>((resolve) => {
    open = resolve
  })
  await Promise.all(
    Array.from({ length: CONNECTIONS }, () =>
      sql.begin(async (transaction) => {
        await transaction`select 1`
        entered += 1
        if (entered === CONNECTIONS) open()
        await all
        await work(transaction as unknown as Sql)
      }),
    ),
  )
}

describe('a transaction on a connection that lost its prepared statements', () => {
  let service: Service
  beforeAll(async () => {
    service = await startService()
  })
  afterAll(() => service.close())

  it('is committed when it is reported as committed', async () => {
    const { sql } = service.services
    await sql`create table ledger (n integer primary key)`
    await inEachConnection(sql, async () => undefined) // each connection has sent a COMMIT
    let n = 0
    await inEachConnection(sql, async (transaction) => {
      n += 1
      await transaction`insert into ledger values (${n})`
      await transaction.unsafe('deallocate all')
    })
    expect(await sql`select count(*)::integer as n from ledger`).toEqual([{ n: CONNECTIONS }])
  })
})

describe('a COMMIT that the database answers with ROLLBACK', () => {
  let database: TestDatabase
  let proxy: CommitProxy
  beforeAll(async () => {
    database = await freshDatabase('commit')
  })
  afterAll(() => proxy?.close())

  it('is an error of the transaction, which is known to be rolled back', async () => {
    const service = await startService({ database })
    const target =
      database.backend === 'postgres'
        ? { port: Number(new URL(database.url).port), host: '127.0.0.1' }
        : { path: `${database.dataDir}/.s.PGSQL.5432` }
    proxy = await startCommitProxy(target)
    const url = new URL(database.backend === 'postgres' ? database.url : 'postgres://postgres@127.0.0.1/postgres')
    url.port = String(proxy.port)
    const sql = connect({ url: url.href, max: 1, isPooled: isPooled() })
    try {
      await sql`create table ledger (n integer primary key)`
      proxy.rollsBack = true
      const failure: unknown = await sql
        .begin((transaction) => transaction`insert into ledger values (1)`)
        .catch((error) => error)
      expect(failure).toMatchObject({ code: 'COMMIT_ROLLED_BACK', message: expect.stringContaining('ROLLBACK') })
      expect(isRolledBack(failure)).toBe(true)
      expect([...(await sql`select n from ledger`)]).toEqual([])

      proxy.rollsBack = false
      await sql.begin((transaction) => transaction`insert into ledger values (2)`)
      expect([...(await sql`select n from ledger`)]).toEqual([{ n: 2 }])
    } finally {
      await sql.end({ timeout: 1 })
      await service.close()
    }
  })

  it.skipIf(backend() === 'embedded')('is a call that was not carried out, and releases nothing', async () => {
    if (database.backend !== 'postgres') throw new Error('not PostgreSQL')
    const url = new URL(database.url)
    url.port = String(proxy.port)
    const service = await startService({ database: { ...database, url: url.href } })
    try {
      const owner = await service.createTenant()
      const { body: key } = await owner.call('POST', '/v1/keys', { name: 'k' })
      const dek = randomBytes(32).toString('base64')
      const { body: wrapped } = await owner.call('POST', `/v1/keys/${key.id}/wrap`, { dek })
      proxy.rollsBack = true
      const refused = {
        status: 500,
        code: 'E_AUDIT_NOT_WRITTEN',
        detail: 'the audit entry could not be written, so the call was not carried out',
      }
      expect((await owner.call('POST', '/v1/keys', { name: 'lost' })).body).toMatchObject(refused)

      // Another writer of this tenant makes the appends take the head's lock, in a transaction.
      proxy.rollsBack = false
      const other = await startService({ database })
      const otherOwner = other.caller(owner.secret)
      await owner.call('POST', `/v1/keys/${key.id}/wrap`, { dek })
      await otherOwner.call('POST', `/v1/keys/${key.id}/wrap`, { dek })
      proxy.rollsBack = true
      const unwrapped = await owner.call('POST', `/v1/keys/${key.id}/unwrap`, wrapped)
      expect(unwrapped.body).toMatchObject(refused)
      expect(JSON.stringify(unwrapped.body)).not.toContain(dek)

      const { body: list } = await otherOwner.call('GET', '/v1/keys')
      expect(list.keys.map(({ name }: { name: string }) => name)).toEqual(['k'])
      proxy.rollsBack = false
      expect((await owner.call('POST', `/v1/keys/${key.id}/unwrap`, wrapped)).body).toMatchObject({ dek })
      await other.close()
    } finally {
      await service.close()
    }
  })
})

describe.skipIf(backend() === 'embedded')('a COMMIT whose answer is lost', () => {
  const UNKNOWN = /^eaas: It is unknown whether the root key was replaced, and it still may be\. Keep both root keys, /m

  it('has eaas root-key rotate say to keep both root keys, and no other failure does', {
    timeout: 60_000,
  }, async () => {
    const database = await freshDatabase('lost')
    if (database.backend !== 'postgres') throw new Error('not PostgreSQL')
    await createTenantByCli({ database }, 'acme')
    const proxy = await startCommitProxy({ port: Number(new URL(database.url).port), host: '127.0.0.1' })
    const url = new URL(database.url)
    url.port = String(proxy.port)
    const folder = await mkdtemp(join(tmpdir(), 'eaas-commit-'))
    const file = join(folder, 'key')
    await writeFile(file, randomBytes(32).toString('base64'), { mode: 0o600 })
    const rotate = () =>
      runEaas(['root-key', 'rotate', '--to-file', file], { database: { ...database, url: url.href } })
    try {
      proxy.rollsBack = true
      const refused = await rotate()
      expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('ROLLBACK')])
      expect(refused.stderr).not.toMatch(UNKNOWN)

      proxy.rollsBack = false
      proxy.losesAnswerTo = 'installation.root_key_rotate'
      const lost = await rotate()
      expect([lost.code, lost.stdout, lost.stderr]).toEqual([1, '', expect.stringMatching(UNKNOWN)])
      const status = await runEaas(['root-key', 'status'], {
        database,
        rootKey: null,
        environment: { EAAS_ROOT_KEY_FILE: file },
      })
      expect([status.code, status.stdout]).toEqual([0, expect.stringContaining('which opens this database')])

      const again = await rotate()
      expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('does not belong to this database')])
      expect(again.stderr).not.toMatch(UNKNOWN)
    } finally {
      await proxy.close()
      await rm(folder, { recursive: true })
    }
  })
})
