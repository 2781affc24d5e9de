// Tenants with more keys and API keys than one page of a list, or one answer, holds.
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createClient } from '../../packages/sdk/src/index.js'
import { apiKeyMac, keyMac, withMac } from '../../packages/server/src/core/audit/formats/row-mac.js'
import { performAsSystem } from '../../packages/server/src/core/runner/perform.js'
import { type ApiKeyRow, listApiKeys } from '../../packages/server/src/core/store/api-keys.js'
import { type KeyRow, listKeys } from '../../packages/server/src/core/store/keys.js'
import { deleteTenant, planDeletion } from '../../packages/server/src/operate/operations/delete-tenant.js'
import { suspendTenant } from '../../packages/server/src/operators/tenants.js'
import { runCommand } from '../support/service/command-host.js'
import { type Caller, ROOT_KEY, type Service, startService } from '../support/service/service.js'

/** More than one answer lists. */
const REVOKED = 10_050
/** More than two pages. */
const KEYS = 450
const INSERTED_AT_ONCE = 1_000

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service?.close())

async function rowKeyOf({ tenant }: Caller) {
  const state = await service.services.states.find(tenant.tenant_id)
  if (!state) throw new Error('no state')
  return state.rowKey
}

async function insert(table: 'keys' | 'api_keys', rows: readonly (KeyRow | ApiKeyRow)[]): Promise<void> {
  const { sql } = service.services
  for (let at = 0; at < rows.length; at += INSERTED_AT_ONCE) {
    const some = rows.slice(at, at + INSERTED_AT_ONCE)
    await sql`insert into ${sql(table)} ${sql(some as never[])}`
  }
}

describe('a list', () => {
  it('has each key once and in one order, also where the keys of several pages were created in one millisecond', async () => {
    const owner = await service.createTenant()
    await owner.call('POST', '/v1/keys', { name: 'first' })
    const rowKey = await rowKeyOf(owner)
    const [first] = await listKeys(service.services.sql, owner.tenant.tenant_id, {})
    if (!first) throw new Error('no key')
    const copies = Array.from({ length: KEYS - 1 }, (_, at) =>
      withMac({ ...first, key_id: randomUUID(), name: `copy ${at}` }, keyMac, rowKey),
    )
    await insert('keys', copies)
    const ids = [first, ...copies].map(({ key_id }) => key_id).sort()
    const listed = async (query: string) => {
      const { status, body } = await owner.call('GET', `/v1/keys${query}`)
      return [status, body.keys.map(({ id }: { id: string }) => id)]
    }
    expect(await listed('')).toEqual([200, ids])
    expect(await listed('?offset=7&limit=300')).toEqual([200, ids.slice(7, 307)])
    expect(await listed('?offset=440&status=active')).toEqual([200, ids.slice(440)])
    expect(await listed(`?name=${encodeURIComponent('copy 3')}`)).toEqual([200, [copies[3]?.key_id]])
  })
})

describe('a row of a list that was tampered with', () => {
  it.each([
    ['one of the first two pages, is answered', 10, 'E_TAMPERED'],
    ['a later page, breaks the answer off', KEYS - 1, undefined],
  ])('in %s', async (_, at, code) => {
    const owner = await service.createTenant()
    await owner.call('POST', '/v1/keys', { name: 'first' })
    const { tenant_id } = owner.tenant
    const rowKey = await rowKeyOf(owner)
    const [first] = await listKeys(service.services.sql, tenant_id, {})
    if (!first) throw new Error('no key')
    const copies = Array.from({ length: KEYS - 1 }, (_, at) =>
      withMac({ ...first, key_id: randomUUID(), name: `copy ${at}` }, keyMac, rowKey),
    )
    await insert('keys', copies)
    const id = [first, ...copies].map(({ key_id }) => key_id).sort()[at] ?? ''
    await service.services.sql`update keys set name = 'altered' where tenant_id = ${tenant_id} and key_id = ${id}`
    const listed = owner.call('GET', '/v1/keys')
    if (code === undefined) await expect(listed).rejects.toMatchObject({ code: 'ECONNRESET' })
    else expect((await listed).body).toMatchObject({ code })
    expect((await owner.call('GET', '/v1/keys?limit=5')).status).toBe(200)
  })
})

describe('a tenant with more revoked API keys than one answer lists', () => {
  it('lists the newest ones by their offset, and is deleted with the one that is not revoked', async () => {
    const owner = await service.createTenant()
    const { tenant_id, name } = owner.tenant
    const { services } = service
    const rowKey = await rowKeyOf(owner)
    const [first] = await listApiKeys(services.sql, tenant_id)
    if (!first) throw new Error('no API key')
    const before = new Date(Date.parse(first.created_at) - 1_000).toISOString()
    const revoked = Array.from({ length: REVOKED }, (_, at) => {
      const changes = { api_key_id: randomUUID(), digest: `${at}`, created_at: before, revoked_at: before }
      return withMac({ ...first, ...changes }, apiKeyMac, rowKey)
    })
    await insert('api_keys', revoked)

    const all = (await owner.call('GET', '/v1/api-keys')).body
    expect([all.count, new Set(all.api_keys.map(({ id }: { id: string }) => id)).size]).toEqual([10_000, 10_000])
    const rest = (await owner.call('GET', '/v1/api-keys?offset=10000')).body.api_keys
    expect(rest).toHaveLength(REVOKED + 1 - 10_000)
    expect(rest.at(-1)).toMatchObject({ id: first.api_key_id, status: 'active' })

    const eaas = createClient({ baseUrl: service.url, apiKey: owner.secret })
    expect((await eaas.apiKeys.list()).api_keys.at(REVOKED)).toMatchObject({ id: first.api_key_id })
    eaas.close()
    const { database } = service
    const list = ['api-key', 'list', '--tenant', name, '--json']
    const { code, stdout } = await runCommand(list, { database, rootKey: ROOT_KEY })
    expect([code, JSON.parse(stdout).api_keys.at(REVOKED)?.id]).toEqual([0, first.api_key_id])

    await performAsSystem(services, tenant_id, suspendTenant({}))
    expect(await planDeletion(services, tenant_id)).toMatchObject({ api_keys: 1 })
    // No entries tell of the rows that were made here, so the log verifies without them only.
    await expect(deleteTenant(services, tenant_id, { confirm: name })).rejects.toThrow('row_replaced')
    await services.sql`delete from api_keys where tenant_id = ${tenant_id} and created_at = ${before}`
    expect(await deleteTenant(services, tenant_id, { confirm: name })).toMatchObject({ status: 'deleted' })
    const [left] = await services.sql<{ rows: number }[]>`
      select count(*)::integer as rows from api_keys where tenant_id = ${tenant_id} and revoked_at is null`
    expect(left).toEqual({ rows: 0 })
  }, 300_000)
})
