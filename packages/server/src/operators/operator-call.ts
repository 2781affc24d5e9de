/**
 * A call by an operator's API key. The installation's log records it before anything is done, so if that log cannot
 * record it, nothing is done or answered.
 */
import { DETAILS, INSTALLATION_ID, isUuid } from '@eaas/protocol'
import type { Caller, EntryNote, Operation, Services } from '../core/runner/operation.js'
import { performAsSystem } from '../core/runner/perform.js'
import { Refusal } from '../core/runner/refusal.js'

/** The calls that are recorded. */
export type RecordedCall =
  | 'listTenants'
  | 'createTenant'
  | 'readTenant'
  | 'updateTenant'
  | 'suspendTenant'
  | 'resumeTenant'

/** Records a call, with what it is about, and then carries it out as the operator. */
export function recordedCall<Answer>(
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
export function recordedCallIn<Answer>(
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
