// A database that the server of schema 14 wrote, from before there were store keys: this version migrates it, and everything in it still opens.
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { openStore } from '../../packages/server/src/store/open-store.js'
import frozen from '../frozen/schema-14.json' with { type: 'json' }
import { backend, freshDatabase, type TestDatabase } from '../support/database/database.js'
import { connectTo } from '../support/service/eaas-process.js'
import { type Service, startService } from '../support/service/service.js'

const DUMP = readFileSync(new URL('../frozen/schema-14.sql', import.meta.url), 'utf8')

/** A database with the rows of then, and whatever `tamper` does to them. */
async function frozenDatabase(tamper = ''): Promise<TestDatabase> {
  const database = await freshDatabase('frozen')
  const statements = `${DUMP}\n;set search_path = public;${tamper}`
  if (database.backend === 'postgres') {
    const sql = connectTo(database)
    await sql.unsafe(statements)
    await sql.end()
    return database
  }
  const { sql, close } = await openStore(
    { databaseUrl: undefined, databasePooler: 'auto', dataDir: database.dataDir },
    { beside: false, mayCreate: true },
  )
  await sql.unsafe(statements)
  await close()
  return database
}

const start = (database: TestDatabase, environment: Record<string, string> = {}) =>
  startService({ database, environment: { EAAS_ROOT_KEY: frozen.root_key, ...environment } })

async function expectAllThere(service: Service): Promise<void> {
  for (const tenant of frozen.tenants) {
    const { call } = service.caller(tenant.api_key)
    for (const { wrapped_key } of tenant.wrapped) {
      const { body } = await call('POST', `/v1/keys/${tenant.key_id}/unwrap`, { wrapped_key })
      expect(body.dek).toBe(tenant.dek)
    }
    const { body: hash } = await call('POST', '/v1/hash', { key_id: tenant.key_id, value: 'jane@example.com' })
    expect(hash.hash).toBe(tenant.hash.hash)
    expect((await call('GET', `/v1/keys/${tenant.disabled}`)).body.status).toBe('disabled')
    expect((await call('GET', `/v1/keys/${tenant.destroyed}`)).body.status).toBe('destroyed')
    expect((await call('GET', '/v1/audit/verify')).body).toMatchObject({ valid: true })
    const { status } = await call('POST', `/v1/keys/${tenant.key_id}/rotate`)
    expect(status).toBe(200)
  }
}

describe('a database of schema 14', () => {
  it('opens whole, with everything sealed under the first store key', async () => {
    const database = await frozenDatabase()
    const service = await start(database)
    await expectAllThere(service)
    const { sql } = service.services
    for (const [table, secret] of [
      ['instance', 'wrapped_pepper'],
      ['tenants', 'wrapped_audit_key'],
      ['keys', 'wrapped_hash_key'],
      ['key_versions', 'wrapped_kek'],
    ] as const) {
      const [row] = await sql<{ rows: number; others: number }[]>`
        select count(*)::integer as rows, (count(*) filter (where store_key is distinct from 1))::integer as others
        from ${sql(table)} where ${sql(secret)} is not null`
      expect(row, table).toEqual({ rows: expect.any(Number), others: 0 })
      expect(row?.rows, table).toBeGreaterThan(0)
    }
    await service.close()
    const again = await start(database)
    await expectAllThere(again)
    await again.close()
  })

  it('is left as it is by a server with another root key', async () => {
    const database = await frozenDatabase()
    const other = Buffer.alloc(32, 'b').toString('base64')
    await expect(start(database, { EAAS_ROOT_KEY: other })).rejects.toThrow('does not belong to this database')
    const service = await start(database)
    await expectAllThere(service)
    await service.close()
  })

  it.skipIf(backend() === 'embedded')('is migrated once by two servers that start together', async () => {
    const database = await frozenDatabase()
    const services = await Promise.all([start(database), start(database)])
    for (const service of services) await expectAllThere(service)
    const [row] = await (services[0] as Service).services.sql`select count(*)::integer as count from store_keys`
    expect(row).toEqual({ count: 1 })
    for (const service of services) await service.close()
  })

  it.each([
    [
      'a key that was enabled',
      { valid: false, reason: 'row_forged' },
      `update keys set status = 'active' where name = 'disabled'`,
    ],
    [
      'a secret that was exchanged',
      { valid: false, reason: 'row_forged' },
      `update key_versions set wrapped_kek = (select wrapped_hash_key from keys where name = 'users' limit 1) where status = 'active'`,
    ],
    ['a quota that was lifted', { code: 'E_TAMPERED' }, `update tenants set monthly_encrypt_quota = 7`],
  ])('does not come out authentic where it was tampered with: %s', async (_, answer, tamper) => {
    const service = await start(await frozenDatabase(tamper))
    const [tenant] = frozen.tenants
    const { call } = service.caller(tenant?.api_key ?? '')
    expect((await call('GET', '/v1/audit/verify')).body).toMatchObject(answer)
    await service.close()
  })
})
