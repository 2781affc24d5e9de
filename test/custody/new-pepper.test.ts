// A rotation of the store key makes a new pepper. Each API key stays valid; the former pepper goes once no API key needs it.
import { randomUUID } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { expireApiKey, updateApiKey } from '../../packages/server/src/core/api/api-keys.js'
import { apiKeyDigest, generateApiKey } from '../../packages/server/src/core/crypto/api-key.js'
import { openSecret, type StoreKeys } from '../../packages/server/src/core/crypto/key-hierarchy.js'
import { pepperBinding } from '../../packages/server/src/core/runner/peppers.js'
import { performAsSystem } from '../../packages/server/src/core/runner/perform.js'
import { countFormer, getPeppers } from '../../packages/server/src/core/store/peppers.js'
import { rotateAged } from '../support/custody/rotation.js'
import { backend } from '../support/database/database.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

let service: Service
let acme: Caller
beforeEach(async () => {
  service = await startService()
  acme = await service.createTenant()
})
afterEach(() => service.close())

const sqlOf = () => service.services.sql
/** Rotates, and has the new pepper be as old as one that every process has read. */
async function rotate(): Promise<void> {
  await rotateAged(service)
  await age()
}
async function age(): Promise<void> {
  await sqlOf()`update instance set pepper_since = pepper_since - interval '2 minutes'`
  await service.refreshStoreKeys()
}
const peppersOf = async () =>
  (
    await sqlOf()<{ id: string; pepper: number }[]>`select api_key_id as id, pepper from api_keys order by created_at`
  ).map(({ pepper }) => pepper)
const status = async (secret: string, by = service) => (await by.caller(secret).call('GET', '/v1/keys')).status
const flush = () => service.services.peppers.flush()
const deleteFormer = () => service.services.peppers.deleteFormer(Date.now())
const hasFormer = async () => (await getPeppers(sqlOf())).wrapped_former_pepper !== null
const waiting = async () => (await countFormer(sqlOf(), Date.now())).api_keys
const create = async (more: object = {}) =>
  (await acme.call('POST', '/v1/api-keys', { name: randomUUID(), permissions: ['keys:read'], ...more })).body

describe('a new pepper', () => {
  it('takes each API key when it is used, without an entry or a change of rights', async () => {
    await acme.call('GET', '/v1/keys')
    const total = (await acme.call('GET', '/v1/audit')).body.total
    await rotate()
    expect(await waiting()).toBe(1)
    expect(await status(acme.secret)).toBe(200)
    await flush()
    expect([await peppersOf(), await waiting()]).toEqual([[2], 0])
    expect(await status(acme.secret)).toBe(200)
    expect((await acme.call('GET', '/v1/audit')).body.total).toBe(total + 1) // that of the new audit key
    expect((await acme.call('GET', '/v1/audit/verify')).body).toMatchObject({ valid: true })
    await deleteFormer()
    await service.refreshStoreKeys()
    expect(await hasFormer()).toBe(false)
    expect(await status(acme.secret)).toBe(200)
    expect((await create()).secret).toBeDefined()
    expect(await peppersOf()).toEqual([2, 2])
  })

  it('makes no digest before every process has had the time to read it', async () => {
    await rotateAged(service)
    expect(await status(acme.secret)).toBe(200)
    await create()
    await flush()
    expect(await peppersOf()).toEqual([1, 1])
  })

  it('leaves the former one while an API key needs it that is neither revoked nor expired', async () => {
    const unused = await create()
    const expiring = await create({ expires_at: new Date(Date.now() + 3_600_000).toISOString() })
    const expired = await create()
    await performAsSystem(service.services, acme.tenant.tenant_id, async (context) =>
      expireApiKey((await context.state.findApiKeyById(expired.id)) ?? expect.unreachable())(context),
    )
    await rotate()
    expect(await status(acme.secret)).toBe(200)
    await flush()
    await deleteFormer()
    expect([await hasFormer(), await waiting()]).toEqual([true, 2])
    await acme.call('DELETE', `/v1/api-keys/${unused.id}`)
    await deleteFormer()
    expect([await hasFormer(), await waiting()]).toEqual([true, 1])
    // By the server's clock it has expired, by the database's it has not.
    await service.services.peppers.deleteFormer(Date.now() + 7_200_000)
    expect(await hasFormer()).toBe(true)
    await acme.call('DELETE', `/v1/api-keys/${expiring.id}`)
    await deleteFormer()
    expect(await hasFormer()).toBe(false)
    // Another process may have deleted it: nothing is said to be resumed that would be refused for ever.
    const resume = (id: string) => acme.call('PATCH', `/v1/api-keys/${id}`, { expires_at: null })
    await service.refreshStoreKeys()
    expect((await resume(expired.id)).body).toMatchObject({ code: 'E_STATE' })
    expect((await acme.call('GET', '/v1/audit?action=api_key.update')).body.total).toBe(1) // the expiry
    // The refusal of one whose pepper is gone is that of any unknown one.
    expect(await status(unused.secret)).toBe(401)
  })

  it('is not replaced while the former one is needed: no API key is lost', async () => {
    await rotate()
    await rotate()
    expect((await getPeppers(sqlOf())).pepper).toBe(2)
    expect(await status(acme.secret)).toBe(200)
    await flush()
    await deleteFormer()
    await rotate()
    expect((await getPeppers(sqlOf())).pepper).toBe(3)
    expect(await status(acme.secret)).toBe(200)
  })

  it('refuses a revoked API key under either digest', async () => {
    const other = await create()
    expect(await status(other.secret)).toBe(200)
    await rotate()
    expect(await status(other.secret)).toBe(200) // cached under the former digest
    await flush() // the row is under the new one
    await acme.call('DELETE', `/v1/api-keys/${other.id}`)
    expect(await status(other.secret)).toBe(401)
    await service.services.peppers.flush()
    expect(await status(other.secret)).toBe(401)
    expect((await acme.call('GET', '/v1/audit/verify')).body).toMatchObject({ valid: true })
  })

  it('lets a change of an API key through whose digest was renewed after it was read', async () => {
    const other = await create()
    await rotate()
    expect(await status(other.secret)).toBe(200)
    const update = updateApiKey({ api_key_id: other.id, changes: { name: 'renamed' } })
    const changed = performAsSystem(service.services, acme.tenant.tenant_id, async (context) => {
      const decided = await update(context)
      await flush()
      return decided
    })
    expect(await changed).toMatchObject({ name: 'renamed' })
    expect(await status(other.secret)).toBe(200)
    expect((await acme.call('GET', '/v1/audit/verify')).body).toMatchObject({ valid: true })
  })

  it('is bound to its number: the former one does not open in its place', async () => {
    await rotate()
    await sqlOf()`update instance set wrapped_pepper = wrapped_former_pepper`
    await expect(service.refreshStoreKeys()).rejects.toThrow()
    await sqlOf()`update instance set wrapped_former_pepper = null`
    await expect(service.refreshStoreKeys()).rejects.toThrow()
  })

  it.skipIf(backend() === 'embedded')('is followed by another server, whatever either has cached', async () => {
    const { database } = service
    const other = await startService({ database })
    const key = await create()
    for (const one of [service, other]) expect(await status(key.secret, one)).toBe(200)
    await rotateAged(service)
    await other.refreshStoreKeys()
    for (const one of [service, other]) expect(await status(key.secret, one)).toBe(200)
    await age() // this process digests under the new one from now on, the other one not yet
    expect(await status(key.secret)).toBe(200)
    await flush()
    expect(await status(key.secret, other)).toBe(200)
    const by = other.caller(acme.secret)
    expect((await by.call('DELETE', `/v1/api-keys/${key.id}`)).status).toBe(204)
    for (const one of [service, other]) expect(await status(key.secret, one)).toBe(401)
    await other.refreshStoreKeys()
    for (const one of [service, other]) expect(await status(key.secret, one)).toBe(401)
    await other.close()
  })
})

describe('an attacker with the former pepper and a copy of before', () => {
  it('inserts no API key, whichever pepper it is under', async () => {
    const former = await formerPepper(service.services.storeKeys)
    await rotate()
    const secret = generateApiKey(acme.tenant.tenant_id)
    await sqlOf()`
      insert into api_keys (tenant_id, api_key_id, digest, pepper, name, prefix, permissions, allowed_ips, created_at, entry_id, mac)
      select tenant_id, ${randomUUID()}, ${apiKeyDigest(former, secret)}, 1, 'forged', prefix, permissions, allowed_ips, created_at, entry_id, mac
      from api_keys limit 1`
    expect(await status(secret)).toBe(500)
    await flush()
    expect(await peppersOf()).toEqual([1, 1])
  })
})

async function formerPepper(storeKeys: StoreKeys) {
  const { pepper, wrapped_pepper } = await getPeppers(sqlOf())
  return openSecret(storeKeys, pepperBinding(pepper), wrapped_pepper)
}
