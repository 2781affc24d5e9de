/**
 * Ends the alarm about a tenant that is missing from the database, and so has no log to record it. Called by the
 * operator; has no route.
 */
import { encodeHex, INSTALLATION_ID } from '@eaas/protocol'
import { alarmMac, equalBytes } from '../../core/audit/formats/chain.js'
import type { EntryNote, Services } from '../../core/runner/operation.js'
import { Refusal } from '../../core/runner/refusal.js'
import { findHead } from '../../core/store/audit.js'
import { findTenant } from '../../core/store/tenants.js'
import { anchorHeads, lockAnchored } from '../anchor-heads.js'
import { deleteAlarm, lockAlarm } from '../store/alarms.js'
import { unwrittenAlarm } from './unwritten-alarm.js'

/**
 * The alarm, with the latest known head: from the alarm's row, from the newest anchor, or from what this process knows,
 * for example by a checkpoint file.
 */
export interface LostTenant {
  tenant_id: string
  /**
   * Whether a server wrote the alarm's row after the tenant was gone. An earlier row has a MAC by the tenant's audit
   * key, which is gone too, so it cannot be told from an edited one: servers may have known more.
   */
  is_alarm_proven: boolean
  witnessed_id: number
  witnessed_hash: string
  raised_at: string
}

/**
 * Records in the installation's log that a tenant is gone, so that the anchors no longer cover it, and
 * deletes the alarm's row. The servers end their alarms when they find that entry and no row.
 *
 * @throws Refusal E_NOT_FOUND if there is no alarm, E_STATE if the tenant or a part of its log exists, or if
 * only this process has an alarm
 */
export async function acceptLostTenant(services: Services, tenant_id: string, reason: string): Promise<LostTenant> {
  const { lost, head } = await services.sql.begin(async (transaction) => {
    const alarm = await lockAlarm(transaction, tenant_id)
    const own = services.committer.watches.get(tenant_id)
    if (!alarm && own.alarm) throw unwrittenAlarm(`tenant ${tenant_id}`, own.alarm.reason)
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
    const { installationKey } = services
    const anchored = (await lockAnchored(services, transaction)).find((head) => head.tenant_id === tenant_id)
    // The alarm's row comes last, and counts even if it is not proven: so it can neither make the log seem shorter nor
    // replace what is proven of an entry.
    const known = [anchored, own.held.proven, own.alarm?.witness, alarm].filter((head) => head !== undefined)
    const { last_id, hash } = known.reduce((latest, head) => (head.last_id > latest.last_id ? head : latest))
    const { raised_at } = alarm
    const lost = {
      tenant_id,
      is_alarm_proven: equalBytes(alarm.mac, alarmMac(installationKey, alarm)),
      witnessed_id: last_id,
      witnessed_hash: encodeHex(hash),
      raised_at: new Date(raised_at).toISOString(),
    }
    const note: EntryNote = { action: 'installation.tenant_gone', metadata: { ...lost, reason } }
    return { lost, head: await anchorHeads(services, transaction, { notes: [note], without: tenant_id }) }
  })
  if (head) services.committer.watches.get(INSTALLATION_ID).commit(head)
  return lost
}
