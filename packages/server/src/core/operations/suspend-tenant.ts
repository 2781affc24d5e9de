/**
 * tenant.update of the status: a suspended tenant keeps everything, and every call of it is refused until it
 * is resumed.
 */
import type { Operation } from '../runner/operation.js'
import { assertNotDeleted, changeTenant, type OperatorTenant, type Reason, viewForOperator } from './shared/tenant.js'

/** Suspends a tenant; one that is suspended stays so, and gets an entry if there is a reason. @throws Refusal E_STATE */
export function suspendTenant(reason: Reason): Operation<OperatorTenant> {
  return setStatus('suspended', reason)
}

/** Resumes a suspended tenant; one that is active stays so, and gets an entry if there is a reason. @throws Refusal E_STATE */
export function resumeTenant(reason: Reason): Operation<OperatorTenant> {
  return setStatus('active', reason)
}

function setStatus(status: 'active' | 'suspended', { reason }: Reason): Operation<OperatorTenant> {
  return async (context) => {
    const { state } = context
    assertNotDeleted(state)
    if (reason !== undefined) return changeTenant(context, { status }, { reason })
    if (state.tenant.status !== status) return changeTenant(context, { status })
    return { entries: [], release: () => viewForOperator(state.tenant) }
  }
}
