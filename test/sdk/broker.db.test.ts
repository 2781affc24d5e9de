// The broker before the real service: what it lets through is decided there once more, and is on record under the user's name.
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type BrokerOptions, createBroker } from '../../packages/sdk/src/broker.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

const APPLICATION = 'https://app.example.org'

let service: Service
let owner: Caller
let neighbour: Caller
let keyId: string
let neighboursKey: string
let brokerKey: string

beforeAll(async () => {
  service = await startService()
  owner = await service.createTenant()
  neighbour = await service.createTenant()
  keyId = (await owner.call('POST', '/v1/keys', { name: 'k' })).body.id
  neighboursKey = (await neighbour.call('POST', '/v1/keys', { name: 'k' })).body.id
  brokerKey = await mint(['encrypt', 'decrypt', 'audit:on_behalf_of'])
})
afterAll(() => service?.close())

async function mint(permissions: string[]): Promise<string> {
  return (await owner.call('POST', '/v1/api-keys', { name: 'broker', permissions })).body.secret
}

/** Calls a broker that lets everything through, as its page would. */
async function ask(path: string, body: unknown, options: Partial<BrokerOptions> = {}) {
  const broker = createBroker({
    baseUrl: service.url,
    apiKey: brokerKey,
    authenticate: () => ({ id: 'Zoë, the doctor' }),
    allow: () => true,
    ...options,
  })
  const headers = { 'content-type': 'application/json', origin: APPLICATION }
  const response = await broker(
    new Request(`${APPLICATION}/api/eaas/v1/${path}`, { method: 'POST', headers, body: JSON.stringify(body) }),
  )
  // biome-ignore lint/suspicious/noExplicitAny: the tests look at the fields that they expect, whatever the answer is
  return { status: response.status, body: (await response.json()) as any }
}

const dek = () => randomBytes(32).toString('base64')
const entriesOf = async (caller: Caller) => (await caller.call('GET', '/v1/audit')).body

describe('a broker before the service', () => {
  it('has each wrap and unwrap written down under the name of the user, in a batch too', async () => {
    const sent = dek()
    const { wrapped_key } = (await ask(`keys/${keyId}/wrap`, { dek: sent })).body
    const operations = [
      { op: 'unwrap', key_id: keyId, wrapped_key },
      { op: 'hash', key_id: keyId, value: 'v' },
      { op: 'wrap', key_id: keyId, dek: dek() },
    ]
    const { results } = (await ask('batch', { operations })).body
    expect(results.map((result: { status: number }) => result.status)).toEqual([200, 200, 200])
    expect(results[0].body.dek).toBe(sent)
    const { logs } = await entriesOf(owner)
    expect(logs.slice(0, 3).map((entry: { action: string }) => entry.action)).toEqual([
      'key.wrap',
      'key.unwrap',
      'key.wrap',
    ])
    for (const { metadata } of logs.slice(0, 3)) {
      expect(decodeURIComponent(metadata.on_behalf_of)).toBe('Zoë, the doctor')
    }
  })

  it("finds no key of a neighbour, and leaves nothing in the neighbour's log", async () => {
    const before = (await entriesOf(neighbour)).total
    expect(await ask(`keys/${neighboursKey}/wrap`, { dek: dek() })).toMatchObject({
      status: 404,
      body: { code: 'E_NOT_FOUND' },
    })
    const operations = [neighboursKey, keyId].map((key_id) => ({ op: 'hash', key_id, value: 'v' }))
    const { results } = (await ask('batch', { operations })).body
    expect(results.map((result: { status: number }) => result.status)).toEqual([404, 200])
    expect((await entriesOf(neighbour)).total).toBe(before)
  })

  it('can do no more than its API key, and tells whoever runs it what the key lacks, not the page', async () => {
    const reported: unknown[] = []
    const onError = (error: unknown) => reported.push(error)
    const writer = await mint(['encrypt', 'audit:on_behalf_of'])
    const mute = await mint(['encrypt', 'decrypt']) // may not speak for users
    for (const call of [
      ask(`keys/${keyId}/unwrap`, { wrapped_key: 'AAAA' }, { apiKey: writer, onError }),
      ask(`keys/${keyId}/wrap`, { dek: dek() }, { apiKey: mute, onError }),
    ]) {
      expect(await call).toMatchObject({ status: 502, body: { code: 'E_BAD_GATEWAY' } })
    }
    const sentence = "UpstreamError: the service refused the broker's API key: E_MISSING_PERMISSION"
    expect(reported.map(String)).toEqual([sentence, sentence])
  })

  it('tells the page 502, not 401, once its API key is revoked', async () => {
    const reported: unknown[] = []
    const created = await owner.call('POST', '/v1/api-keys', {
      name: 'b',
      permissions: ['encrypt', 'audit:on_behalf_of'],
    })
    await owner.call('DELETE', `/v1/api-keys/${created.body.id}`)
    const options = { apiKey: created.body.secret, onError: (error: unknown) => reported.push(error) }
    expect(await ask(`keys/${keyId}/wrap`, { dek: dek() }, options)).toMatchObject({
      status: 502,
      body: { code: 'E_BAD_GATEWAY' },
    })
    expect(reported.map(String)).toEqual(["UpstreamError: the service refused the broker's API key: E_UNAUTHORIZED"])
  })
})
