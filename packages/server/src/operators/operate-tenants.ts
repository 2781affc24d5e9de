/** What operators do with tenants over HTTP: each call is on record in the installation's log before it is carried out. */
import { DETAILS, INSTALLATION_ID, isUuid } from '@eaas/protocol'
import type { z } from 'zod/mini'
import { mapInStretches } from '../core/event-loop.js'
import type { Caller, EntryNote, Operation, Services } from '../core/runner/operation.js'
import { performAsSystem } from '../core/runner/perform.js'
import { Refusal } from '../core/runner/refusal.js'
import { TamperedRowError } from '../core/store/tampered-row.js'
import { listTenants as listRows } from '../core/store/tenants.js'
import type { operatorTenantList } from './operator-schemas.js'
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
type TenantPage = z.infer<typeof operatorTenantList>

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

export type RecordedCall =
  | 'listTenants'
  | 'createTenant'
  | 'readTenant'
  | 'updateTenant'
  | 'suspendTenant'
  | 'resumeTenant'

/** Carries out a call as the operator, once it is recorded in the installation's log: otherwise nothing is done. */
function recordedCall<Answer>(
  call: RecordedCall,
  about: NonNullable<EntryNote['metadata']>,
  carryOut: (services: Services, caller: Caller) => Promise<Answer>,
): Operation<Answer> {
  return ({ services, caller }) => ({
    entries: [{ action: 'installation.operator_call', metadata: { call, ...about } }],
    release: () => carryOut(services, operatorCaller(caller)),
  })
}

/** Records a call about one tenant, and then runs an operation in it. @throws Refusal E_NOT_FOUND */
function recordedCallIn<Answer>(
  call: RecordedCall,
  tenant_id: string,
  operation: Operation<Answer>,
): Operation<Answer> {
  if (!isUuid(tenant_id) || tenant_id === INSTALLATION_ID) throw noTenant()
  return recordedCall(call, { tenant_id }, async (services, caller) => {
    if (!(await services.states.find(tenant_id))) throw noTenant()
    return performAsSystem(services, tenant_id, operation, { caller })
  })
}

/** In a tenant's log, a bare id would be that of one of the tenant's own API keys. */
function operatorCaller({ actor, ...rest }: Caller): Caller {
  return { ...rest, actor: `operator:${actor}`, apiKey: undefined }
}

function noTenant(): Refusal {
  return new Refusal('E_NOT_FOUND', DETAILS.E_NOT_FOUND.tenant)
}
