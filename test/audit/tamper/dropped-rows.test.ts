// Triggers and rules of somebody who owns the tables drop or alter what the server writes, while it is written.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { DroppedRowsError } from '../../../packages/server/src/core/store/db.js'
import { insertMark } from '../../../packages/server/src/operate/store/purge.js'
import { serverOf } from '../../support/audit/audit-scene.js'
import { type Caller, type Service, startService } from '../../support/service/service.js'

let service: Service
let owners: Caller[]
let keys: string[]

beforeAll(async () => {
  service = await startService()
  owners = await Promise.all(['one', 'two', 'three'].map((name) => service.createTenant({ name })))
  keys = await Promise.all(
    owners.map(async (owner) => (await owner.call('POST', '/v1/keys', { name: 'k' })).body.id as string),
  )
})
afterAll(() => service?.close())

const owner = () => owners[0] as Caller
const unsafe = (text: string) => service.services.sql.unsafe(text)
const body = () => ({ dek: Buffer.alloc(32, 1).toString('base64') })
const wrap = (at = 0) => (owners[at] as Caller).call('POST', `/v1/keys/${keys[at]}/wrap`, body())

/** Has a trigger run before each row is written to a table, while `work` runs. */
async function withTrigger<T>(table: string, event: 'insert' | 'update', text: string, work: () => Promise<T>) {
  await unsafe(`create function meddle() returns trigger language plpgsql as $$ begin ${text} end $$`)
  await unsafe(`create trigger meddle before ${event} on ${table} for each row execute function meddle()`)
  try {
    return await work()
  } finally {
    await unsafe('drop function meddle cascade')
  }
}

async function expectValid(): Promise<void> {
  for (const caller of owners) {
    expect((await caller.call('GET', '/v1/audit/verify')).body).toMatchObject({ valid: true })
  }
}
const total = async (at = 0) => (await (owners[at] as Caller).call('GET', '/v1/audit')).body.total as number
const isRefused = ({ status, body }: Awaited<ReturnType<typeof wrap>>) =>
  status === 500 && body.code === 'E_AUDIT_NOT_WRITTEN' && /was not carried out/.test(body.detail)

describe('an entry that is dropped as it is written', () => {
  it.each([
    ['each', 'return null;'],
    ['one in a batch', 'if new.id % 3 = 0 then return null; end if; return new;'],
  ])('fails the call, of which nothing is written: %s', async (_, text) => {
    const before = await total()
    await withTrigger('audit_log', 'insert', text, async () => {
      const operations = Array.from({ length: 3 }, () => ({ op: 'wrap', key_id: keys[0], ...body() }))
      const batch = await owner().call('POST', '/v1/batch', { operations })
      expect(isRefused(batch)).toBe(true)
      const health = await owner().call('GET', '/health')
      expect([health.status, health.body.database]).toEqual([503, 'failing'])
    })
    expect((await wrap()).status).toBe(200)
    expect(await total()).toBe(before + 1)
    await expectValid()
  })

  it('fails a change too, with its rows', async () => {
    const change = () => owner().call('POST', '/v1/keys', { name: 'changed' })
    await withTrigger('audit_log', 'insert', 'return null;', async () => expect(isRefused(await change())).toBe(true))
    expect((await change()).status).toBe(201)
    await expectValid()
  })

  it('fails only the calls of its tenant, whatever else is in the statement', async () => {
    const text = `if new.tenant_id = '${owner().tenant.tenant_id}' then return null; end if; return new;`
    await withTrigger('audit_log', 'insert', text, async () => {
      for (let round = 0; round < 3; round++) {
        const [own, ...others] = await Promise.all(owners.map((_, at) => wrap(at)))
        expect(own && isRefused(own)).toBe(true)
        expect(others.map(({ status }) => status)).toEqual([200, 200])
      }
    })
    await expectValid()
  })

  it.each([
    ['inserts nothing', 'audit_log', 'insert', 'nothing'],
    ['inserts elsewhere', 'audit_log', 'insert', 'insert into elsewhere_audit_log values (new.*)'],
    [
      'inserts elsewhere and returns what was to be inserted',
      'audit_log',
      'insert',
      'insert into elsewhere_audit_log values (new.*) returning elsewhere_audit_log.*',
    ],
    ['updates nothing', 'heads', 'update', 'nothing'],
    [
      'updates elsewhere and returns what was to be updated',
      'heads',
      'update',
      'update elsewhere_heads set last_id = new.last_id, hash = new.hash, mac = new.mac where tenant_id = old.tenant_id returning elsewhere_heads.*',
    ],
  ])('fails the call when a rule %s', async (_, table, event, action) => {
    await unsafe(`create table elsewhere_${table} as table ${table}`)
    await unsafe(`create rule meddle as on ${event} to ${table} do instead ${action}`)
    try {
      expect(isRefused(await wrap())).toBe(true)
      const all = await Promise.all(owners.map((_, at) => wrap(at)))
      expect(all.every(isRefused)).toBe(true)
    } finally {
      await unsafe(`drop rule meddle on ${table}`)
      await unsafe(`drop table elsewhere_${table}`)
    }
    expect((await wrap()).status).toBe(200)
    await expectValid()
  })

  it.each(['audit_log', 'heads'])('fails the call when a view takes the place of %s', async (table) => {
    await unsafe(`alter table ${table} rename to real_${table}; create view ${table} as table real_${table}`)
    try {
      expect(isRefused(await wrap())).toBe(true)
    } finally {
      await unsafe(`drop view ${table}; alter table real_${table} rename to ${table}`)
    }
    expect((await wrap()).status).toBe(200)
    await expectValid()
  })

  it('fails the call when a trigger keeps the head where it is', async () => {
    await withTrigger('heads', 'update', 'return null;', async () => expect((await wrap()).status).toBe(500))
    await expectValid()
  })
})

describe('a row that is dropped as it is written', () => {
  const creations = {
    keys: () => owner().call('POST', '/v1/keys', { name: 'dropped' }),
    key_versions: () => owner().call('POST', `/v1/keys/${keys[0]}/rotate`),
    api_keys: () => owner().call('POST', '/v1/api-keys', { name: 'dropped', permissions: ['encrypt'] }),
  }

  it.each(Object.entries(creations))(
    'of %s fails the change that writes it, and leaves nothing of it',
    async (table, create) => {
      const before = await total()
      await withTrigger(table, 'insert', 'return null;', async () => expect(isRefused(await create())).toBe(true))
      expect(await total()).toBe(before)
      expect((await create()).status).toBeLessThan(300)
      await expectValid()
    },
  )

  it.each(['tenants', 'heads', 'api_keys'])('of %s fails the creation of a tenant', async (table) => {
    await withTrigger(table, 'insert', 'return null;', async () => {
      await expect(service.createTenant({ name: 'dropped' })).rejects.toThrow(
        `the database dropped rows of ${table}: 0 of 1`,
      )
    })
  })

  it('of purge_marks fails the purge', async () => {
    const { sql } = service.services
    const { tenant_id } = owner().tenant
    const bytes = Buffer.alloc(32)
    const created_at = '2026-01-01T00:00:00.000Z'
    const mark = { tenant_id, purged_through: 1, hash: bytes, entries: 1, cutoff: created_at, created_at }
    await withTrigger('purge_marks', 'insert', 'return null;', async () => {
      const writing = sql.begin((transaction) => insertMark(transaction, { ...mark, previous_mac: bytes, mac: bytes }))
      await expect(writing).rejects.toThrow(DroppedRowsError)
    })
  })

  it.each([
    ['keys', () => owner().call('PATCH', `/v1/keys/${keys[0]}/rotation`, { interval_days: 7 })],
    ['api_keys', () => owner().call('PATCH', `/v1/api-keys/${owner().tenant.api_key.id}`, { name: 'renamed' })],
  ])('of %s fails the change that updates it', async (table, change) => {
    await withTrigger(table, 'update', 'return null;', async () => {
      const { status, body } = await change()
      expect([status, body.code]).toEqual([500, 'E_AUDIT_NOT_WRITTEN'])
    })
    expect((await change()).status).toBe(200)
    await expectValid()
  })
})

describe('what is altered as it is written', () => {
  it('is found by verification if it is an entry, like one that is edited later', async () => {
    const altered = await service.createTenant({ name: 'altered' })
    const { id } = (await altered.call('POST', '/v1/keys', { name: 'k' })).body
    await withTrigger('audit_log', 'insert', "new.actor := 'nobody'; return new;", async () => {
      expect((await altered.call('POST', `/v1/keys/${id}/wrap`, body())).status).toBe(200)
    })
    const { valid, reason, broken_at } = (await altered.call('GET', '/v1/audit/verify')).body
    expect([valid, reason, broken_at]).toEqual([false, 'entry_altered', 3])
  })

  it('is refused at use if it is a row that stays as it was: a revoked API key', async () => {
    const other = serverOf(service)
    try {
      const { id, secret } = (await owner().call('POST', '/v1/api-keys', { name: 'late', permissions: ['keys:read'] }))
        .body
      await withTrigger('api_keys', 'update', 'return old;', async () => {
        expect((await owner().call('DELETE', `/v1/api-keys/${id}`)).status).toBeLessThan(300)
      })
      expect((await service.caller(secret).call('GET', '/v1/keys')).status).toBe(401)
      expect(await other.call(secret, 'GET', '/v1/keys')).toMatchObject({ status: 500, body: { code: 'E_TAMPERED' } })
      expect((await owner().call('GET', '/v1/audit/verify')).body.reason).toBe('row_replaced')
    } finally {
      await other.app.close()
    }
  })

  it('is an alarm if it is the head, at the next call', async () => {
    const moved = await service.createTenant({ name: 'moved' })
    const { id } = (await moved.call('POST', '/v1/keys', { name: 'k' })).body
    const call = () => moved.call('POST', `/v1/keys/${id}/wrap`, body())
    await withTrigger('heads', 'update', 'return old;', async () => {
      await call()
      expect((await call()).body.code).toBe('E_AUDIT_NOT_WRITTEN')
      expect(service.alarms).toMatchObject([{ tenant_id: moved.tenant.tenant_id }])
    })
  })
})
