// The destruction of one version of a key: whole or not at all, whenever the server ends, and noticed if somebody undoes it.
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { destroyVersion } from '../../packages/server/src/core/api/key-destruction.js'
import type { Operation } from '../../packages/server/src/core/runner/operation.js'
import { performAsSystem } from '../../packages/server/src/core/runner/perform.js'
import type { Transaction } from '../../packages/server/src/core/store/db.js'
import { verifyInPlace } from '../audit/tamper/verify-in-place.js'
import { checkTenant } from '../independent/checker.js'
import { openAuditKey } from '../independent/stored.js'
import { serverOf } from '../support/audit/audit-scene.js'
import { freshDatabase } from '../support/database/database.js'
import { insertFrom } from '../support/database/migrations.js'
import { connectTo, createTenantInProcess, ROOT_KEY, startEaas } from '../support/service/eaas-process.js'
import { callsOf } from '../support/service/load.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

const dek = () => randomBytes(32).toString('base64')

let service: Service
let owner: Caller
beforeAll(async () => {
  service = await startService({ environment: { EAAS_DESTROY_WINDOW_DAYS: '0' } })
})
afterAll(() => service?.close())

interface ClosedKey {
  key_id: string
  name: string
  /** under version 1 */
  wrapped_key: string
}

/** A key of three versions whose first two are closed. */
async function closedKey(): Promise<ClosedKey> {
  owner = await service.createTenant()
  const name = randomBytes(6).toString('hex')
  const { key_id } = (await owner.call('POST', '/v1/keys', { name })).body
  const { wrapped_key } = (await owner.call('POST', `/v1/keys/${key_id}/wrap`, { dek: dek() })).body
  for (let at = 0; at < 2; at++) await owner.call('POST', `/v1/keys/${key_id}/rotate`)
  expect((await owner.call('PATCH', `/v1/keys/${key_id}`, { min_unwrap_version: 3 })).status).toBe(200)
  return { key_id, name, wrapped_key }
}

const destroy = ({ key_id, name }: ClosedKey, version = 1) =>
  owner.call('POST', `/v1/keys/${key_id}/versions/${version}/destroy`, { confirm: name })

/** Whether each version has its KEK. */
async function keks(key_id: string): Promise<boolean[]> {
  const rows = await service.services.sql<{ there: boolean }[]>`
    select wrapped_kek is not null as there from key_versions where key_id = ${key_id} order by version`
  return rows.map(({ there }) => there)
}

const entries = async () => (await owner.call('GET', '/v1/audit?limit=1')).body.total

/** A server that has nothing cached. */
async function askAnew(method: string, path: string, body?: unknown): Promise<[number, string]> {
  const answer = await serverOf(service).call(owner.secret, method, path, body)
  return [answer.status, answer.body.code]
}

/** What verification says, by the server and by one that shares no code with it. */
async function verdicts() {
  const both = await verifyInPlace(service, owner.tenant.tenant_id)
  return both.map(({ valid, reason, broken_at }) => ({ valid, reason, broken_at }))
}

describe('a destruction of a version that ends after each of its statements', () => {
  it('is done whole or not at all', async () => {
    const key = await closedKey()
    const before = await entries()
    for (let last = 0; ; last++) {
      let count = 0
      const guard = (sql: Transaction): Transaction =>
        new Proxy(sql, {
          apply(target, self, args) {
            if (Array.isArray(args[0]) && 'raw' in args[0] && ++count > last) throw new Error('killed')
            return Reflect.apply(target as never, self, args)
          },
        })
      const killed: Operation<unknown> = async (context) => {
        const decision = await destroyVersion({ key_id: key.key_id, version: '1', confirm: key.name })(context)
        const { change } = decision
        return {
          ...decision,
          change: async (sql, at) => {
            const written = await change?.(guard(sql), at)
            if (++count > last) throw new Error('killed') // before the entry and the commit
            return written ?? {}
          },
        }
      }
      const isDone = await performAsSystem(service.services, owner.tenant.tenant_id, killed).then(
        () => true,
        () => false,
      )
      expect([isDone, await keks(key.key_id), await entries()]).toEqual(
        isDone ? [true, [false, true, true], before + 1] : [false, [true, true, true], before],
      )
      const path = `/v1/keys/${key.key_id}/unwrap`
      const code = isDone ? 'E_VERSION_DESTROYED' : 'E_VERSION_TOO_OLD'
      expect(await askAnew('POST', path, { wrapped_key: key.wrapped_key })).toEqual([409, code])
      expect(await verdicts()).toMatchObject([{ valid: true }, { valid: true }])
      if (!isDone) continue
      expect(last).toBeGreaterThanOrEqual(3)
      return
    }
  })
})

describe('a server that is killed while it destroys versions', () => {
  it('destroyed each version that it acknowledged, and no half of another', { timeout: 120_000 }, async () => {
    const database = await freshDatabase('killed', { migrated: true })
    const environment = { EAAS_DESTROY_WINDOW_DAYS: '0' }
    const { api_key, tenant_id } = await createTenantInProcess({ database }, 'acme')
    const acknowledged = new Set<string>()
    const made: { id: string; name: string }[] = []
    for (let round = 0; round < 2; round++) {
      const server = await startEaas({ database, environment })
      const call = callsOf(api_key.secret)
      const work = async (worker: number) => {
        for (let at = 0; ; at++) {
          const name = `${round} ${worker} ${at}`
          const { id } = (await call(server.url, 'POST', '/v1/keys', { name })).body as { id: string }
          made.push({ id, name })
          await call(server.url, 'POST', `/v1/keys/${id}/rotate`)
          await call(server.url, 'PATCH', `/v1/keys/${id}`, { min_unwrap_version: 2 })
          const { status } = await call(server.url, 'POST', `/v1/keys/${id}/versions/1/destroy`, { confirm: name })
          expect(status).toBe(200)
          acknowledged.add(id)
        }
      }
      const workers = [0, 1, 2, 3].map((worker) => work(worker).catch((error: Error) => error))
      const enough = acknowledged.size + 10
      await expect.poll(() => acknowledged.size, { timeout: 30_000 }).toBeGreaterThan(enough)
      await server.kill9()
      await Promise.all(workers)
    }
    const again = await startService({ database, environment: { EAAS_ROOT_KEY: ROOT_KEY } })
    const sql = connectTo(database)
    const rows = await sql<{ key_id: string; destroyed_through: number; gone: boolean }[]>`
      select k.key_id, k.destroyed_through, v.wrapped_kek is null as gone
      from keys k join key_versions v on v.key_id = k.key_id and v.version = 1`
    for (const { key_id, destroyed_through, gone } of rows) {
      expect([destroyed_through, gone]).toEqual(gone ? [1, true] : [0, false])
      if (acknowledged.has(key_id)) expect(gone).toBe(true)
    }
    const verified = (await again.caller(api_key.secret).call('GET', '/v1/audit/verify')).body
    expect(verified).toMatchObject({ valid: true })
    const auditKey = await openAuditKey(sql, Buffer.from(ROOT_KEY, 'base64'), tenant_id)
    expect((await checkTenant(sql, { tenant_id, auditKey })).faults).toEqual([])
    await sql.end()
    await again.close()
    await database.drop()
  })
})

describe('a destroyed version', () => {
  /** Keeps a copy of the rows; returns what puts them back. */
  async function keep(key_id: string, tables: readonly string[]): Promise<() => Promise<void>> {
    const { sql } = service.services
    const name = (table: string) => `kept_${table}`
    for (const table of tables) {
      await sql.unsafe(`drop table if exists ${name(table)}`)
      await sql.unsafe(`create table ${name(table)} as select * from ${table} where key_id = '${key_id}'`)
    }
    return async () => {
      for (const table of tables) {
        const only = table === 'key_versions' ? ` and version = 1` : ''
        await sql.unsafe(
          `delete from ${table} where key_id = '${key_id}'${only}; ${insertFrom(table, name(table))} where key_id = '${key_id}'${only}`,
        )
      }
    }
  }

  it.each([
    ['its row is', ['key_versions']],
    ['its row and that of its key are', ['keys', 'key_versions']],
  ])('is noticed if %s put back, by a call and by verification', async (_which, tables) => {
    const key = await closedKey()
    const putBack = await keep(key.key_id, tables)
    await destroy(key)
    const { id } = (await owner.call('GET', '/v1/audit?limit=1')).body.logs[0]
    await putBack()
    expect(await askAnew('GET', `/v1/keys/${key.key_id}`)).toEqual([500, 'E_TAMPERED'])
    const fault = { valid: false, reason: 'row_replaced', broken_at: id }
    expect(await verdicts()).toEqual([fault, fault])
  })

  it('is noticed if both rows are put back and a server that has the key cached changes it twice', async () => {
    const key = await closedKey()
    const putBack = await keep(key.key_id, ['keys', 'key_versions'])
    await destroy(key)
    const { id } = (await owner.call('GET', '/v1/audit?limit=1')).body.logs[0]
    await putBack()
    for (const [method, path] of [
      ['POST', 'rotate'],
      ['DELETE', ''],
    ] as const) {
      const { status } = await owner.call(method, `/v1/keys/${key.key_id}/${path}`.replace(/\/$/, ''))
      expect(status).toBeLessThan(300)
    }
    // The row of the key says again what is destroyed, and the row of the version contradicts it.
    expect(await askAnew('GET', `/v1/keys/${key.key_id}`)).toEqual([500, 'E_TAMPERED'])
    const fault = { valid: false, reason: 'row_replaced', broken_at: id }
    expect(await verdicts()).toEqual([fault, fault])
  })

  it('cannot be hidden from its destruction: nothing is destroyed without it', async () => {
    const key = await closedKey()
    const { sql } = service.services
    const putBack = await keep(key.key_id, ['key_versions'])
    await sql`delete from key_versions where key_id = ${key.key_id} and version = 1`
    const before = await entries()
    expect(await destroy(key)).toMatchObject({ status: 500, body: { code: 'E_AUDIT_NOT_WRITTEN' } }) // whole in the cache
    expect(await askAnew('POST', `/v1/keys/${key.key_id}/versions/1/destroy`, { confirm: key.name })).toEqual([
      500,
      'E_TAMPERED',
    ])
    expect([await keks(key.key_id), await entries()]).toEqual([[true, true], before])
    await putBack()
    expect([(await destroy(key)).status, await keks(key.key_id)]).toEqual([200, [false, true, true]])
    expect(await verdicts()).toMatchObject([{ valid: true }, { valid: true }])
  })

  it('does not open at a server that has the key cached from before', async () => {
    const key = await closedKey()
    const { call } = serverOf(service)
    const unwrap = async () => {
      const { status, body } = await call(owner.secret, 'POST', `/v1/keys/${key.key_id}/unwrap`, {
        wrapped_key: key.wrapped_key,
      })
      return [status, body.code]
    }
    expect(await unwrap()).toEqual([409, 'E_VERSION_TOO_OLD'])
    await destroy(key)
    expect(await unwrap()).toEqual([409, 'E_VERSION_DESTROYED'])
  })

  it.each(['0', '-1', '01', '1.0', '1e0', '%31x', ' 1', '4', '999999999', '9999999999', 'x', 'NaN'])(
    'is not named by %j, which is answered 404',
    async (text) => {
      const key = await closedKey()
      const path = `/v1/keys/${key.key_id}/versions/${encodeURIComponent(text)}/destroy`
      const { status, body } = await owner.call('POST', path, { confirm: key.name })
      expect([status, body.code]).toEqual([404, 'E_NOT_FOUND'])
      expect(await keks(key.key_id)).toEqual([true, true, true])
    },
  )

  it('stays destroyed when its key is destroyed and restated', async () => {
    const key = await closedKey()
    await destroy(key)
    await owner.call('DELETE', `/v1/keys/${key.key_id}`)
    await owner.call('POST', `/v1/keys/${key.key_id}/destroy`, { confirm: key.name })
    const { body } = await owner.call('GET', `/v1/keys/${key.key_id}`)
    expect(body.versions.map(({ status }: { status: string }) => status)).toEqual([
      'destroyed',
      'destroyed',
      'destroyed',
    ])
    expect(await verdicts()).toMatchObject([{ valid: true }, { valid: true }])
  })
})
