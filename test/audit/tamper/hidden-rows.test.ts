// Rows that an attacker removes while a change is made, and restores unchanged afterwards.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { revokeApiKey } from '../../../packages/server/src/core/api/api-keys.js'
import type { Operation } from '../../../packages/server/src/core/runner/operation.js'
import { performAsSystem } from '../../../packages/server/src/core/runner/perform.js'
import { updateTenant } from '../../../packages/server/src/operators/tenants.js'
import { serverOf } from '../../support/audit/audit-scene.js'
import { insertFrom } from '../../support/database/migrations.js'
import { type Caller, type Service, startService } from '../../support/service/service.js'

const DEK = Buffer.alloc(32, 1).toString('base64')

let service: Service
let owner: Caller
let tenant_id: string
/** a disabled key of two versions */
let key_id: string
/** wrapped under its first version */
let wrapped_key: string

beforeAll(async () => {
  service = await startService({ environment: { EAAS_DESTROY_WINDOW_DAYS: '0' } })
})
afterAll(() => service?.close())

beforeEach(async () => {
  owner = await service.createTenant()
  tenant_id = owner.tenant.tenant_id
  key_id = (await owner.call('POST', '/v1/keys', { name: 'k' })).body.id
  wrapped_key = (await owner.call('POST', `/v1/keys/${key_id}/wrap`, { dek: DEK })).body.wrapped_key
  await owner.call('POST', `/v1/keys/${key_id}/rotate`)
  await owner.call('DELETE', `/v1/keys/${key_id}`)
})

/** Removes a version's row; returns a function that restores it. */
async function hideVersion(version: number): Promise<() => Promise<unknown>> {
  const { sql } = service.services
  const where = sql`where key_id = ${key_id} and version = ${version}`
  await sql`drop table if exists hidden`
  await sql`create table hidden as select * from key_versions ${where}`
  await sql`delete from key_versions ${where}`
  return () => sql.unsafe(insertFrom('key_versions', 'hidden'))
}

/** Reads for each version whether its KEK exists. */
async function keks(): Promise<boolean[]> {
  const rows = await service.services.sql<{ there: boolean }[]>`
    select wrapped_kek is not null as there from key_versions where key_id = ${key_id} order by version`
  return rows.map(({ there }) => there)
}

const destroy = () => owner.call('POST', `/v1/keys/${key_id}/destroy`, { confirm: 'k' })
const logLength = async () => (await owner.call('GET', '/v1/audit?limit=1')).body.total

/** Calls a server that has nothing cached. */
async function askAnew(method: string, path: string, body?: unknown): Promise<{ status: number; code: string }> {
  const answer = await serverOf(service).call(owner.secret, method, path, body)
  return { status: answer.status, code: answer.body.code }
}

describe('the version of a key that is hidden', () => {
  it.each([1, 2])('keeps the key from being destroyed without it: version %i', async (version) => {
    await owner.call('GET', `/v1/keys/${key_id}`) // whole in the cache
    const putBack = await hideVersion(version)
    const before = await logLength()
    expect(await destroy()).toMatchObject({ status: 500, body: { code: 'E_AUDIT_NOT_WRITTEN' } })
    const path = `/v1/keys/${key_id}/destroy`
    expect(await askAnew('POST', path, { confirm: 'k' })).toEqual({ status: 500, code: 'E_TAMPERED' })
    expect([await keks(), await logLength()]).toEqual([[true], before])
    await putBack()
    expect([(await destroy()).body.status, await keks()]).toEqual(['destroyed', [false, false]])
    expect((await owner.call('GET', '/v1/audit/verify')).body.valid).toBe(true)
  })

  it('makes no forgery of what was wrapped under it', async () => {
    const putBack = await hideVersion(1)
    const path = `/v1/keys/${key_id}/unwrap`
    expect(await askAnew('POST', path, { wrapped_key })).toEqual({ status: 500, code: 'E_TAMPERED' })
    await putBack()
    expect(await askAnew('POST', path, { wrapped_key })).toMatchObject({ status: 200 })
  })
})

it('a version that the row of its key does not know keeps the key from being destroyed', async () => {
  const { sql } = service.services
  key_id = (await owner.call('POST', '/v1/keys', { name: 'l' })).body.id
  await owner.call('DELETE', `/v1/keys/${key_id}`)
  await sql`drop table if exists hidden`
  await sql`create table hidden as select * from keys where key_id = ${key_id}`
  await owner.call('POST', `/v1/keys/${key_id}/enable`)
  await owner.call('POST', `/v1/keys/${key_id}/rotate`)
  await sql`delete from keys where key_id = ${key_id}`
  await sql.unsafe(insertFrom('keys', 'hidden'))
  const before = await logLength()
  const { status } = await askAnew('POST', `/v1/keys/${key_id}/destroy`, { confirm: 'l' })
  expect([status, await keks(), await logLength()]).toEqual([500, [true, true], before])
})

describe('a row that is hidden between a decision and its commit', () => {
  /** Decides, then has something happen, then commits. */
  const interrupted =
    <Answer>(operation: Operation<Answer>, happen: () => Promise<unknown>): Operation<Answer> =>
    async (context) => {
      const decision = await operation(context)
      await happen()
      return decision
    }

  it('fails what was to be done to it: an API key is not revoked in the log alone', async () => {
    const { id } = (await owner.call('POST', '/v1/api-keys', { name: 'a', permissions: ['encrypt'] })).body
    const before = await logLength()
    const hide = () => service.services.sql`delete from api_keys where api_key_id = ${id}`
    const revoke = interrupted(revokeApiKey({ api_key_id: id }), hide)
    await expect(performAsSystem(service.services, tenant_id, revoke)).rejects.toMatchObject({
      cause: { name: 'TamperedRowError' },
    })
    expect(await logLength()).toBe(before)
  })

  it('fails what was to be done to it: a tenant', async () => {
    const { sql } = service.services
    await sql`drop table if exists hidden`
    await sql`create table hidden as select * from tenants where tenant_id = ${tenant_id}`
    const hide = () => sql`delete from tenants where tenant_id = ${tenant_id}`
    const update = interrupted(updateTenant({ envelope_only: false }), hide)
    await expect(performAsSystem(service.services, tenant_id, update)).rejects.toMatchObject({
      cause: { name: 'TamperedRowError' },
    })
    await sql.unsafe(insertFrom('tenants', 'hidden'))
    expect((await owner.call('GET', '/v1/tenant')).body.envelope_only).toBe(true)
  })
})
