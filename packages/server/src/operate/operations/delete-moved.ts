// Deletes what a tenant of another installation left in this one's database, after its move there or an interrupted
// move here. Each deletion is one transaction with its entry in the installation's log, so a crash leaves all of it or
// nothing.
import { encodeHex, INSTALLATION_ID } from '@eaas/protocol'
import { extendLocked } from '../../core/audit/append/tenant-log.js'
import { readValidLog } from '../../core/audit/verify/verify.js'
import type { EntryNote, Services } from '../../core/runner/operation.js'
import { systemCaller } from '../../core/runner/perform.js'
import { Refusal } from '../../core/runner/refusal.js'
import { readForChange } from '../../core/runner/tenant-state.js'
import { findHead } from '../../core/store/audit.js'
import type { Queryable } from '../../core/store/db.js'
import { withoutDeadlines } from '../../core/store/deadline.js'
import { findTenant } from '../../core/store/tenants.js'
import { anchorHeads } from '../../guard/anchor-heads.js'
import { recordForInstallation } from '../../guard/installation-log.js'
import type { Reason } from '../../operators/tenants.js'
import { deleteCopied, deleteLeft, findStray, mayDelete, type Stray, withoutTimeouts } from '../store/moved-rows.js'

export async function assertMayDelete(
  sql: Queryable,
  todo = 'run this command as the owner of the tables',
): Promise<void> {
  if (!(await mayDelete(sql))) throw new Refusal('E_STATE', `the role may not delete rows of tenants: ${todo}`)
}

/**
 * Deletes every row of a tenant that has arrived in another installation. The tenant may come back later, as if it had
 * never been here. @throws Refusal E_STATE unless it has arrived; ChainAlarmError
 */
export async function deleteMoved(services: Services, tenant_id: string, { reason }: Reason): Promise<void> {
  const { sql, states, committer } = services
  await assertMayDelete(sql)
  states.forget(tenant_id)
  const state = await states.find(tenant_id)
  if (!state) throw new Refusal('E_NOT_FOUND', `there is no tenant ${tenant_id}`)
  committer.guard.assertServed(tenant_id)
  await extendLocked(services, { tenant_id, auditKey: state.auditKey }, async (lock, head) => {
    await withoutTimeouts(lock)
    const { status } = await readForChange(lock, services.storeKeys, head)
    if (status !== 'moved')
      throw new Refusal('E_STATE', `tenant ${tenant_id} has not arrived in another installation: nothing was deleted`)
    await deleteCopied(lock, tenant_id)
    await deleteLeft(lock, tenant_id)
    const metadata = {
      tenant_id,
      status_before: 'moved',
      witnessed_id: head.last_id,
      witnessed_hash: encodeHex(head.hash),
      ...(reason !== undefined && { reason }),
    }
    const notes = [{ action: 'installation.tenant_gone', metadata } as const]
    return anchorHeads(services, lock, { notes, without: tenant_id })
  })
  states.forget(tenant_id)
}

/**
 * Finds copies of a tenant that this installation never had, or has no longer. @throws Refusal E_STATE if its row
 * should be here
 */
export async function getStray(services: Services, tenant_id: string): Promise<Stray | undefined> {
  const { sql, states } = services
  const stray = await findStray(sql, tenant_id)
  const own = stray && (await states.find(INSTALLATION_ID))
  const log = own && (await readValidLog(services, own))
  if (!stray || (await findTenant(sql, tenant_id))) return undefined // after the log, which may tell of its arrival
  const { present, lost } = log?.valid?.recorded ?? {}
  const isLost = lost?.has(tenant_id)
  if (present && !present.has(tenant_id) && !isLost) return stray
  const ofThis = isLost ? 'has it as lost, so no move left this' : 'has it, so somebody removed its row'
  const why = present ? ofThis : 'does not verify, so it may be of this installation'
  throw new Refusal(
    'E_STATE',
    `tenant ${tenant_id}: the installation's log ${why}; nothing was deleted. See eaas doctor`,
  )
}

/** Deletes these copies, and counts them. @throws Refusal E_VALIDATION unless `confirm` is the tenant's id; E_STATE if the tenant arrived meanwhile */
export async function deleteStray(
  services: Services,
  { tenant_id }: Pick<Stray, 'tenant_id'>,
  { confirm, reason }: Reason & { confirm: string },
): Promise<Stray> {
  if (confirm !== tenant_id) throw new Refusal('E_VALIDATION', "confirm: must be the tenant's id")
  await assertMayDelete(services.sql)
  const { head, entries } = await withoutDeadlines(services.sql).begin(async (lock) => {
    await withoutTimeouts(lock)
    const entries = await deleteCopied(lock, tenant_id)
    const metadata = { tenant_id, entries, left_by: 'an interrupted move', ...(reason !== undefined && { reason }) }
    const note: EntryNote = { action: 'installation.purge', metadata }
    const head = await recordForInstallation(services, lock, systemCaller(services), [note])
    // Under the lock of the installation's head, under which a tenant arrives too, after its entries are counted.
    if ((await findTenant(lock, tenant_id)) || (await findHead(lock, tenant_id)))
      throw new Refusal('E_STATE', `tenant ${tenant_id} is in this installation: nothing was deleted`)
    return { head, entries }
  })
  services.committer.guard.committed(head)
  return { tenant_id, entries }
}
