// Deletes a tenant, or what a moved one left here (delete-moved.ts). Destroys its key material and revokes its API keys, one change
// and one entry each, then sets its status to `deleted`. The rows that the log names remain, so that the log can still be verified.
import { listApiKeys, revokeApiKey } from '../../core/api/api-keys.js'
import { destroySuspendedKey } from '../../core/api/key-destruction.js'
import { listKeys } from '../../core/api/keys.js'
import { readValidLog } from '../../core/audit/verify/verify.js'
import type { Operation, Services } from '../../core/runner/operation.js'
import { END_ITS_MOVE, performAsSystem } from '../../core/runner/perform.js'
import { Refusal } from '../../core/runner/refusal.js'
import type { TenantState } from '../../core/runner/tenant-state.js'
import { hasApiKey } from '../../core/store/api-keys.js'
import { findHead } from '../../core/store/audit.js'
import { countKeyMaterial } from '../../core/store/keys.js'
import {
  changeTenant,
  type OperatorTenant,
  type Reason,
  readTenantForOperator,
  viewForOperator,
} from '../../operators/tenants.js'
import { assertMayDelete, deleteMoved } from './delete-moved.js'

export interface DeletionPlan {
  tenant: OperatorTenant
  keys: number
  versions: number
  api_keys: number
  last_entry: number
}

/** Counts what a deletion would destroy. @throws Refusal E_STATE if the tenant is active, or nothing is left of it */
export async function planDeletion(services: Services, tenant_id: string): Promise<DeletionPlan> {
  const tenant = await performAsSystem(services, tenant_id, readInactive())
  if (tenant.status === 'moved') await assertMayDelete(services.sql)
  const head = await findHead(services.sql, tenant_id)
  const listed = await performAsSystem(services, tenant_id, listApiKeys())
  const { keys, versions } = await countKeyMaterial(services.sql, tenant_id)
  const api_keys = listed.api_keys.filter(({ status }) => status !== 'revoked').length
  if (tenant.status === 'deleted' && keys + versions + api_keys === 0) {
    throw new Refusal('E_STATE', `tenant ${tenant.name} is already deleted`)
  }
  return { tenant, keys, versions, api_keys, last_entry: head?.last_id ?? 0 }
}

/**
 * After an interruption, the next call continues; for a deleted tenant, it deletes what was hidden. @throws Refusal
 * E_STATE, also if the log does not verify; E_VALIDATION unless `confirm` is the tenant's name
 */
export async function deleteTenant(
  services: Services,
  tenant_id: string,
  { confirm, onProgress, ...reason }: Reason & { confirm: string; onProgress?: (keys: number) => void },
): Promise<OperatorTenant> {
  const tenant = await performAsSystem(services, tenant_id, readInactive())
  if (confirm !== tenant.name) throw new Refusal('E_VALIDATION', "confirm: must be the tenant's name")
  if (tenant.status === 'moved') {
    await deleteMoved(services, tenant_id, reason)
    return { ...tenant, status: 'deleted' }
  }
  const { keys } = await performAsSystem(services, tenant_id, listKeys({}))
  let destroyed = 0
  for (const { id, status } of keys) {
    if (status !== 'destroyed') await performAsSystem(services, tenant_id, destroySuspendedKey({ key_id: id }))
    onProgress?.(++destroyed)
  }
  const { api_keys } = await performAsSystem(services, tenant_id, listApiKeys())
  for (const { id, status } of api_keys) {
    if (status !== 'revoked') await performAsSystem(services, tenant_id, revokeApiKey({ api_key_id: id }))
  }
  await assertNothingHidden(services, tenant_id)
  return performAsSystem(services, tenant_id, closeTenant(reason))
}

function readInactive(): Operation<OperatorTenant> {
  return async (context) => {
    assertInactive(context.state)
    return readTenantForOperator()(context)
  }
}

// A row that an attacker hides meanwhile would keep its material. The log shows that it was never destroyed.
async function assertNothingHidden(services: Services, tenant_id: string): Promise<void> {
  const state = await services.states.find(tenant_id)
  if (!state) throw new Refusal('E_NOT_FOUND', `there is no tenant ${tenant_id}`)
  const log = await readValidLog(services, state)
  if (log.valid && log.valid.usable === undefined) return
  const fault = log.valid
    ? `by its log, ${log.valid.usable} can still be used: the database hid it, or it was created meanwhile`
    : `its log does not verify (${log.reason}, entry ${log.broken_at}), so a key or an API key may be hidden`
  const isDeleted = state.tenant.status === 'deleted'
  const end = isDeleted ? 'its deletion stays incomplete' : 'it is not deleted, and stays suspended'
  throw new Refusal(
    'E_STATE',
    `tenant ${state.tenant.name}: ${end}: ${fault}. Find out why (eaas audit verify, eaas doctor), and repeat the deletion`,
  )
}

// Under the lock of the head, nothing can be created meanwhile.
function closeTenant({ reason }: Reason): Operation<OperatorTenant> {
  return async (context) => {
    const { state, sql } = context
    assertInactive(state)
    const { tenant_id, name, status } = state.tenant
    const { keys, versions } = await countKeyMaterial(sql, tenant_id)
    const created = `a key or an API key of tenant ${name} was created in the meantime: repeat the deletion`
    if (keys + versions > 0 || (await hasApiKey(sql, tenant_id))) throw new Refusal('E_STATE', created)
    if (status === 'deleted') return { entries: [], release: () => viewForOperator(state.tenant) }
    return changeTenant(context, { status: 'deleted' }, reason === undefined ? {} : { reason })
  }
}

function assertInactive({ tenant: { name, status } }: TenantState): void {
  if (status === 'moving') throw new Refusal('E_STATE', `tenant ${name} is moving: ${END_ITS_MOVE}`)
  if (status !== 'active') return
  throw new Refusal(
    'E_STATE',
    `tenant ${name} is active: suspend it first (eaas tenant suspend), so that nobody uses the keys that are destroyed`,
  )
}
