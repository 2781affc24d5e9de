/** Replaces the audit keys of all tenants, in a rotation of the store key. */
import { OpenError } from '@eaas/protocol'
import { ChainAlarmError } from '../../audit/append-errors.js'
import { resealAuditKey } from '../../audit/audit-key.js'
import { sealedUnder } from '../../crypto/key-hierarchy.js'
import type { Services } from '../../runner/operation.js'
import { Refusal } from '../../runner/refusal.js'
import { replaceAuditKey } from '../../store/store-keys.js'
import { TamperedRowError } from '../../store/tampered-row.js'
import { listTenants } from '../../store/tenants.js'
import { ChangedMeanwhileError, renewTenant, retryIfChanged } from './renew-tenant.js'

interface RenewOptions {
  /** the number of the store key that is to seal everything */
  number: number
  keepsSecrets: boolean
  signal: AbortSignal | undefined
  onProgress: ((written: number) => void) | undefined
}

/** The most tenants that are named because their audit key could not be renewed. */
const MOST_NAMED = 10

/**
 * Gives each tenant whose audit key an older store key seals a new audit key or, with `keepsSecrets`, seals
 * the same one again. A tenant that fails keeps its audit key, and the old store key must stay for it; the
 * others continue. Returns how many tenants it wrote, and why others failed.
 */
export async function renewTenants(
  services: Services,
  { number, keepsSecrets, signal, onProgress }: RenewOptions,
): Promise<{ renewed: number; reasons: string[] }> {
  const { sql, storeKeys } = services
  let renewed = 0
  const reasons: string[] = []
  for (const tenant of await listTenants(sql)) {
    signal?.throwIfAborted()
    const { tenant_id, wrapped_audit_key, mac } = tenant
    if (sealedUnder(wrapped_audit_key) >= number) continue
    try {
      if (keepsSecrets) {
        const next = { wrapped_audit_key: resealAuditKey(storeKeys, tenant_id, wrapped_audit_key), mac }
        if (await replaceAuditKey(sql, tenant, next)) renewed += 1
      } else if (await retryIfChanged(() => renewTenant(services, tenant_id, number))) renewed += 1
    } catch (error) {
      if (!isOfOneTenant(error)) throw error
      if (reasons.length < MOST_NAMED) reasons.push(`Tenant ${tenant_id}: ${error.message}`)
    }
    onProgress?.(renewed)
  }
  return { renewed, reasons }
}

/** Whether an error concerns one tenant alone, so that an operation on all of them continues with the others. */
export function isOfOneTenant(error: unknown): error is Error {
  const kinds = [Refusal, TamperedRowError, ChainAlarmError, OpenError, ChangedMeanwhileError]
  return kinds.some((kind) => error instanceof kind)
}
