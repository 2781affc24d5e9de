/** Server mode is closed to envelope-only tenants: the refusal is on record before it is told. */
import type { EntryNote, Operation } from './operation.js'
import { Refusal } from './refusal.js'
import type { TenantState } from './tenant-state.js'

const DETAIL =
  'E_ENVELOPE_ONLY: this tenant encrypts on the client only. Use wrap and unwrap, or ask the operator to open server mode.'

/** A call of server mode: its name, and its body, of which nothing is known yet. */
export interface ServerModeCall {
  operation: 'encrypt' | 'decrypt'
  body: unknown
}

/** Lets an operation of server mode through for tenants to whom it was opened; refuses it on record otherwise. */
export function inServerMode<Answer>(call: ServerModeCall, operation: Operation<Answer>): Operation<Answer> {
  return (context) => (context.state.tenant.envelope_only ? refuseServerMode(call)(context) : operation(context))
}

/** Refuses, on record, with the key that the body names. @throws Refusal E_ENVELOPE_ONLY once the entry is committed */
export function refuseServerMode({ operation, body }: ServerModeCall): Operation<never> {
  return async ({ state }) => ({
    entries: [{ action: 'envelope_only.refused', ...(await findNamedKey(state, body)), metadata: { operation } }],
    release: () => {
      throw new Refusal('E_ENVELOPE_ONLY', DETAIL)
    },
  })
}

// The version that the body names where the key has it, as on decrypt; otherwise the one that would have been used.
async function findNamedKey(
  state: TenantState,
  body: unknown,
): Promise<Pick<EntryNote, 'key_id' | 'key_version'> | undefined> {
  const { key_id, key_version } = (body ?? {}) as { key_id?: unknown; key_version?: unknown }
  const key = typeof key_id === 'string' ? await state.findKey(key_id) : undefined
  if (!key) return undefined
  const isNamed = typeof key_version === 'number' && key.versions.has(key_version)
  return { key_id: key.row.key_id, key_version: isNamed ? key_version : key.row.current_version }
}
