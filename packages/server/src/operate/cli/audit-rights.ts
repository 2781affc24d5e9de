/** `eaas audit rights`: who could do what with which key at a time, from the log in the database. */

import { createRightsReader, type ExportVerdict, encodePublicKey, splitLines, verifyExport } from '@eaas/audit'
import { EXIT_CODES, KEY_ID_OPTION, printRights, readTime, showProgress } from '@eaas/audit/command'
import { counted } from '@eaas/protocol'
import type { Command } from 'commander'
import { verifyAudit } from '../../core/api/audit.js'
import { exportAudit } from '../../core/api/audit-export.js'
import type { Config } from '../../core/config.js'
import { performAsSystem } from '../../core/runner/perform.js'
import { commandConfig, JSON_OPTION, judge, type OfTenant, TENANT_OPTION } from './command.js'
import { describeTenant, type FoundTenant, getTenant, withServices } from './with-services.js'

/** Adds the command to those of `eaas audit`. */
export function addAuditRights(audit: Command): void {
  audit
    .command('rights')
    .description(
      'Show from the log in the database which API key could do what with which key at a time, and which copies of keys had been exported by then; from an export: npx @eaas/audit rights. Exit code 3 if the log was signed before that time: nothing proves what happened in between; 4 if an entry that the log lost, or that a clock dated later, may have changed rights by then.',
    )
    .addOption(TENANT_OPTION)
    .option('--at <time>', 'RFC 3339 with an offset, as in 2026-05-03T12:00:00Z (default: now)', readTime)
    .addOption(KEY_ID_OPTION)
    .addOption(JSON_OPTION)
    .addHelpText('after', EXIT_CODES)
    .action((options) => judge(() => auditRights(commandConfig(), { at: new Date().toISOString(), ...options })))
}

interface RightsCommand extends OfTenant {
  /** RFC 3339 in UTC with milliseconds */
  at: string
  /** only this key, and who could do what with it */
  keyId?: string
}

/**
 * Prints the rights that the log in the database records, if it is valid, rows included; returns the exit
 * code.
 */
async function auditRights(config: Config, command: RightsCommand): Promise<number> {
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
