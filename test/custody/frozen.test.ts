// Databases that servers of earlier schemas wrote: this version migrates them, and everything in them still opens. Schema 14 is of before there
// were store keys, and those of 16 cannot be refused. A release adds its own: the rows of pg_dump --inserts, and beside them what opens them.
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { openStore } from '../../packages/server/src/store/open-store.js'
import schema14 from '../frozen/schema-14.json' with { type: 'json' }
import schema16 from '../frozen/schema-16.json' with { type: 'json' }
import schema24 from '../frozen/schema-24.json' with { type: 'json' }
import { backend, freshDatabase, type TestDatabase } from '../support/database/database.js'
import { connectTo } from '../support/service/eaas-process.js'
import { type Service, startService } from '../support/service/service.js'

interface Frozen {
  root_key: string
  tenants: {
    api_key: string
    key_id: string
    dek: string
    wrapped: { wrapped_key: string }[]
    hash: { hash: string }
    disabled: string
    destroyed: string
    /** a key whose first version is closed and destroyed */
    closed?: string
    /** an API key for one key, with a budget, and one that was revoked */
    limited?: string
    revoked?: string
  }[]
}

const FROZEN: [number, Frozen][] = [
  [14, schema14],
  [16, schema16],
  [24, schema24],
]

/** What is said of a tenant's row that was edited: before there were store keys, the migration writes the row again, and so judges it first. */
const QUOTA: Record<number, object> = {
  14: { code: 'E_TAMPERED' },
  16: { valid: false, reason: 'row_forged' },
  24: { valid: false, reason: 'row_forged' },
}

/** A database with the rows of then, and whatever `tamper` does to them. */
async function frozenDatabase(schema: number, tamper = ''): Promise<TestDatabase> {
  const database = await freshDatabase('frozen')
  const dump = readFileSync(new URL(`../frozen/schema-${schema}.sql`, import.meta.url), 'utf8')
  const statements = `${dump}\n;set search_path = public;${tamper}`
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

async function expectAllThere(service: Service, frozen: Frozen): Promise<void> {
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
    if (tenant.revoked) expect((await service.caller(tenant.revoked).call('GET', '/v1/keys')).status).toBe(401)
    if (tenant.limited) {
      const limited = service.caller(tenant.limited)
      const [wrapped] = tenant.wrapped
      expect((await limited.call('POST', `/v1/keys/${tenant.key_id}/unwrap`, wrapped)).body.dek).toBe(tenant.dek)
      const other = await limited.call('POST', `/v1/keys/${tenant.closed}/unwrap`, wrapped)
      expect([403, 404]).toContain(other.status)
      expect((await call('GET', `/v1/keys/${tenant.closed}`)).body).toMatchObject({ min_unwrap_version: 2 })
    }
    const { status } = await call('POST', `/v1/keys/${tenant.key_id}/rotate`)
    expect(status).toBe(200)
  }
}

describe.each(FROZEN)('a database of schema %i', (schema, frozen) => {
  const start = (database: TestDatabase, environment: Record<string, string> = {}) =>
    startService({ database, environment: { EAAS_ROOT_KEY: frozen.root_key, ...environment } })

  it('opens whole, with everything sealed under the first store key', async () => {
    const database = await frozenDatabase(schema)
    const service = await start(database)
    await expectAllThere(service, frozen)
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
    await expectAllThere(again, frozen)
    await again.close()
  })

  it('is left as it is by a server with another root key', async () => {
    const database = await frozenDatabase(schema)
    const other = Buffer.alloc(32, 'b').toString('base64')
    await expect(start(database, { EAAS_ROOT_KEY: other })).rejects.toThrow('does not belong to this database')
    const service = await start(database)
    await expectAllThere(service, frozen)
    await service.close()
  })

  it.skipIf(backend() === 'embedded')('is migrated once by two servers that start together', async () => {
    const database = await frozenDatabase(schema)
    const services = await Promise.all([start(database), start(database)])
    for (const service of services) await expectAllThere(service, frozen)
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
    ['a quota that was lifted', QUOTA[schema] ?? {}, `update tenants set monthly_encrypt_quota = 7`],
  ])('does not come out authentic where it was tampered with: %s', async (_, answer, tamper) => {
    const service = await start(await frozenDatabase(schema, tamper))
    const [tenant] = frozen.tenants
    const { call } = service.caller(tenant?.api_key ?? '')
    expect((await call('GET', '/v1/audit/verify')).body).toMatchObject(answer)
    await service.close()
  })
})
