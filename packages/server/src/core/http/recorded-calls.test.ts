// The permissions that the log demands of the API keys in it are those that the server demanded of the calls
// (chain.md 13).
import { ACTIONS, findNeededPermissions, type OperationId } from '@eaas/protocol'
import { describe, expect, it } from 'vitest'
import { ROUTES } from './endpoints.js'

/** What tells calls of one action apart in the metadata. */
const METADATA: Partial<Record<OperationId, Record<string, unknown>>> = {
  rewrap: { rewrapped_from: 1 },
  revokeSelf: { api_key_id: 'a' },
  revokeApiKey: { api_key_id: 'b' },
}
const findNeeded = (action: string, metadata: Record<string, unknown>) =>
  findNeededPermissions({ action, actor: 'a', metadata })
/** Written by the server and its operator alone. */
const OPERATORS = [
  'key.restate',
  'api_key.restate',
  'tenant.update',
  'tenant.restate',
  'usage.doubled',
  'audit.purge',
  'audit.rollback_accepted',
  'audit.clock_accepted',
  'audit.key_renew',
]

const recorded = ROUTES.flatMap(({ operationId, permissions, action }) =>
  action ? [{ operationId, permissions, action }] : [],
)

describe('an entry needs the permissions of its call:', () => {
  it.each(recorded)('$operationId', ({ operationId, permissions, action }) => {
    const metadata = METADATA[operationId] ?? {}
    expect(findNeeded(action, metadata)).toEqual(permissions)
    expect(findNeeded(action, { ...metadata, on_behalf_of: 'somebody' })).toEqual([
      ...permissions,
      'audit:on_behalf_of',
    ])
  })

  it.each(ROUTES.filter(({ serverMode }) => serverMode))('$operationId, refused on record', (route) => {
    const { operationId, permissions } = route
    expect(findNeeded('envelope_only.refused', { operation: operationId })).toEqual(permissions)
  })

  it('and no other action is written for an API key', () => {
    const others = ACTIONS.filter((action) => !recorded.some((row) => row.action === action))
    expect(others.sort()).toEqual([...OPERATORS, 'budget.refused', 'envelope_only.refused'].sort())
    expect(OPERATORS.map((action) => findNeeded(action, {}))).toEqual(OPERATORS.map(() => undefined))
  })

  it('and of an action of a later version nothing is demanded', () => {
    expect(['key.split', 'toString', ''].map((action) => findNeeded(action, {}))).toEqual([[], [], []])
  })
})
