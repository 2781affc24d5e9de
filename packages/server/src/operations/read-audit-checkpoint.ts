/** Signs a checkpoint of the tenant's audit log. Writes no entry. */
import type { wire } from '@eaas/protocol'
import type { Operation } from '../runner/operation.js'
import { getHead, signHead } from './shared/audit-log.js'

/** Signs a statement of where the tenant's log ends now. */
export function readAuditCheckpoint(): Operation<wire.Checkpoint> {
  return async (context) => ({
    entries: [],
    release: async () => signHead(context, await getHead(context)),
  })
}
