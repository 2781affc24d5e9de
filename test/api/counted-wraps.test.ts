// What each version of a key wrapped, and the rotation after so many wraps: once, whatever the number of servers.
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { rotateAfterWraps } from '../../packages/server/src/core/jobs/due-work.js'
import { performAsSystem } from '../../packages/server/src/core/runner/perform.js'
import { resumeTenant, suspendTenant } from '../../packages/server/src/operators/tenants.js'
import { backend } from '../support/database/database.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

const LIMIT = 100
const environment = { EAAS_ROTATE_AFTER_WRAPS: String(LIMIT) }
const dek = () => randomBytes(32).toString('base64')

let service: Service
/** another one on the same database; the same one where the database is in the server's process */
let other: Service
let owner: Caller
/** the same at the other server */
let elsewhere: Caller
let key_id: string

beforeAll(async () => {
  service = await startService({ environment })
  other = backend() === 'embedded' ? service : await startService({ environment, database: service.database })
})
afterAll(async () => {
  if (other !== service) await other?.close()
  await service?.close()
})
beforeEach(async () => {
  owner = await service.createTenant({ envelope_only: false })
  elsewhere = other.caller(owner.secret)
  key_id = (await owner.call('POST', '/v1/keys', { name: 'k' })).body.id
})

/** Wraps so many DEKs in one batch. */
async function wrap(count: number, caller = owner): Promise<string[]> {
  const operations = Array.from({ length: count }, () => ({ op: 'wrap', key_id, dek: dek() }))
  const { body } = await caller.call('POST', '/v1/batch', { operations })
  return body.results.map((result: { body: { wrapped_key: string } }) => result.body.wrapped_key)
}

const versions = async () => (await owner.call('GET', `/v1/keys/${key_id}`)).body.versions
const wraps = async (): Promise<number[]> => (await versions()).map((version: { wraps: number }) => version.wraps)
const rotations = async () => (await owner.call('GET', `/v1/audit?key_id=${key_id}&action=key.rotate`)).body.logs

describe('a version of a key', () => {
  it('counts what it wrapped: single, in batches, rewrapped and in server mode, at all servers', async () => {
    const [first] = await wrap(3)
    await elsewhere.call('POST', `/v1/keys/${key_id}/wrap`, { dek: dek() })
    await owner.call('POST', '/v1/encrypt', { key_id, plaintext: 'x' })
    await owner.call('POST', `/v1/keys/${key_id}/wrap`, { dek: 'no' }) // refused: nothing was wrapped
    await owner.call('POST', `/v1/keys/${key_id}/rotate`)
    await elsewhere.call('POST', `/v1/keys/${key_id}/rewrap`, { wrapped_key: first })
    expect(await wraps()).toEqual([5, 1])
  })

  it('loses no count when both servers wrap at once', async () => {
    await Promise.all(Array.from({ length: 20 }, (_, at) => wrap(3, at % 2 ? elsewhere : owner)))
    expect(await wraps()).toEqual([60])
  })

  it('tells the day on which it opened something last, and nothing if only a rewrap opened what it wrapped', async () => {
    const [first = '', second = ''] = await wrap(2)
    await owner.call('POST', `/v1/keys/${key_id}/rotate`)
    await owner.call('POST', `/v1/keys/${key_id}/rewrap`, { wrapped_key: first })
    expect((await versions()).map((version: object) => 'last_unwrapped_at' in version)).toEqual([false, false])
    const before = new Date().toISOString()
    await elsewhere.call('POST', `/v1/keys/${key_id}/unwrap`, { wrapped_key: second })
    const days = [before, new Date().toISOString()].map((time) => `${time.slice(0, 10)}T00:00:00.000Z`)
    expect(days).toContain((await versions())[0].last_unwrapped_at)
    expect((await versions())[1]).not.toHaveProperty('last_unwrapped_at')
  })
})

describe('a key that wrapped as often as it may', () => {
  it('is rotated once by two servers at once, by the system, and goes on wrapping until then', async () => {
    await wrap(LIMIT - 1)
    expect(await rotateAfterWraps(service.services)).toBe(0)
    await wrap(6, elsewhere)
    const outcomes = await Promise.all([rotateAfterWraps(service.services), rotateAfterWraps(other.services)])
    expect(outcomes.sort()).toEqual([0, 1])
    expect(await rotateAfterWraps(other.services)).toBe(0)
    const [entry, ...more] = await rotations()
    expect(more).toEqual([])
    expect(entry).toMatchObject({ actor: 'system', ip_address: null, key_version: 2, metadata: { wraps: LIMIT + 5 } })
    await wrap(2, elsewhere)
    expect(await wraps()).toEqual([LIMIT + 5, 2])
    expect((await owner.call('GET', '/v1/audit/verify')).body).toMatchObject({ valid: true })
  })

  it('is rotated again after as many wraps of the new version', async () => {
    await wrap(LIMIT)
    expect(await rotateAfterWraps(service.services)).toBe(1)
    await wrap(LIMIT - 1)
    expect(await rotateAfterWraps(service.services)).toBe(0)
    await wrap(1)
    expect(await rotateAfterWraps(service.services)).toBe(1)
    expect(await wraps()).toEqual([LIMIT, LIMIT, 0])
  })

  it('waits while it is disabled, and while its tenant is suspended', async () => {
    await wrap(LIMIT)
    await owner.call('DELETE', `/v1/keys/${key_id}`)
    expect(await rotateAfterWraps(service.services)).toBe(0)
    await owner.call('POST', `/v1/keys/${key_id}/enable`)
    const { tenant_id } = owner.tenant
    await performAsSystem(service.services, tenant_id, suspendTenant({}))
    expect(await rotateAfterWraps(service.services)).toBe(0)
    await performAsSystem(service.services, tenant_id, resumeTenant({}))
    expect(await rotateAfterWraps(service.services)).toBe(1)
  })

  it('fails alone: the other keys are rotated', async () => {
    await wrap(LIMIT)
    const failing = key_id
    key_id = (await owner.call('POST', '/v1/keys', { name: 'l' })).body.id
    await wrap(LIMIT)
    const { sql } = service.services
    await sql.unsafe(`alter table key_versions add constraint full_up check (key_id <> '${failing}' or version < 2)`)
    const failed: string[] = []
    expect(await rotateAfterWraps(service.services, { onError: (_, id) => failed.push(id) })).toBe(1)
    expect(failed).toEqual([failing])
    await sql`alter table key_versions drop constraint full_up`
    expect(await rotateAfterWraps(service.services)).toBe(1)
  })
})

describe('a KEK that wrapped nearly all that one may, and could not be rotated', () => {
  it('wraps nothing more, and opens what it wrapped, until the key is rotated', async () => {
    const [wrapped_key] = await wrap(1)
    const { sql } = service.services
    const near = 2 ** 32 - 2 ** 28
    const set = (entries: number) =>
      sql`update audit_counts set entries = ${entries} where key_id = ${key_id} and action = 'key.wrap'`
    await sql.unsafe(`alter table key_versions add constraint full_up check (key_id <> '${key_id}' or version < 2)`)
    const bodies: [string, string, object][] = [
      ['POST', `/v1/keys/${key_id}/wrap`, { dek: dek() }],
      ['POST', `/v1/keys/${key_id}/rewrap`, { wrapped_key }],
      ['POST', '/v1/encrypt', { key_id, plaintext: 'x' }],
    ]
    const codes = async () => {
      const answers = []
      for (const [method, path, body] of bodies) answers.push((await owner.call(method, path, body)).body.code)
      return answers
    }
    await set(near - 1)
    await rotateAfterWraps(service.services, { onError: () => undefined })
    expect(await codes()).toEqual([undefined, undefined, undefined])
    await set(near)
    await rotateAfterWraps(service.services, { onError: () => undefined })
    expect(await codes()).toEqual(['E_LIMIT', 'E_LIMIT', 'E_LIMIT'])
    expect((await owner.call('POST', `/v1/keys/${key_id}/unwrap`, { wrapped_key })).status).toBe(200)
    await sql`alter table key_versions drop constraint full_up`
    await owner.call('POST', `/v1/keys/${key_id}/rotate`)
    expect(await codes()).toEqual([undefined, undefined, undefined])
  })
})
