/** What operators do with tenants over HTTP: each call is on record in the installation's log before it is carried out. */
import { mapInStretches } from '../core/event-loop.js'
import type { Operation, Services } from '../core/runner/operation.js'
import { TamperedRowError } from '../core/store/tampered-row.js'
import { listTenants as listRows } from '../core/store/tenants.js'
import { recordedCall, recordedCallIn } from './operator-call.js'
import {
  authenticTenant,
  createTenant as create,
  type NewTenant,
  type OperatorTenant,
  type Reason,
  readTenantForOperator,
  resumeTenant as resume,
  suspendTenant as suspend,
  type TenantChanges,
  type TenantOptions,
  updateTenant as update,
  viewForOperator,
} from './tenants.js'

/** A page of the tenants, and the ids of those whose rows are not as the server wrote them. */
export interface TenantPage {
  tenants: OperatorTenant[]
  count: number
  tampered: string[]
}

/** Lists tenants, oldest first. A missing tenant has an alarm. */
export function listTenants(page: { limit: number; offset: number }): Operation<TenantPage> {
  return recordedCall('listTenants', page, (services) => readPage(services, page))
}

async function readPage(services: Services, page: { limit: number; offset: number }): Promise<TenantPage> {
  const tenants: OperatorTenant[] = []
  const tampered: string[] = []
  await mapInStretches(await listRows(services.sql, page), (row) => {
    try {
      tenants.push(viewForOperator(authenticTenant(services, row)))
    } catch (error) {
      if (!(error instanceof TamperedRowError)) throw error
      tampered.push(row.tenant_id)
    }
  })
  return { tenants, count: tenants.length, tampered }
}

/** Creates a tenant with its first API key, whose secret is shown only here. @throws Refusal E_NAME_TAKEN */
export function createTenant(options: TenantOptions): Operation<NewTenant> {
  return recordedCall('createTenant', { ...options }, (services, caller) => create(services, options, caller))
}

/** Reads a tenant. @throws Refusal E_NOT_FOUND */
export function readTenant(tenant_id: string): Operation<OperatorTenant> {
  return recordedCallIn('readTenant', tenant_id, readTenantForOperator())
}

/** Changes a tenant's settings. @throws Refusal E_NOT_FOUND, E_STATE */
export function updateTenant(tenant_id: string, changes: TenantChanges): Operation<OperatorTenant> {
  return recordedCallIn('updateTenant', tenant_id, update(changes))
}

/** Suspends a tenant. @throws Refusal E_NOT_FOUND, E_STATE */
export function suspendTenant(tenant_id: string, reason: Reason): Operation<OperatorTenant> {
  return recordedCallIn('suspendTenant', tenant_id, suspend(reason))
}

/** Resumes a tenant. @throws Refusal E_NOT_FOUND, E_STATE */
export function resumeTenant(tenant_id: string, reason: Reason): Operation<OperatorTenant> {
  return recordedCallIn('resumeTenant', tenant_id, resume(reason))
}
