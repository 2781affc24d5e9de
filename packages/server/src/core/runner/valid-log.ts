/** Verifies a whole log, for work that may rely only on a valid one. */
import type { wire } from '@eaas/protocol'
import type { ValidLog, VerifyOptions } from '../audit/verify/verify.js'
import type { Services } from './operation.js'
import type { TenantState } from './tenant-state.js'

/** What a log says, if it is valid; otherwise what is wrong with it. */
export type ReadLog = { valid: ValidLog } | ({ valid: undefined } & Pick<wire.Verification, 'reason' | 'broken_at'>)

/** Verifies a tenant's whole log in the database. @throws the signal's reason once it is aborted */
export async function readValidLog(
  { verifyLog }: Pick<Services, 'verifyLog'>,
  { tenant: { tenant_id }, auditKey }: TenantState,
  options: Pick<VerifyOptions, 'isHeadIgnored' | 'noted' | 'onProgress' | 'signal'> = {},
): Promise<ReadLog> {
  let valid: ValidLog | undefined
  const onValid = (found: ValidLog) => {
    valid = found
  }
  const { reason, broken_at } = await verifyLog({ tenant_id, auditKey, onValid, ...options })
  if (valid) return { valid }
  return { valid, ...(reason === undefined ? {} : { reason }), ...(broken_at === undefined ? {} : { broken_at }) }
}
