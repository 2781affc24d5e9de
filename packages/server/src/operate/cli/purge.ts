/** `eaas purge`: lets the operator apply the retention. */
import { counted, INSTALLATION_ID } from '@eaas/protocol'
import type { Command } from 'commander'
import type { Config } from '../../core/config.js'
import type { Services } from '../../core/runner/operation.js'
import { Refusal } from '../../core/runner/refusal.js'
import { type LeftOut, listTenantsByVerifiedRecord } from '../../guard/jobs/tenants-on-record.js'
import { purgeTenant } from '../jobs/purge-tenants.js'
import type { PurgePlan } from '../operations/purge-audit.js'
import { commandConfig, type Format, JSON_OPTION, readName, SAME_ENVIRONMENT, succeed } from './command.js'
import { print, printJson, showProgress } from './output.js'
import { describeTenant, type FoundTenant, getTenant, messageOf, withServices } from './with-services.js'

export function addPurge(program: Command): void {
  program
    .command('purge')
    .description(
      'Purge audit entries that are older than EAAS_AUDIT_RETENTION_MONTHS. The server does this every day, but holds back more than half of a log, and everything while no older entry shows that the clock is right. Exit code 1 if something is held back or failed.',
    )
    .option('--tenant <tenant>', 'name or id of a tenant (default: all)')
    .option('--dry-run', 'only print what would be purged, what is held back, and why', false)
    .option('--archive <directory>', 'export the entries to this directory first (default: EAAS_AUDIT_ARCHIVE_DIR)')
    .option(
      '--resume <reason>',
      'also purge what is held back; the logs record this reason, 1 to 255 characters',
      readName,
    )
    .addOption(JSON_OPTION)
    .addHelpText('after', SAME_ENVIRONMENT)
    .action((options) => succeed(purge(commandConfig(), options)))
}

type PurgeCommand = Format & { tenant?: string; dryRun: boolean; archive?: string; resume?: string }

type Result = { tenant: string; tenant_id: string } & (PurgePlan | { refused: string })

/** Purges entries older than the retention, of one tenant or of all; returns true if none was refused or failed. */
async function purge(config: Config, command: PurgeCommand): Promise<boolean> {
  const { tenant, dryRun, archive, resume, json } = command
  const { auditRetentionMonths: retentionMonths } = config
  if (retentionMonths === 0) throw new Refusal('E_STATE', 'EAAS_AUDIT_RETENTION_MONTHS is 0: nothing is ever purged')
  const results: Result[] = []
  await withServices(config, async (services) => {
    const { tenants, leftOut } =
      tenant === undefined ? await listAll(services) : { tenants: [await getTenant(services, tenant)], leftOut: [] }
    for (const { tenant_id, reason } of leftOut) results.push({ tenant: tenant_id, tenant_id, refused: reason })
    for (const { tenant_id, name } of tenants) {
      const progress = showProgress(`${name}: deleted`)
      const onProgress = (deleted: number) => progress(counted(deleted, 'entry', 'entries'))
      const archiveDir = archive ?? config.auditArchiveDir
      const options = { retentionMonths, resume, dryRun, archiveDir, onProgress }
      try {
        results.push({ tenant: name, tenant_id, ...(await purgeTenant(services, tenant_id, options)) })
      } catch (error) {
        results.push({ tenant: name, tenant_id, refused: messageOf(error) })
      } finally {
        progress.done()
      }
    }
  })
  if (json) printJson({ dry_run: dryRun, tenants: results })
  else print(...results.map((result) => describe(result, dryRun)))
  return results.every((result) => !('refused' in result) && result.held === undefined)
}

async function listAll(services: Services): Promise<{ tenants: FoundTenant[]; leftOut: LeftOut[] }> {
  const { tenants, leftOut, unread } = await listTenantsByVerifiedRecord(services)
  if (unread === undefined) return { tenants, leftOut }
  return { tenants, leftOut: [{ tenant_id: INSTALLATION_ID, reason: messageOf(unread) }] }
}

function describe(result: Result, dryRun: boolean): string {
  const name = describeTenant({ tenant_id: result.tenant_id, name: result.tenant })
  if ('refused' in result) return `${name}: ${result.refused}`
  const { entries, purged_through, restates, cutoff, held } = result
  if (entries === 0) return `${name}: nothing is older than ${cutoff}`
  const are = entries === 1 ? 'is' : 'are'
  const would = held !== undefined ? `${are} HELD BACK, and would be ` : dryRun ? 'would be ' : ''
  const restated = restates > 0 ? `; rights to restate: ${restates}` : ''
  return `${name}: ${counted(entries, 'entry', 'entries')} ${would}purged, through ${purged_through}, older than ${cutoff}${restated}${held === undefined ? '' : `. Why: ${held}`}`
}
