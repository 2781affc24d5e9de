// Without a primary key, somebody puts another row beside the one that the server wrote: an older genuine one, or a copy.
import type { wire } from '@eaas/protocol'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { splitLines } from '../../../packages/audit/src/verify/split-lines.js'
import { verifyExport } from '../../../packages/audit/src/verify/verify-export.js'
import { performAsSystem } from '../../../packages/server/src/core/runner/perform.js'
import { compareTables } from '../../../packages/server/src/guard/store/schema.js'
import { findTenant } from '../../../packages/server/src/operate/cli/with-services.js'
import { updateTenant } from '../../../packages/server/src/operators/tenants.js'
import { MIGRATIONS_DIRECTORY } from '../../../packages/server/src/package-directory.js'
import { copyTables, serverOf } from '../../support/audit/audit-scene.js'
import { insertFrom } from '../../support/database/migrations.js'
import { type Caller, type Service, startService } from '../../support/service/service.js'
import { findObstacleToVerifier, verifyElsewhere } from '../verify/other-verifier.js'

let service: Service
let owner: Caller
let tenant_id: string
let key_id: string
let revoked: { id: string; secret: string }

beforeEach(async () => {
  service = await startService()
  owner = await service.createTenant({ envelope_only: false })
  tenant_id = owner.tenant.tenant_id
  key_id = (await owner.call('POST', '/v1/keys', { name: 'k' })).body.id
  revoked = (await owner.call('POST', '/v1/api-keys', { name: 'r', permissions: ['keys:read'] })).body
  await copyTables(sql() as never, 'early')
})
afterEach(() => service?.close())

const sql = () => service.services.sql
const wrap = () => owner.call('POST', `/v1/keys/${key_id}/wrap`, { dek: Buffer.alloc(32, 1).toString('base64') })
const lastId = async () => (await owner.call('GET', '/v1/audit')).body.total as number

/** Puts the rows of before beside those of now. */
async function repeat(table: string, where = `tenant_id = '${tenant_id}'`): Promise<void> {
  await sql().unsafe(`alter table ${table} drop constraint ${table}_pkey`)
  const unique = {
    keys: 'keys_tenant_id_name_key',
    api_keys: 'api_keys_tenant_id_digest_key',
    tenants: 'tenants_name_key',
  }
  const name = unique[table as keyof typeof unique]
  if (name) await sql().unsafe(`alter table ${table} drop constraint ${name}`)
  await sql().unsafe(`${insertFrom(table, `early.${table}`)} where ${where}`)
}

/** The verdict of a server that has nothing cached, by an API key that is not attacked. */
async function verify(): Promise<wire.Verification> {
  const state = await service.services.states.find(tenant_id)
  if (!state) throw new Error('no state')
  const { auditKey } = state
  return service.services.verifyLog({ tenant_id, auditKey })
}

/** Calls a server that has nothing cached. */
async function askAnew(secret: string, method: string, path: string, body?: unknown) {
  const { call, alarms } = serverOf(service)
  return { ...(await call(secret, method, path, body)), alarms }
}

const changes = {
  keys: () => owner.call('DELETE', `/v1/keys/${key_id}`),
  api_keys: () => owner.call('DELETE', `/v1/api-keys/${revoked.id}`),
  tenants: () => performAsSystem(service.services, tenant_id, updateTenant({ envelope_only: true })),
  key_versions: () => owner.call('POST', `/v1/keys/${key_id}/rotate`),
}
const uses = {
  keys: () => askAnew(owner.secret, 'GET', `/v1/keys/${key_id}`),
  api_keys: () => askAnew(revoked.secret, 'GET', '/v1/keys'),
  tenants: () => askAnew(owner.secret, 'GET', `/v1/keys/${key_id}`),
  key_versions: () => askAnew(owner.secret, 'GET', `/v1/keys/${key_id}`),
}

describe('a row that grants rights, beside an older one', () => {
  it.each(Object.keys(changes) as (keyof typeof changes)[])('of %s is refused and named', async (table) => {
    await changes[table]()
    const changed_at = await lastId()
    expect(await verify()).toMatchObject({ valid: true })
    const id = table === 'api_keys' ? ` and api_key_id = '${revoked.id}'` : ''
    await repeat(table, `tenant_id = '${tenant_id}'${id}`)
    expect(await verify()).toMatchObject({ valid: false, reason: 'row_repeated', broken_at: changed_at })
    expect(await uses[table]()).toMatchObject({ status: 500, body: { code: 'E_TAMPERED' } })
  })
})

describe('a table that inherits, and adds an older row of it', () => {
  it('is refused and named', async () => {
    await changes.api_keys()
    const changed_at = await lastId()
    const { id } = revoked
    await sql().unsafe(`create table older () inherits (api_keys);
      insert into older select * from early.api_keys where api_key_id = '${id}'`)
    expect(await verify()).toMatchObject({ valid: false, reason: 'row_repeated', broken_at: changed_at })
    expect(await uses.api_keys()).toMatchObject({ status: 500, body: { code: 'E_TAMPERED' } })
  })
})

describe('a name that was hidden while it was taken again', () => {
  const missing = async (constraint: string) =>
    (await compareTables(sql(), MIGRATIONS_DIRECTORY)).missing.some((line) =>
      line.startsWith(`constraint ${constraint}`),
    )

  it('of a key leaves a constraint that cannot be made again, or a log that is not valid', async () => {
    await sql()`update keys set name = '~' where key_id = ${key_id}`
    expect((await owner.call('POST', '/v1/keys', { name: 'k' })).status).toBe(201)
    expect(await verify()).toMatchObject({ valid: false, reason: 'row_forged' })
    expect(await missing('keys.keys_tenant_id_name_key')).toBe(false)
    await sql()`alter table keys drop constraint keys_tenant_id_name_key`
    await sql()`update keys set name = 'k' where key_id = ${key_id}`
    expect(await verify()).toMatchObject({ valid: true })
    expect(await missing('keys.keys_tenant_id_name_key')).toBe(true)
    await expect(sql()`alter table keys add unique (tenant_id, name)`.execute()).rejects.toThrow('could not create')
  })

  it('of a tenant leaves that too, and commands do not choose one of the two', async () => {
    const first = await service.createTenant({ name: 'acme' })
    await sql()`update tenants set name = '~' where name = 'acme'`
    const second = await service.createTenant({ name: 'acme' })
    await sql()`alter table tenants drop constraint tenants_name_key`
    await sql()`update tenants set name = 'acme' where name = '~'`
    await expect(findTenant(service.services, 'acme')).rejects.toMatchObject({
      name: 'TamperedRowError',
      message: expect.stringMatching(/a tenant named acme more than once/),
    })
    for (const { tenant } of [first, second])
      expect(await findTenant(service.services, tenant.tenant_id)).toMatchObject({ name: 'acme' })
    expect(await missing('tenants.tenants_name_key')).toBe(true)
    await expect(sql()`alter table tenants add unique (name)`.execute()).rejects.toThrow('could not create')
  })
})

describe('a head beside an older one', () => {
  it('is an alarm, and named', async () => {
    await wrap()
    const end = await lastId()
    await repeat('heads')
    expect(await verify()).toMatchObject({ valid: false, reason: 'head_repeated', broken_at: end + 1 })
    for (const ask of [wrap, () => owner.call('GET', '/v1/keys')])
      expect(await ask()).toMatchObject({ status: 500, body: { code: 'E_AUDIT_NOT_WRITTEN' } })
    expect(service.alarms).toMatchObject([{ tenant_id, reason: expect.stringContaining('more than once') }])
    expect((await askAnew(owner.secret, 'GET', '/v1/keys')).status).toBe(500)
  })
})

describe('an entry that is there twice', () => {
  it.each([
    ['as it is, within a page', 2, ''],
    ['as it is, as the last of a page', 250, ''],
    ['as it is, as the last of the log', 260, ''],
    ['altered, within a page', 2, ", actor = 'nobody'"],
    ['altered, as the last of a page', 250, ", actor = 'nobody'"],
  ])('is named: %s', async (_, id, change) => {
    const operations = Array.from({ length: 257 }, () => ({
      op: 'wrap',
      key_id,
      dek: Buffer.alloc(32, 1).toString('base64'),
    }))
    await owner.call('POST', '/v1/batch', { operations })
    expect([await lastId(), (await verify()).valid]).toEqual([260, true])
    await sql().unsafe('drop table early.audit_log; create table early.audit_log as table audit_log')
    await sql().unsafe(`update early.audit_log set id = id${change} where tenant_id = '${tenant_id}' and id = ${id}`)
    await repeat('audit_log', `tenant_id = '${tenant_id}' and id = ${id}`)
    const { valid, reason, broken_at } = await verify()
    expect(valid).toBe(false)
    // Of an altered copy, the database says which of the two comes first.
    expect(change === '' ? ['entry_repeated'] : ['entry_repeated', 'entry_altered']).toContain(reason)
    expect(broken_at).toBe(id)
  })

  it('is refused in an export by both verifiers, and exported by no server', async () => {
    for (let at = 0; at < 3; at++) await wrap()
    const headers = { authorization: `Bearer ${owner.secret}` }
    const publicKey = (await owner.call('GET', '/v1/audit/checkpoint')).body.public_key as string
    const exported = async () => (await fetch(`${service.url}/v1/audit/export`, { headers })).text()
    const lines = (await exported()).split('\n')
    const at = lines.findIndex((line) => line.includes('"id":3,'))
    const file = Buffer.from(lines.toSpliced(at, 0, lines[at] ?? '').join('\n'))
    expect(await verifyExport(splitLines([file]), { publicKey })).toMatchObject({ valid: false })
    if (findObstacleToVerifier() === undefined)
      expect(await verifyElsewhere([{ file, publicKey }])).toMatchObject([{ valid: false }])

    await sql().unsafe('drop table early.audit_log; create table early.audit_log as table audit_log')
    await repeat('audit_log', `tenant_id = '${tenant_id}' and id = 3`)
    await expect(exported()).rejects.toThrow()
  })
})
