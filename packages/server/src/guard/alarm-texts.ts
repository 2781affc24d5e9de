/**
 * What an alarm is about and what it stops, in words: the installation's own log belongs to no tenant, and an
 * alarm about it stops no tenant's calls.
 */
import { INSTALLATION_ID } from '@eaas/protocol'

const SERVED = 'tenants are served, but what that log would record, such as a change of a tenant or a purge, is refused'

/** What the log says of a new alarm. */
export function alarmMessage(tenant_id: string): string {
  if (tenant_id !== INSTALLATION_ID) return 'the audit chain is broken; this tenant is no longer served'
  return `the audit chain is broken, that of the installation's own log; ${SERVED}`
}

/** What alarms about these logs stop, and which command ends that. */
export function describeRefused(tenant_ids: readonly string[]): string {
  const own = tenant_ids.includes(INSTALLATION_ID)
    ? [
        `Of the installation's own log: ${SERVED}, until you settle this: see eaas accept rollback --installation --help`,
      ]
    : []
  const tenants = tenant_ids.some((id) => id !== INSTALLATION_ID)
    ? ['All calls of these tenants are refused until you settle this: see eaas accept --help']
    : []
  return [...own, ...tenants].join('. ')
}

/** The warning about a tenant that the checkpoint file names and the database lacks. */
export const MISSING_TENANT =
  'the checkpoint file names a tenant that is not in the database: a backup from before its creation was restored, or the database was ' +
  'tampered with. The tenant and its keys are lost unless a newer backup is restored'

export const ACCEPTED_ROW =
  'an alarm that an operator had accepted was in the database again, and its row is deleted: unless a server wrote it at that moment, somebody ' +
  'put it back'

export const GONE_ACCEPTED = 'an operator accepted that a tenant is gone from the database; its alarm is cleared'
