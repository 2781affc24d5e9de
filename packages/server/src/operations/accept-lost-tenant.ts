/** Ends the alarm about a tenant that is missing from the database, which has no log of its own to record it. Called by the operator; has no route. */
import { encodeHex } from '@eaas/protocol'
import { readAnchorHeads } from '../audit/watch/newest-anchor.js'
import { anchorHeads } from '../runner/anchor-heads.js'
import type { EntryNote, Services } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import { deleteAlarm, lockAlarm } from '../store/alarms.js'
import { findHead } from '../store/audit.js'
import { findTenant } from '../store/tenants.js'

/** The alarm, with the last head that is known: the anchored one, or that of the alarm's row, whose MAC cannot be checked without the tenant's audit key. */
export interface LostTenant {
  tenant_id: string
  witnessed_id: number
  witnessed_hash: string
  raised_at: string
}

/**
 * Records in the installation's log that a tenant is gone, so that the anchors no longer cover it, and deletes the alarm's row. The servers end
 * their alarms when they find that entry and no row.
 *
 * @throws Refusal E_NOT_FOUND if there is no alarm, E_STATE if the tenant or a part of its log exists
 */
export async function acceptLostTenant(services: Services, tenant_id: string, reason: string): Promise<LostTenant> {
  return services.sql.begin(async (transaction) => {
    const alarm = await lockAlarm(transaction, tenant_id)
    if (!alarm) throw new Refusal('E_NOT_FOUND', `there is no tenant ${tenant_id}, and no alarm about one`)
    if (await findTenant(transaction, tenant_id))
      throw new Refusal('E_STATE', `tenant ${tenant_id} is in the database again`)
    if (await findHead(transaction, tenant_id)) {
      throw new Refusal(
        'E_STATE',
        `tenant ${tenant_id} has a log but no row: the database was tampered with. Restore a backup`,
      )
    }
    await deleteAlarm(transaction, tenant_id)
    // The anchored head is proven, and the row of the alarm is not: one that was edited must not make the tenant seem shorter.
    const anchored = (await readAnchorHeads(transaction, services.installationKey)).find(
      (head) => head.tenant_id === tenant_id,
    )
    const { last_id, hash } = anchored && anchored.last_id >= alarm.last_id ? anchored : alarm
    const { raised_at } = alarm
    const lost = {
      tenant_id,
      witnessed_id: last_id,
      witnessed_hash: encodeHex(hash),
      raised_at: new Date(raised_at).toISOString(),
    }
    const note: EntryNote = { action: 'installation.tenant_gone', metadata: { ...lost, reason } }
    await anchorHeads(services, transaction, { notes: [note], without: tenant_id })
    return lost
  })
}
