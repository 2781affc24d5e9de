// API keys that are limited to keys: another key is as one of another tenant, in the answer, in the statements that the database is sent,
// and in every item of a batch. What they may grant is in sdk/contract/api-keys.ts.
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { dek, ELEMENT } from '../support/audit/audit-scene.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

let service: Service
let owner: Caller
let limited: Caller
let foreign: string
const keys: Record<string, string> = {}

beforeAll(async () => {
  service = await startService()
  owner = await service.createTenant({ envelope_only: false })
  for (const name of ['customers/7', 'customers', 'customersx/7', 'listed', 'a%_b/7', 'axyb/7'])
    keys[name] = (await owner.call('POST', '/v1/keys', { name })).body.id
  foreign = (await (await service.createTenant()).call('POST', '/v1/keys', { name: 'customers/7' })).body.id
  const { body } = await owner.call('POST', '/v1/api-keys', {
    name: 'limited',
    permissions: [
      'encrypt',
      'decrypt',
      'keys:read',
      'keys:rotate',
      'keys:disable',
      'keys:destroy',
      'keys:export',
      'api_keys:manage',
    ],
    keys: ['customers/*', keys.listed, 'a%_b/*'],
  })
  limited = service.caller(body.secret)
})
afterAll(() => service?.close())

const wrapped = async (name: string) =>
  (await owner.call('POST', `/v1/keys/${keys[name]}/wrap`, { dek: dek() })).body.wrapped_key

/** Every call on a key. */
const CALLS: [method: string, path: string, body?: object][] = [
  ['GET', ''],
  ['PATCH', '', { min_unwrap_version: 1 }],
  ['POST', '/rotate'],
  ['PATCH', '/rotation', { interval_days: 7 }],
  ['POST', '/enable'],
  ['DELETE', ''],
  ['POST', '/destroy', { confirm: 'x' }],
  ['POST', '/destroy/cancel'],
  ['POST', '/export'],
  ['POST', '/wrap', { dek: dek() }],
  ['POST', '/unwrap', { wrapped_key: Buffer.alloc(65, 1).toString('base64') }],
  ['POST', '/index-secret', { name: 'x' }],
  ['POST', '/rewrap', { wrapped_key: Buffer.alloc(65, 1).toString('base64') }],
]

/** Runs a call and returns the statements that the service sent meanwhile, without what differs from id to id. */
async function statementsOf(run: () => Promise<unknown>): Promise<string[]> {
  const { sql } = service.services
  const sent: string[] = []
  const { debug } = sql.options
  sql.options.debug = (_connection: number, query: string) => void sent.push(query)
  try {
    await run()
  } finally {
    sql.options.debug = debug
  }
  return sent
}

describe('a key that is not on the list of an API key', () => {
  it.each(CALLS)("is as another tenant's: %s …%s", async (method, path, body) => {
    const answer = (id: string | undefined) => limited.call(method, `/v1/keys/${id}${path}`, body)
    const { status, body: other } = await answer(foreign)
    expect([status, other.code]).toEqual([404, 'E_NOT_FOUND'])
    for (const id of [keys.customers, keys['customersx/7'], keys['axyb/7'], randomUUID(), 'customers'])
      expect(await answer(id)).toMatchObject({ status, body: other })
  })

  it('is so in server mode, for a hash, and in each item of a batch', async () => {
    for (const [path, body] of [
      ['/v1/hash', { value: 'x' }],
      ['/v1/hash/blind', { elements: [ELEMENT] }],
      ['/v1/encrypt', { plaintext: 'x' }],
    ] as const) {
      const answers = [foreign, keys.customers].map((key_id) => limited.call('POST', path, { ...body, key_id }))
      expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([404, 404])
    }
    const items = (key_id: string | undefined) => [
      { op: 'wrap', key_id, dek: dek() },
      { op: 'unwrap', key_id, wrapped_key: '' },
      { op: 'rewrap', key_id, wrapped_key: '' },
      { op: 'hash', key_id, value: 'x' },
      { op: 'encrypt', key_id, plaintext: 'x' },
      { op: 'indexSecret', key_id, name: 'x' },
      { op: 'blind_hash', key_id, elements: [ELEMENT] },
    ]
    const operations = [...items(keys.customers), ...items(keys['customers/7'])]
    const { results } = (await limited.call('POST', '/v1/batch', { operations })).body
    expect(results.map((one: { status: number }) => one.status)).toEqual([
      404, 404, 404, 404, 404, 404, 404, 200, 403, 403, 200, 200, 200, 200,
    ])
  })

  it("takes the statements that another tenant's takes, whether it was used before or not", async () => {
    const read = (id: string | undefined) => limited.call('GET', `/v1/keys/${id}`)
    for (let warm = 0; warm < 2; warm++) await read(foreign)
    await owner.call('GET', `/v1/keys/${keys.customers}`) // now it is loaded
    const expected = await statementsOf(() => read(foreign))
    expect(expected.some((query) => query.includes('from keys'))).toBe(true)
    expect(await statementsOf(() => read(keys.customers))).toEqual(expected)
    expect(await statementsOf(() => read(keys['axyb/7']))).toEqual(expected) // nobody has used it
    expect(await statementsOf(() => read(randomUUID()))).toEqual(expected)
  })

  it('is not in lists, also where it is asked for by its name', async () => {
    const names = async (query = '') =>
      (await limited.call('GET', `/v1/keys${query}`)).body.keys.map(({ name }: { name: string }) => name)
    expect(await names()).toEqual(['customers/7', 'listed', 'a%_b/7'])
    expect(await names('?name=customers')).toEqual([])
    expect(await names('?limit=1&offset=1')).toEqual(['listed'])
  })

  it('has no entries that a search of the log by a context finds, which would confirm a guess of a digest', async () => {
    const { body } = await owner.call('POST', '/v1/api-keys', {
      name: 'searching',
      permissions: ['audit:read', 'hash'],
      keys: ['customers/*', keys.listed],
      budgets: { hash: { per_day: 4 } },
    })
    const searching = service.caller(body.secret)
    const context = { person: randomUUID() }
    for (const name of ['customers', 'customersx/7', 'listed'])
      await owner.call('POST', `/v1/keys/${keys[name]}/wrap`, { dek: dek(), context, record: 'digests' })
    const search = async (caller: Caller, query: Record<string, string | undefined>, of: object = context) => {
      const parameters = new URLSearchParams({ ...query, context: JSON.stringify(of) } as Record<string, string>)
      const { status, body } = await caller.call('GET', `/v1/audit?${parameters}`)
      return status === 200 ? body.total : `${status} ${body.detail}`
    }
    expect(await search(owner, {})).toBe(3)
    const more = { action: 'key.wrap', purpose: 'data', limit: '1' }
    for (const of of [context, { person: 'x' }])
      for (const query of [{}, more])
        expect(await search(searching, query, of)).toMatch(/^400 key_id: this API key is limited to keys/)
    for (const key_id of [keys.customers, keys['customersx/7'], foreign, randomUUID(), keys.customers?.toUpperCase()])
      expect(await search(searching, { ...more, key_id })).toBe('404 key not found')
    expect(await search(searching, { key_id: keys['customers/7'] })).toBe(0)
    expect(await search(searching, { key_id: keys.listed })).toBe(1)
    expect(await search(searching, { key_id: keys.listed?.toUpperCase() })).toBe(1)
    expect(await search(searching, { key_id: keys.listed }, { person: 'x' })).toBe(0)
    expect(await search(searching, { key_id: keys.listed })).toMatch(/^429 /) // what was refused took none of it
  })

  it('is not named by the entry of a refusal', async () => {
    const other = await service.createTenant()
    const { id } = (await other.call('POST', '/v1/keys', { name: 'key' })).body
    const { secret } = (await other.call('POST', '/v1/api-keys', { name: 'n', permissions: ['encrypt'], keys: [] }))
      .body
    await service.caller(secret).call('POST', '/v1/encrypt', { key_id: id, plaintext: 'x' })
    const { logs } = (await other.call('GET', '/v1/audit?action=envelope_only.refused')).body
    expect(logs).toMatchObject([{ key_id: null }])
  })
})

describe('a key that is on the list', () => {
  it('is used at no more statements than by an API key without a list', async () => {
    const unwrap = async (caller: Caller, name: string) => {
      const wrapped_key = await wrapped(name)
      return () => caller.call('POST', `/v1/keys/${keys[name]}/unwrap`, { wrapped_key })
    }
    for (const name of ['customers/7', 'listed']) {
      const [free, listed] = [await unwrap(owner, name), await unwrap(limited, name)]
      expect((await listed()).status).toBe(200)
      expect(await statementsOf(listed)).toEqual(await statementsOf(free))
    }
  })

  it('is so from the next call on after the list was changed, on every server', async () => {
    const { body } = await owner.call('POST', '/v1/api-keys', {
      name: 'n',
      permissions: ['keys:read'],
      keys: [keys.listed],
    })
    const caller = service.caller(body.secret)
    const read = async (name: string) => (await caller.call('GET', `/v1/keys/${keys[name]}`)).status
    expect([await read('listed'), await read('customers')]).toEqual([200, 404])
    await owner.call('PATCH', `/v1/api-keys/${body.id}`, { keys: [keys.customers] })
    expect([await read('listed'), await read('customers')]).toEqual([404, 200])
    await owner.call('PATCH', `/v1/api-keys/${body.id}`, { keys: null })
    expect([await read('listed'), await read('customers')]).toEqual([200, 200])
  })
})
