// POST /v1/batch: many calls in one request, each with the same result as if it were made alone.
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { buildApp } from '../../packages/server/src/app.js'
import { createTenantStates } from '../../packages/server/src/core/runner/tenant-state.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

let service: Service
let owner: Caller
let key_id: string

beforeAll(async () => {
  service = await startService()
  owner = await service.createTenant({ envelope_only: false })
  key_id = (await owner.call('POST', '/v1/keys', { name: 'k' })).body.id
})
afterAll(() => service?.close())

const dek = () => randomBytes(32).toString('base64')
const batch = (operations: unknown, caller = owner) => caller.call('POST', '/v1/batch', { operations })
const total = async (caller = owner) => (await caller.call('GET', '/v1/audit?limit=1')).body.total

describe('a batch', () => {
  it('whose one key was tampered with answers all other calls, and tells the log of that one', async () => {
    const { sql } = service.services
    const tampered = (await owner.call('POST', '/v1/keys', { name: 'tampered' })).body.id
    await sql`update keys set rotation_interval_days = 1 where key_id = ${tampered}`
    const logged: string[] = []
    const stream = { write: (line: string) => void logged.push(line) }
    const logger = { level: 'error', stream }
    const services = { ...service.services, states: createTenantStates(service.services) } // has nothing open yet
    const app = buildApp({ services, findDurability: async () => 'synchronous', logger })
    try {
      const before = await total()
      const operations = [key_id, tampered, key_id].map((id) => ({ op: 'wrap', key_id: id, dek: dek() }))
      const headers = { authorization: `Bearer ${owner.secret}` }
      const answer = await app.inject({ method: 'POST', url: '/v1/batch', headers, payload: { operations } })
      const url = `/v1/keys/${tampered}/wrap`
      const single = await app.inject({ method: 'POST', url, headers, payload: { dek: dek() } })
      const { results } = answer.json()
      expect(results.map((result: { status: number }) => result.status)).toEqual([200, 500, 200])
      expect(results[1].body).toEqual(single.json())
      expect(await total()).toBe(before + 2)
      // The line of the single call, which failed alike, is left out.
      const error = expect.stringContaining('TamperedRowError')
      expect(logged.map((line) => JSON.parse(line))).toMatchObject([{ status: 200, msg: 'tampered with', error }])
    } finally {
      await app.close()
    }
  })

  it('answers each call in its place with the status and body of the single call', async () => {
    const secret = dek()
    const { wrapped_key } = (await owner.call('POST', `/v1/keys/${key_id}/wrap`, { dek: secret })).body
    const bundle = (await owner.call('POST', '/v1/encrypt', { key_id, plaintext: 'x' })).body
    const before = await total()
    const { status, body } = await batch([
      { op: 'unwrap', key_id, wrapped_key },
      { op: 'wrap', key_id, dek: secret },
      { op: 'hash', key_id, value: 'x' },
      { op: 'rewrap', key_id, wrapped_key },
      { op: 'encrypt', key_id, plaintext: 'y' },
      { op: 'decrypt', ...bundle },
      { op: 'wrap', key_id, dek: 'AAAA' },
      { op: 'wrap', key_id: 'nope', dek: secret },
      { op: 'unwrap', key_id, wrapped_key: 'AAAA' },
      { op: 'decrypt', ...bundle, ciphertext: dek() },
      { op: 'wrap', dek: secret },
    ])
    expect(status).toBe(200)
    const { results } = body
    expect(results.map((result: { status: number }) => result.status)).toEqual([
      200, 200, 200, 200, 200, 200, 400, 404, 403, 422, 400,
    ])
    expect(results[0].body).toEqual({ dek: secret, key_id, key_version: 1 })
    expect(results[2].body).toEqual((await owner.call('POST', '/v1/hash', { key_id, value: 'x' })).body)
    expect(results[5].body).toEqual({ plaintext: 'x' })
    expect(results[6].body).toEqual((await owner.call('POST', `/v1/keys/${key_id}/wrap`, { dek: 'AAAA' })).body)
    expect(results[7].body).toEqual((await owner.call('POST', '/v1/keys/nope/wrap', { dek: secret })).body)
    expect(results[8].body.code).toBe('E_WRAPPED_KEY')
    const { logs } = (await owner.call('GET', `/v1/audit?after_id=${before}&order=asc`)).body
    expect(logs.map((entry: { action: string }) => entry.action)).toEqual([
      'key.unwrap',
      'key.wrap',
      'key.wrap',
      'encrypt',
      'decrypt',
    ])
  })

  it('of 1,000 is taken, of 1,001 or none is not', async () => {
    const operations = Array.from({ length: 1_000 }, () => ({ op: 'wrap', key_id, dek: dek() }))
    const before = await total()
    const { status, body } = await batch(operations)
    expect([status, body.results.length, await total()]).toEqual([200, 1_000, before + 1_000])
    expect((await batch([...operations, operations[0]])).status).toBe(400)
    expect((await batch([])).status).toBe(400)
    expect(await total()).toBe(before + 1_000)
  })

  it('on an envelope-only tenant refuses the calls of server mode on record, and does the others', async () => {
    const closed = await service.createTenant()
    const { id } = (await closed.call('POST', '/v1/keys', { name: 'k' })).body
    const before = await total(closed)
    const { body } = await batch(
      [{ op: 'encrypt' }, { op: 'wrap', key_id: id, dek: dek() }, { op: 'decrypt', key_id: id }],
      closed,
    )
    expect(body.results.map((result: { status: number }) => result.status)).toEqual([403, 200, 403])
    expect(body.results[0].body.detail).toMatch(/^E_ENVELOPE_ONLY:/)
    const { logs } = (await closed.call('GET', `/v1/audit?after_id=${before}&order=asc`)).body
    expect(logs.map((entry: { action: string }) => entry.action)).toEqual([
      'envelope_only.refused',
      'key.wrap',
      'envelope_only.refused',
    ])
  })

  it('that fails as a whole zeroes the DEKs of the calls before the one that failed', async () => {
    const secret = randomBytes(32)
    const { id } = (await owner.call('POST', '/v1/keys', { name: 'out of reach' })).body
    const { body } = await owner.call('POST', `/v1/keys/${key_id}/wrap`, { dek: secret.toString('base64') })
    const { wrapped_key } = body
    const state = await service.services.states.find(owner.tenant.tenant_id)
    if (!state) throw new Error('no state')
    const findKey = state.findKey.bind(state)
    const finding = vi.spyOn(state, 'findKey').mockImplementation(async (wanted) => {
      if (wanted === id) throw new Error('the database went')
      return findKey(wanted)
    })
    const zeroed: string[] = []
    const spies = [Buffer.prototype, Uint8Array.prototype].map((prototype) => {
      const fill = prototype.fill as (...args: unknown[]) => Uint8Array
      return vi.spyOn(prototype, 'fill').mockImplementation(function (this: Uint8Array, ...args: unknown[]) {
        if (args[0] === 0) zeroed.push(Buffer.from(this).toString('base64'))
        return fill.apply(this, args)
      } as never)
    })
    try {
      const { status } = await batch([
        { op: 'unwrap', key_id, wrapped_key },
        { op: 'wrap', key_id: id, dek: dek() },
      ])
      expect([status, zeroed.includes(secret.toString('base64'))]).toEqual([500, true])
    } finally {
      for (const spy of [finding, ...spies]) spy.mockRestore()
    }
  })

  it('may be larger than other bodies, up to 8 MiB', async () => {
    const filler = 'x'.repeat(60_000)
    const operations = Array.from({ length: 100 }, () => ({ op: 'encrypt', key_id, plaintext: filler }))
    expect((await batch(operations)).status).toBe(200)
    const answer = await batch(Array.from({ length: 150 }, () => ({ op: 'encrypt', key_id, plaintext: filler })))
    expect([answer.status, answer.body.code]).toEqual([413, 'E_BODY_TOO_LARGE'])
  })
})
