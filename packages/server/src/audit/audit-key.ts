/**
 * The key that a tenant's chain, heads and rows are authenticated by (key-hierarchy.md 4), opened from the
 * tenant's row.
 */
import type { KeyObject } from 'node:crypto'
import { OpenError } from '@eaas/protocol'
import { openSecret, type StoreKeys } from '../crypto/key-hierarchy.js'
import { TamperedRowError } from '../store/tampered-row.js'
import type { TenantRow } from '../store/tenants.js'

/**
 * Opens a tenant's audit key. @throws TamperedRowError if it is not the one that the server wrote for this
 * tenant
 */
export function openAuditKey(
  storeKeys: StoreKeys,
  { tenant_id, wrapped_audit_key }: Pick<TenantRow, 'tenant_id' | 'wrapped_audit_key'>,
): KeyObject {
  try {
    return openSecret(storeKeys, { purpose: 'audit-key', tenant_id }, wrapped_audit_key)
  } catch (error) {
    if (!(error instanceof OpenError)) throw error
    throw new TamperedRowError(`the audit key of tenant ${tenant_id} was changed outside the server`)
  }
}
