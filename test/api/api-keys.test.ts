// /v1/api-keys: creating, changing and revoking API keys, and what they may be granted.
import { createHash } from 'node:crypto'
import { isRecordable, MAX_BUDGET, PERMISSIONS } from '@eaas/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createApiKeyUses } from '../../packages/server/src/core/runner/noted-calls.js'
import { ELEMENT } from '../support/audit/audit-scene.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

let now = Date.now()
let service: Service
let owner: Caller

beforeAll(async () => {
  service = await startService({ now: () => now, environment: { EAAS_TRUST_PROXY: '127.0.0.1' } })
  owner = await service.createTenant()
})
afterAll(() => service?.close())

async function create(fields: Record<string, unknown>) {
  const { status, body } = await owner.call('POST', '/v1/api-keys', {
    name: 'one',
    permissions: ['keys:read'],
    ...fields,
  })
  return { status, body, caller: service.caller(body.secret ?? '') }
}
async function record(id: string) {
  const { api_keys } = (await owner.call('GET', '/v1/api-keys')).body
  return api_keys.find((apiKey: { id: string }) => apiKey.id === id)
}
/** As long a list of folders as an API key may have, of the texts that grow most in an entry. */
function longestList(begin: string): string[] {
  const folder = (number: number, length: number) => `${begin}${number}${'\\'.repeat(length)}/*`
  const list: string[] = []
  for (let length = 240; length > 0; ) {
    const longer = [...list, folder(list.length, length)]
    if (isRecordable(longer)) list.push(folder(list.length, length))
    else length -= 1
  }
  return list
}
const later = (ms: number) => new Date(now + ms).toISOString()
const read = (caller: Caller, from: string) => caller.call('GET', '/v1/keys', undefined, { 'x-forwarded-for': from })

describe('a new API key', () => {
  it('is shown with its secret once, and as a record without it ever after', async () => {
    const { body, caller } = await create({ expires_at: later(60_000), allowed_ips: ['127.0.0.1', '10.0.0.0/8'] })
    const { secret, ...record } = body
    expect(secret).toMatch(/^eaas_sk_[0-9a-f]{32}_[0-9A-Za-z]{43}$/)
    expect(record).toEqual({
      id: expect.any(String),
      name: 'one',
      prefix: secret.slice(0, -39),
      permissions: ['keys:read'],
      status: 'active',
      created_at: expect.any(String),
      expires_at: later(60_000),
      allowed_ips: ['127.0.0.1', '10.0.0.0/8'],
    })
    const { api_keys, count } = (await owner.call('GET', '/v1/api-keys')).body
    expect(count).toBe(api_keys.length)
    expect(api_keys).toContainEqual(record)
    expect((await caller.call('GET', '/v1/keys')).status).toBe(200)
  })

  it('without expiry and allow-list has neither field', async () => {
    const { body } = await create({ expires_at: null, allowed_ips: null })
    expect(body).not.toHaveProperty('expires_at')
    expect(body).not.toHaveProperty('allowed_ips')
    expect((await create({ allowed_ips: [] })).body).not.toHaveProperty('allowed_ips')
  })

  it.each([
    [{ permissions: ['root'] }, 'permissions.0'],
    [{ allowed_ips: ['127.0.0.1', '10.0.0.0/33'] }, 'allowed_ips.1'],
  ])('is refused from %j, naming the place in the list', async (fields, named) => {
    const { status, body } = await create(fields)
    expect([status, body.code]).toEqual([400, 'E_VALIDATION'])
    expect(body.detail).toContain(named)
  })

  it('takes no field that is not its own', async () => {
    const { body } = await create({
      id: 'mine',
      tenant_id: crypto.randomUUID(),
      status: 'revoked',
      prefix: 'p',
      __proto__: { x: 1 },
    })
    expect(body.id).not.toBe('mine')
    expect([body.status, 'tenant_id' in body, 'x' in {}]).toEqual(['active', false, false])
  })
})

describe('expiry', () => {
  it('ends an API key at its very millisecond, and can be put off', async () => {
    const { body, caller } = await create({ expires_at: later(10_000) })
    now += 9_999
    expect((await caller.call('GET', '/v1/keys')).status).toBe(200)
    now += 1
    expect((await caller.call('GET', '/v1/keys')).status).toBe(401)
    expect((await record(body.id)).status).toBe('expired')
    await owner.call('PATCH', `/v1/api-keys/${body.id}`, { expires_at: later(10_000) })
    expect((await caller.call('GET', '/v1/keys')).status).toBe(200)
  })
})

describe('the allow-list', () => {
  it('lets its addresses in and no other, by the address that the audit log shows', async () => {
    const { caller } = await create({
      allowed_ips: ['10.1.0.0/16', '2001:db8::/32'],
      permissions: ['keys:read', 'keys:create'],
    })
    expect((await read(caller, '10.1.2.3')).status).toBe(200)
    expect((await read(caller, '2001:db8::5')).status).toBe(200)
    expect((await read(caller, '::ffff:10.1.2.3')).status).toBe(200)
    expect((await read(caller, '9.9.9.9, 10.1.2.3')).status).toBe(200)
    expect((await read(caller, '10.1.2.3:4711')).status).toBe(200)
    for (const from of ['10.2.0.1', '2001:db9::1', '10.1.2.3, 9.9.9.9', '', 'unknown', '10.2.0.1:80']) {
      const { status, body } = await read(caller, from)
      expect([from, status, body.code]).toEqual([from, 403, 'E_IP_NOT_ALLOWED'])
      expect(body.detail).toMatch(/^ip_not_allowed/)
    }
    await caller.call('POST', '/v1/keys', { name: 'from ten' }, { 'x-forwarded-for': '::ffff:10.1.2.3' })
    expect((await owner.call('GET', '/v1/audit?limit=1')).body.logs[0].ip_address).toBe('10.1.2.3')
  })
})

describe('PATCH', () => {
  it('keeps what is absent, clears what is null, sets what has a value', async () => {
    const { body } = await create({ expires_at: later(60_000), allowed_ips: ['127.0.0.1'] })
    const path = `/v1/api-keys/${body.id}`
    const { secret: _, ...record } = body
    const entries = async () => (await owner.call('GET', '/v1/audit?limit=1')).body.total
    const before = await entries()
    expect((await owner.call('PATCH', path, {})).body).toEqual(record)
    expect(await entries()).toBe(before + 1) // it shows the API key, which without this takes api_keys:read
    const renamed = (await owner.call('PATCH', path, { name: 'two' })).body
    expect(renamed).toEqual({ ...record, name: 'two' })
    const { allowed_ips: _ips, ...open } = renamed
    expect((await owner.call('PATCH', path, { allowed_ips: null })).body).toEqual(open)
    const { expires_at: _expiry, ...lasting } = open
    expect((await owner.call('PATCH', path, { expires_at: null })).body).toEqual(lasting)
    expect((await owner.call('PATCH', path, { permissions: ['audit:read'] })).body.permissions).toEqual(['audit:read'])
    expect((await owner.call('PATCH', path, { permissions: null })).body.permissions).toEqual([])
    expect((await owner.call('PATCH', path, { name: null })).status).toBe(400)
    expect(await entries()).toBe(before + 6)
  })

  it('gives no permission that its caller lacks, and leaves those that are held already', async () => {
    const { caller } = await create({ permissions: ['api_keys:manage'] })
    const { body } = await create({ permissions: ['encrypt'] })
    const path = `/v1/api-keys/${body.id}`
    expect((await caller.call('PATCH', path, { permissions: ['encrypt', 'decrypt'] })).status).toBe(403)
    expect((await caller.call('PATCH', path, { permissions: ['encrypt'] })).status).toBe(200)
    const own = (await owner.call('GET', '/v1/api-keys')).body.api_keys.find(
      (key: { permissions: string[] }) => key.permissions.includes('api_keys:manage') && key.permissions.length === 1,
    )
    expect((await caller.call('PATCH', `/v1/api-keys/${own.id}`, { permissions: [...PERMISSIONS] })).status).toBe(403)
  })

  it.each([
    [['wrap'], [200, 403, 403, 403, 403, 403, 403, 403]],
    [['unwrap'], [403, 200, 403, 403, 403, 403, 200, 403]],
    [
      ['wrap', 'unwrap'],
      [200, 200, 200, 403, 403, 403, 200, 403],
    ],
    [['encrypt'], [200, 403, 403, 200, 200, 403, 403, 200]],
    [['decrypt'], [403, 200, 403, 403, 403, 200, 200, 403]],
    [['hash'], [403, 403, 403, 200, 403, 403, 403, 200]],
  ])(
    'with %j alone gets for wrap, unwrap, rewrap, hash, encrypt, decrypt, indexSecret and blind_hash: %j',
    async (permissions, statuses) => {
      const open = await service.createTenant({ envelope_only: false })
      const key_id = (await open.call('POST', '/v1/keys', { name: 'key' })).body.id
      const dek = Buffer.alloc(32, 9).toString('base64')
      const { wrapped_key } = (await open.call('POST', `/v1/keys/${key_id}/wrap`, { dek })).body
      const sealed = (await open.call('POST', '/v1/encrypt', { key_id, plaintext: 'x' })).body
      const { secret } = (await open.call('POST', '/v1/api-keys', { name: 'one', permissions })).body
      const operations = [
        { op: 'wrap', key_id, dek },
        { op: 'unwrap', key_id, wrapped_key },
        { op: 'rewrap', key_id, wrapped_key },
        { op: 'hash', key_id, value: 'x' },
        { op: 'encrypt', key_id, plaintext: 'x' },
        { op: 'decrypt', ...sealed },
        { op: 'indexSecret', key_id, name: 'x' },
        { op: 'blind_hash', key_id, elements: [ELEMENT] },
      ]
      const { results } = (await service.caller(secret).call('POST', '/v1/batch', { operations })).body
      expect(results.map(({ status }: { status: number }) => status)).toEqual(statuses)
      const grant = (...names: string[]) =>
        service.caller(manager.secret).call('POST', '/v1/api-keys', { name: 'two', permissions: names })
      const manager = (
        await open.call('POST', '/v1/api-keys', { name: 'm', permissions: [...permissions, 'api_keys:manage'] })
      ).body
      for (const [at, name] of ['wrap', 'unwrap', undefined, 'hash'].entries()) {
        if (name) expect((await grant(name)).status).toBe(statuses[at] === 200 ? 201 : 403)
      }
    },
  )

  it('changes what the key may do at once', async () => {
    const { body, caller } = await create({ permissions: ['keys:read'] })
    expect((await caller.call('GET', '/v1/keys')).status).toBe(200)
    await owner.call('PATCH', `/v1/api-keys/${body.id}`, { permissions: [] })
    expect((await caller.call('GET', '/v1/keys')).body.code).toBe('E_MISSING_PERMISSION')
  })
})

describe('the entries of an API key', () => {
  const newest = async () => (await owner.call('GET', '/v1/audit?limit=1')).body.logs[0]

  it('say how it is named and what it is granted, before and after each change, and which entry each replaces', async () => {
    const expires_at = later(60_000)
    const { body } = await create({
      permissions: ['keys:read', 'encrypt'],
      expires_at,
      allowed_ips: ['::1', '10.0.0.0/8'],
    })
    const made = await newest()
    const granted = { name: 'one', permissions: 'encrypt keys:read', expires_at, allowed_ips: '10.0.0.0/8 ::1' }
    expect(made).toMatchObject({ action: 'api_key.create' })
    expect(made.metadata).toEqual({ api_key_id: body.id, ...granted })

    await owner.call('PATCH', `/v1/api-keys/${body.id}`, {
      permissions: ['keys:read'],
      allowed_ips: null,
      name: 'two',
    })
    const narrowed = await newest()
    expect(narrowed.metadata).toEqual({
      api_key_id: body.id,
      changed: 'allowed_ips name permissions',
      replaces: made.id,
      name: 'two',
      name_before: 'one',
      permissions: 'keys:read',
      permissions_before: 'encrypt keys:read',
      expires_at,
      allowed_ips: null,
      allowed_ips_before: '10.0.0.0/8 ::1',
    })

    await owner.call('PATCH', `/v1/api-keys/${body.id}`, { expires_at: null, permissions: ['keys:read'] })
    const unlimited = await newest()
    expect(unlimited.metadata).toEqual({
      api_key_id: body.id,
      changed: 'expires_at permissions',
      replaces: narrowed.id,
      name: 'two',
      permissions: 'keys:read',
      expires_at: null,
      expires_at_before: expires_at,
      allowed_ips: null,
    })

    await owner.call('DELETE', `/v1/api-keys/${body.id}`)
    expect((await newest()).metadata).toEqual({ api_key_id: body.id, replaces: unlimited.id })
  })

  it('are written whatever a call states at once, before a change and after it', async () => {
    const budget = { per_minute: MAX_BUDGET, per_day: MAX_BUDGET }
    const changes = (text: string) => ({
      name: text.repeat(255),
      permissions: PERMISSIONS.filter((name) => name !== 'api_keys:manage' && name !== 'keys:export'),
      expires_at: later(60_000),
      allowed_ips: Array.from({ length: 26 }, (_, at) => `2001:db8:1111:2222:3333:4444:5555:66${at + 10}`), // in full, up to 1,024 characters
      keys: longestList(text === '\u0001' ? 'a' : 'b'),
      budgets: { unwrap: budget, hash: budget, when_over: 'refuse' },
    })
    const headers = {
      'eaas-on-behalf-of': '\\'.repeat(255),
      'x-request-id': 'r'.repeat(64),
      traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`,
    }
    const { status, body } = await owner.call('POST', '/v1/api-keys', changes('\u0001'), headers)
    expect([status, body.detail]).toEqual([201, undefined])
    const other = {
      ...changes('\u0002'),
      permissions: ['audit:read'],
      budgets: { unwrap: budget, hash: budget, when_over: 'expire' },
    }
    expect((await owner.call('PATCH', `/v1/api-keys/${body.id}`, other, headers)).body.detail).toBeUndefined()
    const { metadata } = await newest()
    expect(metadata).toMatchObject({ name: other.name, name_before: '\u0001'.repeat(255) })
    expect(JSON.stringify(metadata).length).toBeGreaterThan(13_000)
    expect((await owner.call('POST', '/v1/keys', { name: `${'\u0001'.repeat(254)}/` }, headers)).status).toBe(201)
  })

  it('have a long list of addresses as its number and its SHA-256', async () => {
    const long = Array.from({ length: 200 }, (_, at) => `10.0.${at}.0/24`)
    const { body } = await create({ allowed_ips: long })
    const list = [...long].sort().join(' ')
    const allowed_ips_sha256 = createHash('sha256').update(list).digest('hex')
    const made = (await newest()).metadata
    expect(made).toMatchObject({ allowed_ips_count: 200, allowed_ips_sha256 })
    expect(made).not.toHaveProperty('allowed_ips')
    await owner.call('PATCH', `/v1/api-keys/${body.id}`, { allowed_ips: long.slice(0, 3) })
    expect((await newest()).metadata).toMatchObject({
      allowed_ips: '10.0.0.0/24 10.0.1.0/24 10.0.2.0/24',
      allowed_ips_before_count: 200,
      allowed_ips_before_sha256: allowed_ips_sha256,
    })
  })
})

describe('revoking', () => {
  it('is final, and done once: a second time writes no entry', async () => {
    const { body } = await create({})
    const path = `/v1/api-keys/${body.id}`
    expect((await owner.call('DELETE', path)).status).toBe(204)
    const { total } = (await owner.call('GET', '/v1/audit?limit=1')).body
    expect((await owner.call('DELETE', path)).status).toBe(204)
    expect((await owner.call('GET', '/v1/audit?limit=1')).body.total).toBe(total)
    const { status, body: problem } = await owner.call('PATCH', path, { name: 'again' })
    expect([status, problem.code]).toEqual([409, 'E_STATE'])
  })
})

describe('an API key that revokes itself', () => {
  const self = (caller: Caller, headers = {}) => caller.call('DELETE', '/v1/api-keys/self', undefined, headers)

  it.each([{ keys: null }, { keys: [] }, { keys: ['a/*', 'id'] }])(
    'needs no permission, whatever keys it is limited to: %j',
    async ({ keys }) => {
      const { id: key_id } = (await owner.call('POST', '/v1/keys', { name: `self ${keys}` })).body
      const { body, caller } = await create({
        permissions: [],
        keys: keys?.map((key) => (key === 'id' ? key_id : key)) ?? null,
      })
      expect((await caller.call('DELETE', `/v1/api-keys/${body.id}`)).body.code).toBe('E_MISSING_PERMISSION')
      expect((await self(caller)).status).toBe(204)
      const { logs } = (await owner.call('GET', '/v1/audit?limit=2')).body
      const [{ action, actor, metadata }, made] = logs
      expect([action, actor]).toEqual(['api_key.revoke', body.id])
      expect(metadata).toEqual({ api_key_id: body.id, replaces: made.id })
      expect((await record(body.id)).status).toBe('revoked')
      expect((await self(caller)).body.code).toBe('E_UNAUTHORIZED')
      expect((await owner.call('GET', '/v1/audit?limit=1')).body.logs[0].id).toBe(logs[0].id)
      expect((await owner.call('GET', '/v1/audit/verify')).body.valid).toBe(true)
    },
  )

  it('revokes no other one, of its tenant or of another', async () => {
    const other = await service.createTenant()
    const listed = async ({ call }: Caller) => (await call('GET', '/v1/api-keys')).body.api_keys
    const active = ({ status }: { status: string }) => status === 'active'
    const [own, foreign] = [(await listed(owner)).filter(active).length, await listed(other)]
    const { caller } = await create({ permissions: PERMISSIONS })
    expect((await self(caller)).status).toBe(204)
    expect((await listed(owner)).filter(active)).toHaveLength(own)
    expect(await listed(other)).toEqual(foreign)
  })

  it('is admitted as in any call: by its addresses, its status, and for an end user by a permission', async () => {
    const { body, caller } = await create({ permissions: [], allowed_ips: ['10.0.0.1'] })
    expect((await self(caller)).body.code).toBe('E_IP_NOT_ALLOWED')
    await owner.call('PATCH', `/v1/api-keys/${body.id}`, { allowed_ips: null })
    expect((await self(caller, { 'eaas-on-behalf-of': 'ann' })).body.code).toBe('E_MISSING_PERMISSION')
    expect((await self(service.caller(`${body.secret.slice(0, -1)}-`))).body.code).toBe('E_UNAUTHORIZED')
    expect((await record(body.id)).status).toBe('active')
  })

  it('does so by DELETE alone', async () => {
    const path = '/v1/api-keys/self'
    expect((await owner.call('PATCH', path, {})).body.code).toBe('E_NOT_FOUND')
    expect((await owner.call('GET', path)).status).toBe(405)
  })
})

describe('the last use of an API key', () => {
  const ago = (ms: number) => new Date(now - ms).toISOString()

  it('is written apart from the calls, and shown to the minute', async () => {
    const { services } = service
    const { body, caller } = await create({})
    const lastUse = async () => (await record(body.id)).last_used_at
    await services.apiKeyUses.flush()
    expect(await lastUse()).toBeUndefined()
    for (let at = 0; at < 3; at++) {
      expect((await caller.call('GET', '/v1/keys')).status).toBe(200)
      now += 1_000
    }
    expect(await lastUse()).toBeUndefined() // no call writes it
    await services.apiKeyUses.flush()
    expect(await lastUse()).toBe(ago(1_000))
    expect((await caller.call('GET', '/v1/keys/none')).status).toBe(404) // a refusal by what was asked for is a use too
    await services.apiKeyUses.flush()
    expect(await lastUse()).toBe(ago(0))
  })

  it('is no call that was not let in', async () => {
    const { services } = service
    const { body, caller } = await create({ allowed_ips: ['10.0.0.1'] })
    expect((await read(caller, '10.0.0.2')).status).toBe(403)
    expect((await caller.call('POST', '/v1/keys', { name: 'x' }, { 'x-forwarded-for': '10.0.0.1' })).status).toBe(403)
    await services.apiKeyUses.flush()
    expect(await record(body.id)).not.toHaveProperty('last_used_at')
    expect((await read(caller, '10.0.0.1')).status).toBe(200)
    await owner.call('DELETE', `/v1/api-keys/${body.id}`)
    now += 60_000
    expect((await read(caller, '10.0.0.1')).status).toBe(401)
    await services.apiKeyUses.flush()
    expect((await record(body.id)).last_used_at).toBe(ago(60_000))
  })

  it('of an older process does not replace a later one, and one that could not be written is kept', async () => {
    const { sql } = service.services
    const { body } = await create({})
    const apiKey = { tenant_id: owner.tenant.tenant_id, api_key_id: body.id }
    let isDown = true
    const uses = createApiKeyUses(
      new Proxy(sql, { apply: (...args) => (isDown ? Promise.reject(new Error('down')) : Reflect.apply(...args)) }),
      () => now,
    )
    uses.note(apiKey, now - 1_000)
    await expect(uses.flush()).rejects.toThrow('down')
    isDown = false
    await uses.flush()
    expect((await record(body.id)).last_used_at).toBe(ago(1_000))
    uses.note(apiKey, now - 5_000)
    await uses.flush()
    expect((await record(body.id)).last_used_at).toBe(ago(1_000))
  })
})
