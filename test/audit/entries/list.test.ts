// GET /v1/audit: filters, order, pages, exact totals.
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Caller, type Service, startService } from '../../support/service/service.js'

const START = Date.parse('2026-03-01T00:00:00.000Z')

let now = START
let service: Service
let owner: Caller
let keys: string[]

// 120 wraps, one a minute, alternating between two keys, after the entries that make the tenant and the keys.
beforeAll(async () => {
  service = await startService({ now: () => now })
  owner = await service.createTenant()
  keys = []
  for (const name of ['a', 'b']) keys.push((await owner.call('POST', '/v1/keys', { name })).body.id)
  for (let minute = 1; minute <= 120; minute++) {
    now = START + minute * 60_000
    const dek = randomBytes(32).toString('base64')
    await owner.call('POST', `/v1/keys/${keys[minute % 2]}/wrap`, { dek })
  }
})
afterAll(() => service?.close())

async function list(query: string) {
  const { status, body } = await owner.call('GET', `/v1/audit${query}`)
  return { status, ...body, ids: (body.logs ?? []).map((entry: { id: number }) => entry.id) }
}

describe('the audit list', () => {
  it('shows an entry with exactly the fields of the contract', async () => {
    const { logs } = await list('?limit=1')
    expect(logs).toEqual([
      {
        id: 123,
        tenant_id: owner.tenant.tenant_id,
        action: 'key.wrap',
        key_id: keys[0],
        key_version: 1,
        actor: owner.tenant.api_key.id,
        ip_address: '127.0.0.1',
        metadata: { key_version: 1 },
        created_at: '2026-03-01T02:00:00.000Z',
      },
    ])
    const first = (await list('?order=asc&limit=1')).logs[0]
    expect(first).toMatchObject({ id: 1, action: 'api_key.create', actor: 'system', key_id: null, ip_address: null })
    expect(first.metadata).toMatchObject({ api_key_id: owner.tenant.api_key.id })
  })

  it('is newest first, 50 entries unless asked, 100 at most', async () => {
    const answer = await list('')
    expect([answer.count, answer.total, answer.limit, answer.offset]).toEqual([50, 123, 50, 0])
    expect(answer.ids).toEqual(Array.from({ length: 50 }, (_, at) => 123 - at))
    for (const limit of ['101', '500', '2147483648', '9007199254740991', '9'.repeat(20), '9'.repeat(300)]) {
      expect([limit, (await list(`?limit=${limit}`)).limit]).toEqual([limit, 100])
    }
  })

  it('has each entry on exactly one page', async () => {
    const ids = []
    for (let offset = 0; offset < 130; offset += 20) ids.push(...(await list(`?limit=20&offset=${offset}`)).ids)
    expect(ids).toEqual(Array.from({ length: 123 }, (_, at) => 123 - at))
    expect(await list('?offset=1000')).toMatchObject({ count: 0, total: 123 })
  })

  it('goes on after an id in the order of the log', async () => {
    expect((await list('?order=asc&after_id=100&limit=3')).ids).toEqual([101, 102, 103])
    expect((await list('?after_id=120')).ids).toEqual([123, 122, 121])
  })

  it('filters by key and by action, with exact totals', async () => {
    expect((await list(`?key_id=${keys[0]}`)).total).toBe(61)
    expect((await list('?action=key.wrap')).total).toBe(120)
    expect((await list(`?action=key.create&key_id=${keys[1]}`)).total).toBe(1)
    expect((await list(`?key_id=${crypto.randomUUID()}`)).total).toBe(0)
  })

  it('takes both bounds of time as inclusive', async () => {
    const of = (from: string, to: string) => `?date_from=${encodeURIComponent(from)}&date_to=${encodeURIComponent(to)}`
    expect((await list(of('2026-03-01T00:10:00Z', '2026-03-01T00:12:00Z'))).total).toBe(3)
    expect((await list(of('2026-03-01T02:10:00+02:00', '2026-03-01T02:12:00+02:00'))).total).toBe(3)
    expect((await list(of('2026-03-01T00:10:00.0001Z', '2026-03-01T00:12:00Z'))).total).toBe(2)
    expect((await list(of('2026-03-01T00:10:00Z', '2026-03-01T00:11:59.9999Z'))).total).toBe(2)
    expect((await list(of('2026-03-01T00:12:00Z', '2026-03-01T00:10:00Z'))).total).toBe(0)
    const sinceMarch = (await list(of('2026-03-01T00:00:00Z', '2026-03-01T00:02:00Z'))).total
    expect((await list(of('2026-02-28T23:59:60Z', '2026-03-01T00:02:00Z'))).total).toBe(sinceMarch)
    expect((await list(of('2026-02-28T23:59:60Z', '2026-02-28T23:59:60Z'))).total).toBe(sinceMarch - 2)
    expect((await list(of('0000-01-01T00:00:00Z', '9999-12-31T23:59:59-23:59'))).total).toBe(123)
  })

  it.each([
    'limit=0',
    'limit=-1',
    'limit=1e3',
    'limit=0x10',
    'limit=1.5',
    'limit=%205',
    'limit=%2B5',
    'limit=',
    'limit=5&limit=6',
    'limit=%D9%A5',
    'offset=-1',
    'offset=1.0',
    'order=up',
    'after_id=x',
    'key_id=a-name',
    'key_id=%00',
    'action=login',
    'action=',
    'date_from=2026-02-30T00:00:00Z',
    'date_from=2026-02-01',
    'date_from=2026-02-01T00:00:00',
    'date_from=2026-02-01T00:00:00+02:00', // a bare + is a blank in a query
    'date_from=2026-02-01T24:00:00Z',
    'date_from=2026-02-01T00:00:60Z',
    'date_from=1',
    'date_to=',
    'date_to=2026-02-01T00:00:00Z&date_to=2026-02-01T00:00:00Z',
  ])('refuses %s, naming the field', async (query) => {
    const answer = await list(`?${query}`)
    expect([answer.status, answer.code]).toEqual([400, 'E_VALIDATION'])
    expect(answer.detail).toContain(query.slice(0, query.indexOf('=')))
  })
})

describe('a page with an entry that was changed in the database', () => {
  /** Changes an entry, looks at the pages, and restores it. */
  async function withEntry(id: number, change: string, look: () => Promise<void>): Promise<void> {
    const sql = service.services.sql as unknown as { unsafe(text: string): Promise<unknown> }
    const where = `tenant_id = '${owner.tenant.tenant_id}' and id = ${id}`
    await sql.unsafe(`create table kept_entry as select * from audit_log where ${where}`)
    await sql.unsafe(change.replace('$where', where))
    try {
      await look()
    } finally {
      await sql.unsafe(`delete from audit_log where ${where}`)
      await sql.unsafe('insert into audit_log select * from kept_entry')
      await sql.unsafe('drop table kept_entry')
    }
  }
  const named = async (query: string) => {
    const { status, code, detail, logs } = await list(query)
    return [status, code, /^entry (\d+) /.exec(detail ?? '')?.[1], logs]
  }
  const CHANGES = {
    'an actor': "update audit_log set actor = 'x' where $where",
    metadata: `update audit_log set metadata = '{"x":1}' where $where`,
    'a time': "update audit_log set created_at = created_at + interval '1 ms' where $where",
    'a hash': 'update audit_log set hash = set_byte(hash, 0, get_byte(hash, 0) # 1) where $where',
    'a MAC': "update audit_log set mac = '' where $where",
    'the entry, deleted': 'delete from audit_log where $where',
  }

  it.each(Object.entries(CHANGES))('is refused with a problem that names the entry: %s', async (what, change) => {
    await withEntry(77, change, async () => {
      const refused = [500, 'E_TAMPERED', '77', undefined]
      for (const query of ['', '?limit=1&offset=46', '?order=asc&limit=100', '?after_id=70', '?limit=100&offset=46']) {
        expect(await named(query)).toEqual(refused)
      }
      // A filter by key leaves the entries between two of them out: a deleted one shows by the entry that follows it, if that is listed.
      if (what !== 'the entry, deleted') expect(await named(`?action=key.wrap&limit=50`)).toEqual(refused)
      expect((await list('?limit=10')).status).toBe(200)
      expect((await list('?limit=20&offset=80')).status).toBe(200)
    })
    expect((await list('?limit=100')).status).toBe(200)
  })

  it('is refused if the first entry was changed', async () => {
    await withEntry(1, CHANGES['an actor'], async () => {
      expect(await named('?order=asc&limit=3')).toEqual([500, 'E_TAMPERED', '1', undefined])
    })
  })
})

describe('verification', () => {
  it('counts every entry of a chain that is whole', async () => {
    const { status, body } = await owner.call('GET', '/v1/audit/verify')
    expect(status).toBe(200)
    expect(body).toMatchObject({ valid: true, total_entries: 123, verified_entries: 123, purged_through: 0 })
    expect(body).not.toHaveProperty('broken_at')
  })

  it('gives the id of the first entry that was changed', async () => {
    const { sql } = service.services
    const { tenant_id } = owner.tenant
    const [before] = await sql<
      { actor: string }[]
    >`select actor from audit_log where tenant_id = ${tenant_id} and id = 77`
    await sql`update audit_log set actor = 'somebody else' where tenant_id = ${tenant_id} and id = 77`
    expect((await owner.call('GET', '/v1/audit/verify')).body).toMatchObject({
      valid: false,
      broken_at: 77,
      verified_entries: 76,
    })
    await sql`update audit_log set actor = ${before?.actor ?? ''} where tenant_id = ${tenant_id} and id = 77`
    expect((await owner.call('GET', '/v1/audit/verify')).body.valid).toBe(true)
  })
})
