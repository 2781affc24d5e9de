/** `eaas purge`: lets the operator run the retention. */
import { type Command, InvalidArgumentError } from 'commander'
import type { Config } from '../config.js'
import { purgeTenant } from '../jobs/purge-tenants.js'
import { DEFAULT_MAX_SHARE, type PurgePlan } from '../operations/purge-audit.js'
import { Refusal } from '../runner/refusal.js'
import { listTenants } from '../store/tenants.js'
import { commandConfig, JSON_OPTION, SAME_ENVIRONMENT, succeed } from './command.js'
import { print, printJson, showProgress } from './output.js'
import { getTenant, messageOf, withServices } from './with-services.js'

/** Adds `eaas purge`. */
export function addPurge(program: Command): void {
  program
    .command('purge')
    .description('Purge audit entries that are older than EAAS_AUDIT_RETENTION_MONTHS. The server does this every day.')
    .option('--tenant <tenant>', 'name or id of a tenant (default: all)')
    .option('--dry-run', 'only print what would be purged', false)
    .option('--archive <directory>', 'export the entries to this directory first (default: EAAS_AUDIT_ARCHIVE_DIR)')
    .option('--max-share <share>', 'refuse to purge a larger share of a log, 0 to 1', readShare, DEFAULT_MAX_SHARE)
    .addOption(JSON_OPTION)
    .addHelpText('after', SAME_ENVIRONMENT)
    .action((options) => succeed(purge(commandConfig(), options)))
}

function readShare(text: string): number {
  const share = Number(text)
  if (!/^[01](\.\d+)?$/.test(text) || share > 1) throw new InvalidArgumentError('It must be a number from 0 to 1.')
  return share
}

interface PurgeCommand {
  /** name or id; every tenant by default */
  tenant?: string
  dryRun: boolean
  archive?: string
  maxShare: number
  json: boolean
}

/** `refused` says why the purge of a tenant was refused or failed. */
type Result = { tenant: string; tenant_id: string } & (PurgePlan | { refused: string })

/** Purges what is older than the retention, of one tenant or of all; returns true if none was refused or failed. */
async function purge(config: Config, command: PurgeCommand): Promise<boolean> {
  const { tenant, dryRun, archive, maxShare, json } = command
  const { auditRetentionMonths: retentionMonths } = config
  if (retentionMonths === 0) {
    throw new Refusal('E_STATE', 'EAAS_AUDIT_RETENTION_MONTHS is 0: nothing is ever purged')
  }
  const results: Result[] = []
  await withServices(config, async (services) => {
    const wanted = tenant === undefined ? undefined : (await getTenant(services, tenant)).tenant_id
    for (const { tenant_id, name } of await listTenants(services.sql)) {
      if (wanted !== undefined && tenant_id !== wanted) continue
      const progress = showProgress(`${name}: deleted`)
      const onProgress = (deleted: number) => progress(`${deleted} entries`)
      const archiveDir = archive ?? config.auditArchiveDir
      const options = { retentionMonths, maxShare, dryRun, archiveDir, onProgress }
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
  return results.every((result) => !('refused' in result))
}

function describe(result: Result, dryRun: boolean): string {
  if ('refused' in result) return `${result.tenant}: ${result.refused}`
  const { tenant, entries, purged_through, restates, cutoff } = result
  if (entries === 0) return `${tenant}: nothing is older than ${cutoff}`
  const would = dryRun ? 'would be ' : ''
  const restated = restates > 0 ? `; rights ${would}restated: ${restates}` : ''
  return `${tenant}: ${entries} entries ${would}purged, through ${purged_through}, older than ${cutoff}${restated}`
}
