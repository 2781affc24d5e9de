// A database of several hosts: the server finds the one that accepts writes, and after a failover finds the new one.
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, connect as connectSocket, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { connect } from '../../packages/server/src/core/store/db.js'
import { backend, freshDatabase, isPooled } from '../support/database/database.js'
import { findPostgres } from '../support/database/find-postgres.js'
import { freePort, type PostgresServer, startPostgres } from '../support/database/postgres.js'
import { startEaas } from '../support/service/eaas-process.js'
import { type Service, startService } from '../support/service/service.js'
import { startStallingProxy } from './stalling-proxy.js'

const TIMEOUT_MS = 120_000

/** Makes the URL of a database with other hosts, each a port of this machine. */
function withHosts(url: string, ports: readonly number[]): string {
  const { username, password, pathname } = new URL(url)
  return `postgres://${username}:${password}@${ports.map((port) => `127.0.0.1:${port}`).join(',')}${pathname}`
}

function binaries() {
  const bin = findPostgres()
  if (!bin) throw new Error('there is no PostgreSQL')
  return bin
}

describe.skipIf(backend() === 'embedded' || isPooled())('a primary with a standby', { timeout: TIMEOUT_MS }, () => {
  let primary: PostgresServer
  let standby: PostgresServer
  let service: Service | undefined
  beforeAll(async () => {
    primary = await startPostgres({ bin: binaries(), runDir: inject('runDir') })
    standby = await startPostgres({ bin: binaries(), standbyOf: primary.url })
  }, TIMEOUT_MS)
  afterAll(async () => {
    await service?.close()
    await Promise.all([primary?.remove(), standby?.remove()])
  })

  it('a standby by itself is refused: what it shows may be old', async () => {
    const sql = connect({ url: standby.url, max: 1 })
    await expect(sql`select 1`).rejects.toMatchObject({ code: 'NOT_PRIMARY' })
    await sql.end()
  })

  it('the primary is found behind a host that is down and a standby, and the standby once it is promoted', async () => {
    const url = withHosts(primary.url, [await freePort(), standby.port, primary.port])
    service = await startService({
      database: { backend: 'postgres', url, directUrl: url, drop: async () => undefined },
    })
    const owner = await service.createTenant()
    const { status, body: key } = await owner.call('POST', '/v1/keys', { name: 'before' })
    expect(status).toBe(201)
    const dek = randomBytes(32).toString('base64')
    const { body: wrapped } = await owner.call('POST', `/v1/keys/${key.id}/wrap`, { dek })
    const direct = connect({ url: primary.url, max: 1 })
    const [at] = await direct<{ lsn: string }[]>`select pg_current_wal_lsn()::text as lsn`
    await direct.end()
    const follower = postgres(standby.url, { max: 1 }) // the server's own connection refuses a standby
    await expect
      .poll(
        async () => (await follower`select pg_last_wal_replay_lsn() >= ${at?.lsn ?? ''}::pg_lsn as there`)[0]?.there,
        { timeout: 30_000 },
      )
      .toBe(true)

    const from = performance.now()
    await primary.kill()
    await follower`select pg_promote()`
    await follower.end()
    const unwrap = () => owner.call('POST', `/v1/keys/${key.id}/unwrap`, wrapped)
    await expect.poll(async () => (await unwrap()).body.dek, { timeout: 60_000 }).toBe(dek)
    console.log(`served again ${Math.round(performance.now() - from)} ms after the primary was killed`)
    expect((await owner.call('POST', '/v1/keys', { name: 'after' })).status).toBe(201)
    expect((await owner.call('GET', '/v1/audit/verify')).body).toMatchObject({ valid: true })
    expect(service.alarms).toEqual([])
  })
})

describe.skipIf(backend() === 'embedded' || isPooled())('a standby that lags', { timeout: TIMEOUT_MS }, () => {
  it('is alarmed about once it is promoted, and what was revoked meanwhile is never served', async () => {
    const primary = await startPostgres({ bin: binaries(), runDir: inject('runDir') })
    const standby = await startPostgres({ bin: binaries(), standbyOf: primary.url })
    const follower = postgres(standby.url, { max: 1 })
    let running: Service | undefined
    try {
      const url = withHosts(primary.url, [primary.port, standby.port])
      running = await startService({
        database: { backend: 'postgres', url, directUrl: url, drop: async () => undefined },
      })
      const owner = await running.createTenant()
      const { body: revoked } = await owner.call('POST', '/v1/api-keys', { name: 'r', permissions: ['keys:read'] })
      const read = async () => (await running?.caller(revoked.secret).call('GET', '/v1/keys'))?.status
      expect(await read()).toBe(200)
      const { tenant_id } = owner.tenant
      const lastId = async () =>
        (await follower`select last_id::int from heads where tenant_id = ${tenant_id}`)[0]?.last_id
      await expect.poll(lastId, { timeout: 30_000 }).toBe(2)
      await follower`alter system set primary_conninfo = ''`
      await follower`select pg_reload_conf()`
      await expect
        .poll(async () => (await follower`select pid from pg_stat_wal_receiver`).length, { timeout: 30_000 })
        .toBe(0)
      expect((await owner.call('DELETE', `/v1/api-keys/${revoked.id}`)).status).toBe(204)

      await primary.kill()
      await follower`select pg_promote()`
      const statuses = new Set<number | undefined>()
      const call = async () => {
        statuses.add(await read())
        return (await owner.call('GET', '/v1/keys')).body.code
      }
      await expect.poll(call, { timeout: 60_000 }).toBe('E_AUDIT_NOT_WRITTEN')
      expect(await lastId()).toBe(2)
      expect(statuses).not.toContain(200)
      expect(running.alarms).toMatchObject([
        { tenant_id, reason: expect.stringContaining('went back from entry 3 to 2') },
      ])
    } finally {
      await running?.close()
      await follower.end()
      await Promise.all([primary.remove(), standby.remove()])
    }
  })
})

describe.skipIf(backend() === 'embedded' || isPooled())('hosts that do not answer', { timeout: TIMEOUT_MS }, () => {
  it('a query is refused once each of them was tried', async () => {
    const { url } = await onPostgres()
    const sql = connect({ url: withHosts(url, [await freePort(), await freePort()]), max: 1 })
    await expect(sql`select 1`).rejects.toMatchObject({ code: 'ECONNREFUSED' })
    await sql.end({ timeout: 1 })
  })

  it('a host that goes silent with statements under way is left for the next one, and one that works on a statement is not', async () => {
    const { url } = await onPostgres()
    const proxy = await startStallingProxy(url)
    const sql = connect({ url: withHosts(url, [Number(new URL(proxy.url).port), Number(new URL(url).port)]), max: 3 })
    const patient = connect({ url, max: 1 })
    try {
      await patient`set statement_timeout = 0`
      const worked = Promise.all([patient`select pg_sleep(12)`, patient`select 1 as n`])
      await Promise.all(Array.from({ length: 3 }, () => sql`select pg_sleep(0.1)`))
      proxy.stall()
      // The third connection is idle, and is given up with them.
      const failed = await Promise.allSettled([sql`select 1 as n`, sql`select 1 as n`])
      expect(failed).toMatchObject(Array(2).fill({ status: 'rejected', reason: { code: 'CONNECTION_CLOSED' } }))
      expect(await sql`select 2 as n`).toMatchObject([{ n: 2 }])
      await expect(worked).resolves.toMatchObject([{}, [{ n: 1 }]])
    } finally {
      await sql.end({ timeout: 1 })
      await patient.end({ timeout: 1 })
      await proxy.close()
    }
  })

  it('a connection that was being made to a silent host is not used once another host was found, though the first wakes', async () => {
    const { url } = await onPostgres()
    const proxy = await startStallingProxy(url)
    const sql = connect({ url: withHosts(url, [Number(new URL(proxy.url).port), Number(new URL(url).port)]), max: 2 })
    try {
      proxy.stall()
      const first = sql`select 1 as n`.execute()
      await sleep(3_000) // the first is at the next host two seconds from now, and the second would be in five
      const second = sql`select 2 as n`.execute()
      expect(await first).toMatchObject([{ n: 1 }])
      proxy.resume()
      expect(await second).toMatchObject([{ n: 2 }])
      await expect.poll(proxy.open).toBe(0)
    } finally {
      await sql.end({ timeout: 1 })
      await proxy.close()
    }
  })

  it('a connection on which the database turned read-only is given up', async () => {
    const { url } = await onPostgres()
    const sql = connect({ url, max: 1 })
    await sql`set default_transaction_read_only = on`
    await expect(sql`create table t (n integer)`).rejects.toMatchObject({ code: '25006' })
    await sql`create table t (n integer)`
    await sql.end()
  })

  it('a server that starts waits for the database, says so without the password, and not for ever', async () => {
    const database = await onPostgres()
    const door = await openDoor(Number(new URL(database.url).port), { turnAway: 2 })
    const late = { ...database, url: withHosts(database.url, [door.port]) }
    const password = new URL(database.url).password
    const environment = { EAAS_START_WAIT_SECONDS: '60', EAAS_LOG_LEVEL: 'info' }
    const eaas = await startEaas({ database: late, environment })
    const { code, stderr } = await eaas.stop()
    expect(code).toBe(0)
    expect(stderr).toContain(`"database":"127.0.0.1:${door.port}/`)
    expect(stderr).toContain('waiting for the database')
    expect(stderr).not.toContain(password)

    await door.close()
    const refused = startEaas({ database: late, environment: { EAAS_START_WAIT_SECONDS: '0' } })
    await expect(refused).rejects.toThrow(/The database at \S+ cannot be reached\. .+EAAS_DATABASE_URL.+ECONNREFUSED/)
  })
})

/** Leads to a port of this machine; the first clients are turned away, as by a database that is not up yet. */
async function openDoor(target: number, { turnAway }: { turnAway: number }) {
  let clients = 0
  const server = createServer((client) => {
    clients += 1
    client.on('error', () => undefined)
    if (clients <= turnAway) return void client.destroy()
    const database = connectSocket(target, '127.0.0.1')
    database.on('error', () => client.destroy())
    client.pipe(database).pipe(client)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const close = () => new Promise<void>((resolve) => server.close(() => resolve()))
  return { port: (server.address() as AddressInfo).port, close }
}

async function onPostgres() {
  const database = await freshDatabase('hosts')
  if (database.backend !== 'postgres') throw new Error('not PostgreSQL')
  return database
}
