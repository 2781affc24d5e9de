// A tenant that was deleted while somebody hid some of its keys and API keys from the deletion, and from nothing else: its log says that
// the tenant is deleted, and not that they are.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { splitLines } from '../../../packages/audit/src/verify/split-lines.js'
import { verifyExport } from '../../../packages/audit/src/verify/verify-export.js'
import { revokeApiKey } from '../../../packages/server/src/core/api/api-keys.js'
import { verifyAudit } from '../../../packages/server/src/core/api/audit.js'
import { exportAudit } from '../../../packages/server/src/core/api/audit-export.js'
import { destroyKey, destroySuspendedKey } from '../../../packages/server/src/core/api/key-destruction.js'
import { createKey, disableKey } from '../../../packages/server/src/core/api/keys.js'
import { doDueWork } from '../../../packages/server/src/core/jobs/due-work.js'
import type { Operation } from '../../../packages/server/src/core/runner/operation.js'
import { performAsSystem } from '../../../packages/server/src/core/runner/perform.js'
import { deleteTenant, planDeletion } from '../../../packages/server/src/operate/operations/delete-tenant.js'
import { changeTenant, resumeTenant, suspendTenant } from '../../../packages/server/src/operators/tenants.js'
import { answering } from '../../support/database/answering.js'
import { type Caller, type Service, startService } from '../../support/service/service.js'

const DAY_MS = 86_400_000
let now = Date.parse('2026-01-05T09:00:00.000Z')
let service: Service
let owner: Caller
let tenant_id: string
let name: string
let seen: string
let hidden: string

beforeAll(async () => {
  service = await startService({ now: () => now, environment: { EAAS_DESTROY_WINDOW_DAYS: '7' } })
})
afterAll(() => service?.close())

beforeEach(async () => {
  owner = await service.createTenant()
  ;({ tenant_id, name } = owner.tenant)
  const create = async (name: string) => (await owner.call('POST', '/v1/keys', { name })).body.id
  ;[seen, hidden] = [await create('seen'), await create('hidden')]
  await perform(suspendTenant({}))
})

const perform = <Answer>(operation: Operation<Answer>) => performAsSystem(service.services, tenant_id, operation)
const verify = () => perform(verifyAudit({}))
const verifyFile = async () => verifyExport(splitLines(await perform(exportAudit({}))))
/** Deletes the tenant as a server does that finds one of the keys, and maybe not the API key. */
async function deleteWithout({ isApiKeySeen }: { isApiKeySeen: boolean }): Promise<void> {
  await perform(destroySuspendedKey({ key_id: seen }))
  if (isApiKeySeen) await perform(revokeApiKey({ api_key_id: owner.tenant.api_key.id }))
  await perform((context) => Promise.resolve(changeTenant(context, { status: 'deleted' })))
}

describe('a deleted tenant', () => {
  it.each([
    ['a key', true],
    ['a key and an API key', false],
  ])(
    'is found not to be deleted wholly if the log has no end of %s, in the database and in an export',
    async (_, isApiKeySeen) => {
      await deleteWithout({ isApiKeySeen })
      const { head } = await verify()
      expect(await verify()).toMatchObject({ valid: false, reason: 'deletion_incomplete', broken_at: head?.id })
      expect(await verifyFile()).toMatchObject({
        valid: false,
        reason: expect.stringContaining('a key is not destroyed, or an API key not revoked'),
      })
    },
  )

  it('is found not to be deleted wholly by an API key alone', async () => {
    await perform(destroySuspendedKey({ key_id: hidden }))
    await deleteWithout({ isApiKeySeen: false })
    expect(await verify()).toMatchObject({ valid: false, reason: 'deletion_incomplete' })
  })

  it('is deleted wholly by another deletion, and its log is valid then', async () => {
    await deleteWithout({ isApiKeySeen: false })
    expect(await planDeletion(service.services, tenant_id)).toMatchObject({ keys: 1, versions: 1, api_keys: 1 })
    expect(await deleteTenant(service.services, tenant_id, { confirm: name })).toMatchObject({ status: 'deleted' })
    const { sql } = service.services
    const left = await sql`
      select 1 from key_versions where tenant_id = ${tenant_id} and wrapped_kek is not null
      union all select 1 from keys where tenant_id = ${tenant_id} and wrapped_hash_key is not null
      union all select 1 from api_keys where tenant_id = ${tenant_id} and revoked_at is null`
    expect(left).toHaveLength(0)
    expect([(await verify()).valid, (await verifyFile()).valid]).toEqual([true, true])
    await expect(planDeletion(service.services, tenant_id)).rejects.toThrow('already deleted')
  })

  it('has a key destroyed whose destruction was scheduled after the deletion', async () => {
    await deleteWithout({ isApiKeySeen: true })
    await perform(disableKey({ key_id: hidden }))
    expect(await perform(destroyKey({ key_id: hidden, confirm: 'hidden' }))).toMatchObject({
      status: 'pending_destruction',
    })
    now += 8 * DAY_MS
    await doDueWork(service.services)
    const [row] = await service.services.sql`select status, wrapped_hash_key from keys where key_id = ${hidden}`
    expect(row).toEqual({ status: 'destroyed', wrapped_hash_key: null })
    expect((await verify()).valid).toBe(true)
  })
})

it('a deletion that a key is hidden from is not completed: the log has the key', async () => {
  const { services } = service
  const sql = answering(services.sql, /^(?!.*count).*from keys\s+where tenant_id/s, async (ask) =>
    (await ask()).filter(({ key_id }) => key_id !== hidden),
  )
  const hiding = { ...services, sql }
  await expect(deleteTenant(hiding, tenant_id, { confirm: name })).rejects.toThrow(
    `it is not deleted, and stays suspended: by its log, key ${hidden} can still be used`,
  )
  expect(await deleteTenant(services, tenant_id, { confirm: name })).toMatchObject({ status: 'deleted' })
})

it('a deletion during which a key is created is not completed, and is when it is repeated', async () => {
  const { services } = service
  const creating: typeof services = {
    ...services,
    async verifyLog(options) {
      const answer = await services.verifyLog(options)
      await perform(createKey({ name: 'late' }))
      return answer
    },
  }
  await expect(deleteTenant(creating, tenant_id, { confirm: name })).rejects.toMatchObject({
    code: 'E_STATE',
    message: expect.stringContaining('was created in the meantime: repeat the deletion'),
  })
  expect(await deleteTenant(services, tenant_id, { confirm: name })).toMatchObject({ status: 'deleted' })
})

it('a deletion destroys no key of a tenant that is resumed meanwhile', async () => {
  await perform(destroySuspendedKey({ key_id: hidden }))
  await perform(resumeTenant({}))
  const refused = perform(destroySuspendedKey({ key_id: seen }))
  await expect(refused).rejects.toMatchObject({ code: 'E_STATE', message: expect.stringContaining('is active') })
  expect((await owner.call('GET', `/v1/keys/${seen}`)).body.status).toBe('active')
})
