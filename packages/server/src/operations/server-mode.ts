/** Server mode is closed to envelope-only tenants: the refusal is on record before it is told. */
import type { Operation } from './operation.js'
import { Refusal } from './refusal.js'

const DETAIL =
  'E_ENVELOPE_ONLY: this tenant encrypts on the client only. Use wrap and unwrap, or ask the operator to open server mode.'

/** Lets an operation of server mode through for tenants to whom it was opened; refuses it on record otherwise. */
export function inServerMode<Answer>(name: string, operation: Operation<Answer>): Operation<Answer> {
  return (context) => (context.state.tenant.envelope_only ? refuseServerMode(name)(context) : operation(context))
}

/** Refuses, on record. @throws Refusal E_ENVELOPE_ONLY once the entry is committed */
export function refuseServerMode(name: string): Operation<never> {
  return async () => ({
    entries: [{ action: 'envelope_only.refused', metadata: { operation: name } }],
    release: () => {
      throw new Refusal('E_ENVELOPE_ONLY', DETAIL)
    },
  })
}
