/** Refuses server mode to envelope-only tenants: the refusal is committed as an entry before the caller gets it. */
import { DETAILS, foldUuid } from '@eaas/protocol'
import type { EntryNote, Operation } from './operation.js'
import { Refusal } from './refusal.js'
import type { TenantState } from './tenant-state.js'

const DETAIL = DETAILS.E_ENVELOPE_ONLY.call

/** A call of server mode: its name, and its body, which is not validated yet. */
export interface ServerModeCall {
  operation: string
  body: unknown
}

/**
 * Runs an operation of server mode for tenants whose server mode is open; refuses it on record for others.
 */
export function inServerMode<Answer>(call: ServerModeCall, operation: Operation<Answer>): Operation<Answer> {
  return (context) => (context.state.tenant.envelope_only ? refuseServerMode(call)(context) : operation(context))
}

/**
 * Refuses a call on record, with the key that its body names. @throws Refusal E_ENVELOPE_ONLY once the entry
 * is committed
 */
export function refuseServerMode({ operation, body }: ServerModeCall): Operation<never> {
  return async ({ state }) => ({
    entries: [{ action: 'envelope_only.refused', ...(await findNamedKey(state, body)), metadata: { operation } }],
    release: () => {
      throw new Refusal('E_ENVELOPE_ONLY', DETAIL)
    },
  })
}

// The version is the one that the body names, if the key has it, as on decrypt; otherwise the current one,
// which would have been used.
async function findNamedKey(
  state: TenantState,
  body: unknown,
): Promise<Pick<EntryNote, 'key_id' | 'key_version'> | undefined> {
  const { key_id, key_version } = (body ?? {}) as { key_id?: unknown; key_version?: unknown }
  const key = typeof key_id === 'string' ? await state.findKey(foldUuid(key_id)) : undefined
  if (!key) return undefined
  const isNamed = typeof key_version === 'number' && key.versions.has(key_version)
  return { key_id: key.row.key_id, key_version: isNamed ? key_version : key.row.current_version }
}
