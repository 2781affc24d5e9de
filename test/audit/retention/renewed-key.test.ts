// Marks of purges and a new audit key: each mark gets its MAC under the new one, and earlier keys go with the entries that they were for.
import { expect, it } from 'vitest'
import { openAuditKey } from '../../../packages/server/src/core/audit/audit-key.js'
import { findAuthenticMark } from '../../../packages/server/src/core/audit/read-entry.js'
import { findWrappedAuditKey } from '../../../packages/server/src/core/store/tenants.js'
import { purgeTenant } from '../../../packages/server/src/operate/jobs/purge-tenants.js'
import { rotateAged } from '../../support/custody/rotation.js'
import { ALL, clock, DAY_MS, OLD, owner, RETENTION, service, tenant_id, useLog } from './scene.js'

useLog()

const purge = () => purgeTenant(service.services, tenant_id, RETENTION)
const verdict = async () => (await owner.call('GET', '/v1/audit/verify')).body
async function auditKeyNow() {
  const wrapped_audit_key = (await findWrappedAuditKey(service.services.sql, tenant_id)) as Uint8Array
  return openAuditKey(service.services.storeKeys, { tenant_id, wrapped_audit_key })
}
const formerKeys = async () => (await auditKeyNow()).former.map(({ through }) => through)

it('a log that was purged verifies after its key is renewed, which a forged mark stops, and is purged again', async () => {
  expect(await purge()).toMatchObject({ purged_through: OLD })
  const { sql } = service.services
  await sql`update purge_marks set entries = entries + 1 where tenant_id = ${tenant_id}`
  await expect(rotateAged(service)).rejects.toThrow(/a mark of a purge of tenant .* is forged/)
  expect(await formerKeys()).toEqual([])
  await sql`update purge_marks set entries = entries - 1 where tenant_id = ${tenant_id}`
  const auditKey = await auditKeyNow()
  await rotateAged(service)
  // Also for who read the key before.
  expect(await findAuthenticMark(sql, { tenant_id, auditKey })).toMatchObject({ purged_through: OLD })
  expect(await verdict()).toMatchObject({ valid: true, purged_through: OLD })
  const [before = 0] = await formerKeys()
  expect(before).toBeGreaterThan(ALL)
  clock.now += 366 * DAY_MS
  expect((await purge()).purged_through).toBeGreaterThan(OLD)
  expect(await verdict()).toMatchObject({ valid: true })
  clock.now += 366 * DAY_MS
  await owner.call('GET', '/v1/keys')
  await purge()
  await rotateAged(service)
  expect(await formerKeys()).not.toContain(before)
  expect(await verdict()).toMatchObject({ valid: true })
  expect(service.alarms).toEqual([])
})
