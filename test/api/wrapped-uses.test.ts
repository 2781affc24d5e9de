// Purpose and context of wrapped keys (wrapped-key-v2.md): unwrapping states them again, entries show them, and lists of entries find them.
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import contexts from '../../packages/protocol/src/wrapped-key-v2.vectors.json' with { type: 'json' }
import { type Caller, type Service, startService } from '../support/service/service.js'

let service: Service
let owner: Caller
let key_id: string

beforeAll(async () => {
  service = await startService()
  owner = await service.createTenant({ envelope_only: false })
  key_id = (await owner.call('POST', '/v1/keys', { name: 'key' })).body.id
})
afterAll(() => service?.close())

const dek = randomBytes(32).toString('base64')
const post = (call: string, body: object) => owner.call('POST', `/v1/keys/${key_id}/${call}`, body)
const wrap = async (use: object = {}) => (await post('wrap', { dek, ...use })).body.wrapped_key as string
const unwrap = (wrapped_key: string, use: object = {}) => post('unwrap', { wrapped_key, ...use })
const formatOf = (wrapped_key: string) => Buffer.from(wrapped_key, 'base64')[0]
const newest = async () => (await owner.call('GET', '/v1/audit?limit=1')).body.logs[0]

const row = { model: 'customers', row: '7' }

describe('a wrapped key', () => {
  it('has format 1 where nothing is stated, and format 2 where a purpose or a context is', async () => {
    expect(formatOf(await wrap())).toBe(1)
    for (const use of [{ purpose: 'data' }, { context: {} }, { purpose: 'index', context: row }])
      expect(formatOf(await wrap(use))).toBe(2)
  })

  const USES: [string, object][] = [
    ['nothing', {}],
    ['a purpose', { purpose: 'data' }],
    ['another purpose', { purpose: 'index' }],
    ['a row', { context: row }],
    ['a row of an index', { purpose: 'index', context: row }],
    ['another row', { context: { ...row, row: '8' } }],
    ['the model alone', { context: { model: 'customers' } }],
  ]
  it.each(USES)('for %s opens for that alone', async (name, use) => {
    const wrapped_key = await wrap(use)
    for (const [other, stated] of USES) {
      const { status, body } = await unwrap(wrapped_key, stated)
      expect([other, status, body.dek ?? body.code]).toEqual(
        other === name ? [other, 200, dek] : [other, 403, 'E_WRAPPED_KEY'],
      )
      const again = await post('rewrap', { wrapped_key, ...stated })
      expect([other, again.status]).toEqual([other, other === name ? 200 : 403])
    }
  })

  it('for the purpose of data is the same whether that is stated or the default beside a context', async () => {
    expect((await unwrap(await wrap({ context: row }), { purpose: 'data', context: row })).body.dek).toBe(dek)
    expect((await unwrap(await wrap({ purpose: 'data', context: {} }), { context: {} })).body.dek).toBe(dek)
  })

  it('keeps its use when it is rewrapped, after a rotation too', async () => {
    const use = { purpose: 'index', context: { model: 'customers' } }
    const before = await wrap(use)
    await post('rotate', {})
    const { wrapped_key } = (await post('rewrap', { wrapped_key: before, ...use })).body
    expect(formatOf(wrapped_key)).toBe(2)
    expect((await unwrap(wrapped_key, use)).body).toMatchObject({ dek, key_version: 2 })
    expect((await unwrap(wrapped_key, { context: use.context })).status).toBe(403)
    expect((await newest()).metadata).toMatchObject({ purpose: 'index', 'context.model': 'customers' })
  })

  it('of format 2 does not open in server mode', async () => {
    const sealed = (await owner.call('POST', '/v1/encrypt', { key_id, plaintext: 'x' })).body
    const { dek: inner } = (await unwrap(sealed.wrapped_key)).body
    const bound = (await post('wrap', { dek: inner, purpose: 'data' })).body.wrapped_key
    const { status } = await owner.call('POST', '/v1/decrypt', { ...sealed, wrapped_key: bound })
    expect(status).toBe(422)
  })

  it.each(contexts.contexts)('is not wrapped for a context like this: $name', async ({ context }) => {
    for (const [call, body] of [
      ['wrap', { dek }],
      ['unwrap', { wrapped_key: '' }],
      ['rewrap', { wrapped_key: '' }],
    ] as const) {
      const answer = await post(call, { ...body, context })
      expect([call, answer.status, answer.body.code]).toEqual([call, 400, 'E_VALIDATION'])
      expect(answer.body.detail).toMatch(/^context/)
    }
  })

  it('is not wrapped for a context with the name __proto__, which is refused and not left out', async () => {
    const text = `{"dek":${JSON.stringify(dek)},"context":{"__proto__":"x","row":"7"}}`
    const { status } = await owner.call('POST', `/v1/keys/${key_id}/wrap`, text)
    expect(status).toBe(400)
  })

  it('has its use in a batch as alone', async () => {
    const wrapped_key = await wrap({ context: row })
    const operations = [
      { op: 'unwrap', key_id, wrapped_key, context: row },
      { op: 'unwrap', key_id, wrapped_key },
      { op: 'wrap', key_id, dek, purpose: 'stream' },
      { op: 'rewrap', key_id, wrapped_key, context: { ...row, row: 'x' } },
      { op: 'wrap', key_id, dek, purpose: 'other' },
    ]
    const { results } = (await owner.call('POST', '/v1/batch', { operations })).body
    expect(results.map(({ status }: { status: number }) => status)).toEqual([200, 403, 200, 403, 400])
  })
})

describe('the entry of a wrap and an unwrap', () => {
  it('shows purpose and context, and none of them for format 1', async () => {
    await unwrap(await wrap({ context: row }), { context: row })
    const { key_version } = await newest()
    expect((await newest()).metadata).toEqual({
      purpose: 'data',
      'context.model': 'customers',
      'context.row': '7',
      key_version,
    })
    await wrap()
    expect((await newest()).metadata).toEqual({ key_version })
  })

  it('shows digests in place of the values where the caller asks for them, which differ from tenant to tenant', async () => {
    const stated = { context: { person: 'ada@example.org' }, record: 'digests' }
    await wrap(stated)
    const { metadata } = await newest()
    expect(Object.keys(metadata)).toEqual(['context_hmac.person', 'purpose', 'key_version'])
    expect(metadata['context_hmac.person']).toMatch(/^[0-9a-f]{32}$/)
    const other = await service.createTenant()
    const { id } = (await other.call('POST', '/v1/keys', { name: 'key' })).body
    await other.call('POST', `/v1/keys/${id}/wrap`, { dek, ...stated })
    const theirs = (await other.call('GET', '/v1/audit?limit=1')).body.logs[0].metadata
    expect(theirs['context_hmac.person']).not.toBe(metadata['context_hmac.person'])
    expect((await owner.call('GET', '/v1/audit/verify')).body.valid).toBe(true)
  })
})

describe('the list of entries', () => {
  const list = async (filter: Record<string, string>) =>
    (await owner.call('GET', `/v1/audit?${new URLSearchParams({ limit: '100', ...filter })}`)).body
  const by = (context: object, rest: Record<string, string> = {}) => list({ context: JSON.stringify(context), ...rest })

  it('is filtered by purpose and context, with an exact total, also where the values are digests', async () => {
    const person = crypto.randomUUID()
    for (const [purpose, record] of [
      ['data', 'values'],
      ['data', 'digests'],
      ['stream', 'values'],
    ])
      await wrap({ purpose, record, context: { model: 'people', person } })
    await wrap({ context: { model: 'people', person: `${person}0` } })
    expect(await by({ person })).toMatchObject({ total: 3 })
    expect((await by({ person, model: 'people' })).total).toBe(3)
    expect((await by({ person, model: 'persons' })).total).toBe(0)
    expect((await by({ person }, { purpose: 'stream' })).logs).toMatchObject([{ metadata: { purpose: 'stream' } }])
    expect((await by({ person }, { action: 'key.unwrap' })).total).toBe(0)
    const page = await by({ person }, { limit: '1', offset: '1' })
    expect([page.count, page.total]).toEqual([1, 3])
    expect((await by({ person: person.slice(1) })).total).toBe(0)
  })

  it('is filtered by a context with hash alone, since that confirms a guess of what a digest stands for', async () => {
    const auditorWith = async (of: Caller, permissions: string[]) => {
      const limits = { budgets: { hash: { per_day: 3 } } }
      const { body } = await of.call('POST', '/v1/api-keys', { name: 'auditor', permissions, ...limits })
      return service.caller(body.secret)
    }
    const guess = async (caller: Caller, context: object, rest = '') => {
      const query = `context=${encodeURIComponent(JSON.stringify(context))}${rest}`
      const { status, body } = await caller.call('GET', `/v1/audit?${query}`)
      return body.total ?? `${status} ${body.detail}`
    }
    const person = crypto.randomUUID()
    await wrap({ record: 'digests', context: { person, model: 'people' } })
    const reading = await auditorWith(owner, ['audit:read'])
    const without = '403 missing permission: hash'
    for (const context of [{ person }, { person: 'x' }, { person, model: 'people' }])
      expect(await guess(reading, context)).toBe(without)
    expect(await guess(reading, { person }, `&key_id=${key_id}&purpose=data&action=key.wrap`)).toBe(without)
    const other = await service.createTenant()
    expect(await guess(other, { person }, `&key_id=${key_id}`)).toBe(0)
    const { body } = await reading.call('GET', '/v1/audit?purpose=data&context=%7B%7D&limit=1') // names no value
    expect(body.logs[0].metadata).toHaveProperty(['context_hmac.person'])
    const hashing = await auditorWith(owner, ['audit:read', 'hash'])
    expect(await guess(hashing, { person })).toBe(1)
    expect(await guess(hashing, { person: 'x', model: 'people' })).toBe(0)
    expect(await guess(hashing, { person, model: 'people' }, '&offset=1')).toBe(1)
    expect(await guess(hashing, { person })).toMatch(/^429 the budget of this API key for hashes, 3 a day/)
    const day = (await owner.call('GET', '/v1/usage')).body.by_api_key
    expect(day).toContainEqual(expect.objectContaining({ kind: 'hash', today: 3 }))
    expect(await guess(await auditorWith(owner, ['audit:read', 'encrypt']), { person })).toBe(1) // encrypt includes hash
  })

  it('is filtered by actor and end user, with an exact total', async () => {
    const permissions = ['wrap', 'audit:on_behalf_of']
    const { body } = await owner.call('POST', '/v1/api-keys', { name: 'by actor', permissions })
    const caller = service.caller(body.secret)
    const user = `"${crypto.randomUUID()}`
    const wrapFor = (headers: Record<string, string>) =>
      caller.call('POST', `/v1/keys/${key_id}/wrap`, { dek }, headers)
    for (const headers of [{}, { 'eaas-on-behalf-of': user }]) await wrapFor(headers)
    expect(await list({ actor: body.id })).toMatchObject({ total: 2 })
    expect(await list({ actor: body.id, on_behalf_of: user })).toMatchObject({ total: 1, logs: [{ actor: body.id }] })
    expect(await list({ on_behalf_of: user, limit: '1', offset: '1' })).toMatchObject({ total: 1, count: 0 })
    expect(await list({ on_behalf_of: user.slice(1) })).toMatchObject({ total: 0 })
    expect(await list({ actor: body.id, action: 'key.unwrap' })).toMatchObject({ total: 0 })
    for (const wrong of [{ on_behalf_of: 'a b' }, { actor: 'a\0' }])
      expect(await list(wrong)).toMatchObject({ status: 400, code: 'E_VALIDATION' })
  })

  it('takes no value for another member', async () => {
    const name = crypto.randomUUID()
    await wrap({ context: { a: `x","context.b":"${name}` } })
    expect((await by({ b: name })).total).toBe(0)
    expect((await by({ a: `x","context.b":"${name}` })).total).toBe(1)
  })

  it.each(['{', '[]', '7', '""', '{"row":7}', '{"":"x"}'])('refuses %s as a context', async (context) => {
    expect(await list({ context })).toMatchObject({ status: 400, code: 'E_VALIDATION' })
  })

  it('refuses a filter that no index helps and that would read more than 500,000 entries, and says what to do', async () => {
    const tenant = await service.createTenant()
    const { tenant_id } = tenant.tenant
    await service.services.sql`update heads set last_id = last_id where tenant_id = ${tenant_id}`
    await service.services.sql`
      insert into audit_log (tenant_id, id, action, actor, created_at, hash, mac)
      values (${tenant_id}, 600000, 'key.wrap', 'test', now(), '', '')`
    for (const filter of ['purpose=data', 'context={"row":"7"}', 'actor=x', 'on_behalf_of=x']) {
      const { body } = await tenant.call('GET', `/v1/audit?${filter}`)
      expect(body).toMatchObject({ status: 400, code: 'E_VALIDATION' })
      expect(body.detail).toMatch(
        /^a filter by actor, end user, purpose or context reads .* which has 600000; name date_from/,
      )
    }
  })
})
