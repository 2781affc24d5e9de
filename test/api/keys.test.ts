import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { rotateKeyUnderEarlier } from '../../packages/server/src/core/api/key-rotation.js'
import type { Operation } from '../../packages/server/src/core/runner/operation.js'
import { performAsSystem } from '../../packages/server/src/core/runner/perform.js'
import { serverOf } from '../support/audit/audit-scene.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

let service: Service
let owner: Caller

beforeAll(async () => {
  service = await startService()
  owner = await service.createTenant()
})
afterAll(() => service?.close())

async function newKey(name = `key ${randomBytes(6).toString('hex')}`): Promise<string> {
  const { status, body } = await owner.call('POST', '/v1/keys', { name })
  expect(status).toBe(201)
  return body.id
}
const dek = () => randomBytes(32).toString('base64')

describe('keys', () => {
  it('shows a new key with the same values under both of their names', async () => {
    const { status, body } = await owner.call('POST', '/v1/keys', {
      name: 'ключ 🗝',
      algorithm: 'AES-256-GCM',
      ignored: 1,
    })
    expect(status).toBe(201)
    expect(body).toEqual({
      id: body.key_id,
      key_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      name: 'ключ 🗝',
      algorithm: 'AES-256-GCM',
      status: 'active',
      current_version: 1,
      key_version: 1,
      min_unwrap_version: 1,
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      rotation: null,
    })
    const read = await owner.call('GET', `/v1/keys/${body.id}`)
    expect(read.body).toEqual({
      ...body,
      updated_at: body.created_at,
      blind_hash_public_key: expect.stringMatching(/^[A-Za-z0-9+/]{43}=$/),
      versions: [{ version: 1, status: 'active', created_at: body.created_at, wraps: 0 }],
    })
  })

  it('takes a name of 255 characters that are two UTF-16 units each', async () => {
    expect((await owner.call('POST', '/v1/keys', { name: '🗝'.repeat(255) })).status).toBe(201)
  })

  it('refuses to wrap a DEK of zeros, alone and in a batch, and records nothing', async () => {
    const id = await newKey()
    const zeros = Buffer.alloc(32).toString('base64')
    const refusal = {
      status: 400,
      code: 'E_VALIDATION',
      detail: 'dek: must not be 32 zero bytes: make each DEK of secure random bytes',
    }
    const alone = await owner.call('POST', `/v1/keys/${id}/wrap`, { dek: zeros })
    expect(alone.status).toBe(400)
    expect(alone.body).toMatchObject(refusal)
    const operations = [zeros, dek()].map((each) => ({ op: 'wrap', key_id: id, dek: each }))
    const { results } = (await owner.call('POST', '/v1/batch', { operations })).body
    expect(results.map((result: { status: number }) => result.status)).toEqual([400, 200])
    expect(results[0].body).toMatchObject(refusal)
    const { logs } = (await owner.call('GET', `/v1/audit?key_id=${id}`)).body
    expect(logs.map(({ action }: { action: string }) => action)).toEqual(['key.wrap', 'key.create'])
  })
})

describe('a key with 100 versions', () => {
  it('gets at most 60 in an hour from callers, which no other key and no tenant but its own notices', async () => {
    const id = await newKey()
    for (let version = 2; version <= 100; version++) await owner.call('POST', `/v1/keys/${id}/rotate`)
    const { status, body } = await owner.call('POST', `/v1/keys/${id}/rotate`)
    const { versions } = (await owner.call('GET', `/v1/keys/${id}`)).body
    expect([status, body.code, versions.length]).toEqual([409, 'E_LIMIT', 100])
    const until = new Date(Date.parse(versions[40].created_at) + 3_600_000).toISOString()
    expect(body.detail).toContain(`rotate it from ${until} on`)

    const neighbour = await service.createTenant()
    const { id: theirs } = (await neighbour.call('POST', '/v1/keys', { name: 'theirs' })).body
    expect((await neighbour.call('POST', `/v1/keys/${theirs}/rotate`)).status).toBe(200)
    expect((await neighbour.call('POST', `/v1/keys/${id}/rotate`)).status).toBe(404)
    expect((await owner.call('POST', `/v1/keys/${await newKey()}/rotate`)).status).toBe(200)
    // What the server rotates by itself waits for nobody: here as after the loss of a store key.
    const rotated = rotateKeyUnderEarlier({ key_id: id, number: 99 })
    await performAsSystem(service.services, owner.tenant.tenant_id, rotated)
    expect((await owner.call('GET', `/v1/keys/${id}`)).body.current_version).toBe(101)
  })
})

describe('a call on a state that another server has changed', () => {
  it('is decided twice: on that state, and on the current one', async () => {
    const { tenant_id } = owner.tenant
    const other = serverOf(service)
    try {
      let decisions = 0
      const count: Operation<number> = () => {
        decisions += 1
        return { entries: [{ action: 'key.wrap' }], release: () => decisions }
      }
      expect(await performAsSystem(other.services, tenant_id, count)).toBe(1)
      await newKey()
      expect(await performAsSystem(other.services, tenant_id, count)).toBe(3)
    } finally {
      await other.app.close()
    }
  })
})
