// A member that an object has twice: a proxy in front may read the other one, so no call takes it.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestService } from '../../packages/sdk/src/testing.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

let service: Service
let owner: Caller
let id: string
beforeAll(async () => {
  service = await startService()
  owner = await service.createTenant()
  id = (await owner.call('POST', '/v1/keys', { name: 'k' })).body.id
})
afterAll(() => service?.close())

const dek = Buffer.alloc(32, 1).toString('base64')
const REPEATED = { status: 400, code: 'E_MALFORMED_REQUEST', detail: expect.stringContaining('has a member twice') }

async function send(method: string, path: string, body: string, url = service.url, secret = owner.secret) {
  const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' }
  return (await fetch(`${url}${path}`, { method, headers, body })).json()
}

const bodies = (): [string, string, string][] => [
  ['POST', '/v1/keys', '{"name":"a","na\\u006de":"b"}'],
  ['POST', '/v1/batch/keys', '{"keys":[{"name":"a"},{"name":"b","name":"c"}]}'],
  ['POST', `/v1/keys/${id}/wrap`, `{"dek":"${dek}","context":{"row":"1","r\\u006fw":"2"}}`],
  ['POST', '/v1/batch', `{"operations":[{"op":"wrap","key_id":"${id}","dek":"${dek}","op":"hash"}]}`],
  ['POST', '/v1/api-keys', '{"name":"a","permissions":[],"budgets":{"hash":{"per_day":1,"per_day":9}}}'],
  ['POST', '/v1/hash', `{"value":"a","key_id":"${id}","value":"b"}`],
  ['PATCH', `/v1/keys/${id}`, '{"min_unwrap_version":1,"min_unwrap_version":1}'],
]

describe('a member twice', () => {
  it.each([0, 1, 2, 3, 4, 5, 6])('is refused in a body (%d), which does nothing', async (at) => {
    const [method, path, body] = bodies()[at] ?? ['', '', '']
    const before = (await owner.call('GET', '/v1/audit')).body.total
    expect(await send(method, path, body)).toMatchObject(REPEATED)
    expect((await owner.call('GET', '/v1/audit')).body.total).toBe(before)
  })

  it('is refused in a long batch, which is parsed as it arrives', async () => {
    const value = 'a'.repeat(1_000)
    const items = Array.from({ length: 999 }, () => `{"op":"hash","key_id":"${id}","value":"${value}"}`)
    const batch = (last: string) => `{"operations":[${items.join()},${last}]}`
    const [plain = ''] = items
    expect((await send('POST', '/v1/batch', batch(plain))).results).toHaveLength(1_000)
    const twice = plain.replace('{', '{"v\\u0061lue":"b",')
    expect(await send('POST', '/v1/batch', batch(twice))).toMatchObject(REPEATED)
    expect(await send('POST', '/v1/batch', batch(plain).replace('{', '{"operations":[],'))).toMatchObject(REPEATED)
  })

  it('is refused in the JSON of a query, however deep that is', async () => {
    for (const context of ['{"row":"7","row":"8"}', '{"row":"7","r\\u006fw":"7"}', '['.repeat(5_000)]) {
      const { status, body } = await owner.call('GET', `/v1/audit?context=${encodeURIComponent(context)}`)
      expect([status, body.code]).toEqual([400, 'E_VALIDATION'])
    }
  })

  it("is refused by the SDK's service for tests", async () => {
    const fake = createTestService()
    const headers = { authorization: `Bearer ${fake.apiKey}`, 'content-type': 'application/json' }
    const body = '{"name":"a","na\\u006de":"b"}'
    const answer = await fake.fetch(`${fake.baseUrl}/v1/keys`, { method: 'POST', headers, body })
    expect(JSON.parse(await answer.text())).toMatchObject(REPEATED)
  })
})
