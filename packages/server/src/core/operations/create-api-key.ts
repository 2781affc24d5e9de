/** api_key.create: a new API key; its secret is shown once. */
import type { HeldPermission, wire } from '@eaas/protocol'
import { apiKeyMac, withMac } from '../audit/formats/row-mac.js'
import { decision, type Operation } from '../runner/operation.js'
import { type ApiKeyRow, insertApiKey } from '../store/api-keys.js'
import {
  assertBudgetHolds,
  assertGrantable,
  assertRoomForOne,
  newApiKey,
  readAllowedIps,
  readExpiry,
  readKeyList,
  rowBudgets,
  viewApiKey,
} from './shared/api-key.js'
import { recordGrant } from './shared/recorded-values.js'
import { assertNotDeleted } from './shared/tenant.js'

/** A new API key of a tenant or, for an operator, of the installation. */
type Grantable = Omit<wire.CreateApiKey, 'permissions'> & { permissions: HeldPermission[] }

/** Creates an API key. @throws Refusal E_STATE, E_VALIDATION, E_MISSING_PERMISSION, E_NOT_FOUND, E_LIMIT */
export function createApiKey({
  name,
  permissions,
  expires_at = null,
  allowed_ips = null,
  keys = null,
  budgets = null,
}: Grantable): Operation<wire.NewApiKey> {
  return async ({ state, caller, services, sql }) => {
    assertNotDeleted(state)
    const given = {
      tenant_id: state.tenant.tenant_id,
      name,
      permissions,
      expires_at: readExpiry(expires_at, services.now()),
      allowed_ips: readAllowedIps(allowed_ips),
      budgets: rowBudgets(budgets),
    }
    assertBudgetHolds(given)
    assertGrantable(caller, permissions)
    const grant = { ...given, keys: await readKeyList(state, caller, keys) }
    await assertRoomForOne(sql, grant.tenant_id, services.now())
    const { secret, row } = newApiKey(services, grant)
    return decision({
      entries: [{ action: 'api_key.create', metadata: { api_key_id: row.api_key_id, ...recordGrant(row) } }],
      async change(transaction, { entry_id, created_at }) {
        const apiKey: ApiKeyRow = withMac({ ...row, created_at, entry_id }, apiKeyMac, state.rowKey)
        await insertApiKey(transaction, apiKey)
        return { apiKey }
      },
      release: ({ apiKey }) => ({ ...viewApiKey(apiKey, services.now()), secret }),
    })
  }
}
