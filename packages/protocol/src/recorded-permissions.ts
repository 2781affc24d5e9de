/** The permissions that an API key needs for the call that an entry of the log records (chain.md 13). Pure. */
import { CALL_RULES } from './call-rules.js'
import type { Action } from './entry-names.js'
import type { Permission } from './names.js'
import type { OperationId } from './routes.js'

/** Undefined if only the server and its operator write the action. */
const CALLS: Record<Exclude<Action, 'envelope_only.refused' | 'budget.refused'>, OperationId | undefined> = {
  'key.wrap': 'wrap',
  'key.unwrap': 'unwrap',
  'key.index_secret': 'indexSecret',
  'key.create': 'createKey',
  'key.rotate': 'rotateKey',
  'key.update': 'updateKey',
  'key.enable': 'enableKey',
  'key.disable': 'disableKey',
  'key.destroy': 'destroyKey',
  'key.export': 'exportKey',
  'key.rotation_policy': 'setRotation',
  encrypt: 'encrypt',
  decrypt: 'decrypt',
  'api_key.create': 'createApiKey',
  'api_key.update': 'updateApiKey',
  'api_key.revoke': 'revokeApiKey',
  'key.restate': undefined,
  'api_key.restate': undefined,
  'tenant.update': undefined,
  'tenant.restate': undefined,
  'usage.doubled': undefined,
  'audit.purge': undefined,
  'audit.rollback_accepted': undefined,
  'audit.clock_accepted': undefined,
  'audit.key_renew': undefined,
}

export interface RecordedCall {
  action: string
  actor: string
  metadata: Readonly<Record<string, unknown>>
}

/** The permissions for this entry; undefined if no API key may write it. An unknown action needs none. */
export function findNeededPermissions(recorded: RecordedCall): readonly Permission[] | undefined {
  const needed = permissionsOf(recorded)
  return needed && recorded.metadata.on_behalf_of !== undefined ? [...needed, 'audit:on_behalf_of'] : needed
}

export function isSelfRevocation({ action, actor, metadata }: RecordedCall): boolean {
  return action === 'api_key.revoke' && metadata.api_key_id === actor
}

function permissionsOf(recorded: RecordedCall): readonly Permission[] | undefined {
  const { action, metadata } = recorded
  if (isSelfRevocation(recorded)) return CALL_RULES.revokeSelf.permissions
  if (action === 'envelope_only.refused') return refusedPermissions(metadata.operation)
  if (action === 'key.wrap' && metadata.rewrapped_from !== undefined) return CALL_RULES.rewrap.permissions
  if (!Object.hasOwn(CALLS, action)) return []
  const call = CALLS[action as keyof typeof CALLS]
  return call && CALL_RULES[call].permissions
}

function refusedPermissions(operation: unknown): readonly Permission[] {
  return operation === 'encrypt' || operation === 'decrypt' ? CALL_RULES[operation].permissions : []
}
