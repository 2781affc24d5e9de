/** `eaas audit rights`: who could do what with which key at a time, from the log in the database. */

import { createRightsReader, type ExportVerdict, encodePublicKey, splitLines, verifyExport } from '@eaas/audit'
import { printRights, showProgress } from '@eaas/audit/command'
import { counted } from '@eaas/protocol'
import type { Config } from '../../core/config.js'
import { exportAudit } from '../../core/operations/export-audit.js'
import { verifyAudit } from '../../core/operations/verify-audit.js'
import { performAsSystem } from '../../core/runner/perform.js'
import { describeTenant, type FoundTenant, getTenant, withServices } from './with-services.js'

export interface AuditRightsCommand {
  /** RFC 3339 in UTC with milliseconds */
  at: string
  /** name or id */
  tenant: string
  /** only this key, and who could do what with it */
  keyId?: string
  json: boolean
}

/**
 * Prints the rights that the log in the database records, if it is valid, rows included; returns the exit
 * code.
 */
export async function auditRights(config: Config, command: AuditRightsCommand): Promise<number> {
  const reader = createRightsReader(command.at)
  const progress = showProgress('read')
  const onProgress = (entries: number) => progress(counted(entries, 'entry', 'entries'))
  let owner: FoundTenant | undefined
  const verdict = await withServices(config, async (services): Promise<ExportVerdict> => {
    owner = await getTenant(services, command.tenant)
    const { tenant_id } = owner
    const { valid, reason, broken_at } = await performAsSystem(services, tenant_id, verifyAudit({ onProgress }))
    if (!valid) {
      const broken = { ...(broken_at !== undefined && { broken_at }), ...(reason !== undefined && { reason }) }
      return { valid, verified_entries: 0, trusted_key: true, tenant_id, ...broken }
    }
    const lines = await performAsSystem(services, tenant_id, exportAudit({}))
    const publicKey = encodePublicKey(services.signingKey)
    return verifyExport(splitLines(lines), { publicKey, onEntry: reader.read, onProgress })
  }).finally(progress.done)
  return printRights(verdict, reader.report(verdict), { ...command, owner: owner && describeTenant(owner) })
}
