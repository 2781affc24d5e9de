// Acting for an end user: it needs a permission of its own, and the audit log records it.
import { randomBytes } from 'node:crypto'
import { PERMISSIONS } from '@eaas/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
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

const wrap = (caller: Caller, user: string) =>
  caller.call('POST', `/v1/keys/${id}/wrap`, { dek: randomBytes(32).toString('base64') }, { 'eaas-on-behalf-of': user })
const newest = async () => (await owner.call('GET', '/v1/audit?limit=1')).body.logs[0]

describe('a call on behalf of an end user', () => {
  it('names the user in the metadata of its entry, beside what else is there', async () => {
    expect((await wrap(owner, 'user-4711')).status).toBe(200)
    expect((await newest()).metadata).toEqual({ key_version: 1, on_behalf_of: 'user-4711' })
    const { wrapped_key } = (
      await owner.call('POST', `/v1/keys/${id}/wrap`, { dek: randomBytes(32).toString('base64') })
    ).body
    await owner.call('POST', `/v1/keys/${id}/rewrap`, { wrapped_key }, { 'eaas-on-behalf-of': 'u' })
    expect((await newest()).metadata).toEqual({ key_version: 1, on_behalf_of: 'u', rewrapped_from: 1 })
    expect((await owner.call('GET', '/v1/audit/verify')).body.valid).toBe(true)
  })

  it('takes a permission of its own', async () => {
    const permissions = PERMISSIONS.filter((permission) => permission !== 'audit:on_behalf_of')
    const { secret } = (await owner.call('POST', '/v1/api-keys', { name: 'x', permissions })).body
    const { status, body } = await wrap(service.caller(secret), 'user')
    expect([status, body.detail]).toEqual([403, 'missing permission: audit:on_behalf_of'])
  })
})
