// POST /v1/batch/keys: many keys in one request, each recorded by itself, and all of them or none.
import { randomBytes, randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { keyMac, withMac } from '../../packages/server/src/core/audit/formats/row-mac.js'
import { listKeys } from '../../packages/server/src/core/store/keys.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

const MANY = 1_000

let service: Service
let owner: Caller
beforeAll(async () => {
  service = await startService()
  owner = await service.createTenant()
})
afterAll(() => service?.close())

interface Result {
  status: number
  body: { id: string; name: string; code?: string }
}

const named = (prefix: string, count: number) => Array.from({ length: count }, (_, at) => ({ name: `${prefix} ${at}` }))
const create = (keys: unknown, caller = owner) => caller.call('POST', '/v1/batch/keys', { keys })
const statuses = ({ body }: { body: { results: Result[] } }) => body.results.map(({ status }) => status)
const codes = ({ body }: { body: { results: Result[] } }) => body.results.map((one) => one.body.code)
const countKeys = async (caller = owner) => (await caller.call('GET', '/v1/keys')).body.count
const countEntries = async (caller = owner) => (await caller.call('GET', '/v1/audit?limit=1')).body.total
const policyVersion = async ({ tenant } = owner) => {
  const [head] = await service.services.sql<{ policy_version: number }[]>`
    select policy_version from heads where tenant_id = ${tenant.tenant_id}`
  return head?.policy_version ?? 0
}

describe(`${MANY} keys in one request`, () => {
  it('are created in their order, each with an entry of its own, and can be used at once', async () => {
    const [before, version] = [await countEntries(), await policyVersion()]
    const answer = await create(named('person', MANY))
    expect(await policyVersion()).toBe(version + MANY) // chain.md 6
    expect([answer.status, new Set(statuses(answer))]).toEqual([200, new Set([201])])
    const made: Result[] = answer.body.results
    expect(made.map(({ body }) => body.name)).toEqual(named('person', MANY).map(({ name }) => name))
    expect(await countEntries()).toBe(before + MANY)
    const path = `/v1/audit?order=asc&limit=100&after_id=${before + MANY - 100}`
    const { logs } = (await owner.call('GET', path)).body
    expect(logs.map((entry: { action: string; key_id: string }) => [entry.action, entry.key_id])).toEqual(
      made.slice(-100).map(({ body }) => ['key.create', body.id]),
    )
    const operations = made.map(({ body }) => ({
      op: 'wrap',
      key_id: body.id,
      dek: randomBytes(32).toString('base64'),
    }))
    expect(new Set(statuses(await owner.call('POST', '/v1/batch', { operations })))).toEqual(new Set([200]))
    expect((await owner.call('GET', '/v1/audit/verify')).body).toMatchObject({ valid: true })
  })

  it('are known to another process too, and rotate there', async () => {
    const [first] = (await create(named('seen elsewhere', 2))).body.results
    service.services.states.forget(owner.tenant.tenant_id) // as a process that has never read them
    expect((await owner.call('POST', `/v1/keys/${first.body.id}/rotate`)).body.current_version).toBe(2)
  })
})

describe('a name', () => {
  it('that is taken fails alone, and so does the second of two in one request', async () => {
    await create([{ name: 'taken' }])
    const before = [await countKeys(), await countEntries()] as const
    const answer = await create([{ name: 'x' }, { name: 'taken' }, { name: 'y' }, { name: 'x' }])
    expect(statuses(answer)).toEqual([201, 409, 201, 409])
    expect(codes(answer)).toEqual([undefined, 'E_NAME_TAKEN', undefined, 'E_NAME_TAKEN'])
    expect([await countKeys(), await countEntries()]).toEqual([before[0] + 2, before[1] + 2])
    expect(statuses(await create([{ name: 'x' }, { name: 'y' }]))).toEqual([409, 409])
    expect(await countEntries()).toBe(before[1] + 2)
  })

  it('may be taken in another tenant, which sees none of these keys', async () => {
    const stranger = await service.createTenant()
    await create([{ name: 'in both' }])
    const answer = await create([{ name: 'in both' }], stranger)
    expect(statuses(answer)).toEqual([201])
    expect(await countKeys(stranger)).toBe(1)
    const [made] = answer.body.results
    expect((await owner.call('GET', `/v1/keys/${made.body.id}`)).status).toBe(404)
  })

  it.each([
    [[{ name: 'good' }, { name: '' }], 'keys.1.name'],
    [[{ name: 'good' }, { name: 'nul \0' }], 'keys.1.name'],
    [[{ name: 'good' }, {}], 'keys.1.name'],
    [[{ name: 'good' }, null], 'keys.1'],
    [[{ name: 'good', algorithm: 'AES-128-GCM' }], 'keys.0.algorithm'],
    [[], 'keys'],
    [undefined, 'keys'],
    [named('too many', MANY + 1), 'keys'],
  ])('that is not valid fails the whole request, naming it: %#', async (keys, field) => {
    const before = [await countKeys(), await countEntries()]
    const { status, body } = await create(keys)
    expect([status, body.code]).toEqual([400, 'E_VALIDATION'])
    expect(body.detail.startsWith(`${field}: `), body.detail).toBe(true)
    expect([await countKeys(), await countEntries()]).toEqual(before)
  })

  it('may be as long as for a single key, also in the largest request', async () => {
    const keys = Array.from({ length: MANY }, (_, at) => ({ name: `${'🗝'.repeat(250)}${at}` }))
    const stranger = await service.createTenant()
    expect(new Set(statuses(await create(keys, stranger)))).toEqual(new Set([201]))
  })
})

describe('the request', () => {
  it('creates nothing when its entries cannot be written', async () => {
    const { sql } = service.services
    const victim = await service.createTenant()
    const { tenant_id } = victim.tenant
    await sql.unsafe(`
      create function refuse_entry() returns trigger language plpgsql as $$ begin
        if new.tenant_id = '${tenant_id}' and new.action = 'key.create' then raise exception 'on purpose'; end if;
        return new;
      end $$;
      create trigger refuse_entry before insert on audit_log for each row execute function refuse_entry()`)
    try {
      const { status, body } = await create(named('lost', 3), victim)
      expect([status, body.code]).toEqual([500, 'E_AUDIT_NOT_WRITTEN'])
    } finally {
      await sql.unsafe('drop trigger refuse_entry on audit_log; drop function refuse_entry()')
    }
    expect(await countKeys(victim)).toBe(0)
    expect(statuses(await create(named('lost', 3), victim))).toEqual([201, 201, 201])
  })

  it('creates what the limit of a tenant leaves room for', async () => {
    const crowded = await service.createTenant()
    const { tenant_id } = crowded.tenant
    await create([{ name: 'first' }], crowded)
    const state = await service.services.states.find(tenant_id)
    const [first] = await listKeys(service.services.sql, tenant_id, {})
    if (!state || !first) throw new Error('no key')
    const { sql } = service.services
    for (let at = 0; at < 9_998; at += MANY) {
      const rows = Array.from({ length: Math.min(MANY, 9_998 - at) }, (_, number) =>
        withMac({ ...first, key_id: randomUUID(), name: `copy ${at + number}` }, keyMac, state.rowKey),
      )
      await sql`insert into keys ${sql(rows as never[])}`
    }
    expect(codes(await create(named('last', 3), crowded))).toEqual([undefined, 'E_LIMIT', 'E_LIMIT'])
    expect(codes(await create(named('beyond', 1), crowded))).toEqual(['E_LIMIT'])
  })
})
