/** `eaas audit diff --all`: compares every log with the checkpoints in a file. Changes nothing. */
import { encodePublicKey } from '@eaas/audit'
import { counted, INSTALLATION_ID } from '@eaas/protocol'
import { LATER_KEY } from '../../core/audit/append-errors.js'
import type { Config } from '../../core/config.js'
import type { Services } from '../../core/runner/operation.js'
import { Refusal } from '../../core/runner/refusal.js'
import { TamperedRowError } from '../../core/store/tampered-row.js'
import { findMissingTenants } from '../../core/store/tenants.js'
import { listTenantsByVerifiedRecord } from '../../guard/jobs/tenants-on-record.js'
import { type AuditDiff, diffAudit } from '../../guard/operations/diff-audit.js'
import { checkpointFile, describeFaults, describeFirst, isDifferent } from './audit-diff.js'
import { type KeptCheckpoints, readKeptCheckpoints } from './kept-file.js'
import { linesOf, print, printAlarms, printJson, showProgress, table } from './output.js'
import { type FoundTenant, messageOf, withServices } from './with-services.js'

interface DiffAllCommand {
  checkpoint?: string // a file of checkpoints, in any form (kept-checkpoint.ts); by default the server's own
  json: boolean
}

interface Verdict {
  tenant_id: string
  name?: string // undefined for a missing tenant
  outcome: 'same' | 'different' | 'missing' | 'not compared'
  diff?: Pick<AuditDiff, 'last_id' | 'agrees_through' | 'differs_at' | 'witnessed_through' | 'accepted_through'>
  detail?: string // the fault, in words
}

/** Returns true if no log differs or is missing. @throws Refusal if no log differs, but one could not be compared */
export async function auditDiffAll(config: Config, { checkpoint, json }: DiffAllCommand): Promise<boolean> {
  const file = checkpointFile(config, checkpoint)
  if (file === undefined) throw new Refusal('E_VALIDATION', 'there is nothing to compare with: give --checkpoint')
  const progress = showProgress('compared')
  let alarms = 0
  const { verdicts, public_key } = await withServices(
    config,
    async (services) => ({
      verdicts: await compareAll(services, await readKeptCheckpoints(services, file), progress),
      public_key: encodePublicKey(services.signingKey),
    }),
    { onAlarm: () => alarms++ },
  ).finally(progress.done)
  printAlarms(alarms)
  const [different, uncompared] = [verdicts.filter(isFault), verdicts.filter(isUncompared)]
  if (json) printJson({ same: different.length + uncompared.length === 0, public_key, logs: verdicts.map(view) })
  else print(...describe(verdicts, file))
  if (different.length === 0 && uncompared.length > 0) {
    const advice = uncompared.some(({ detail }) => detail === NOT_SIGNED) ? `. ${LATER_KEY}` : ''
    throw new Refusal('E_VALIDATION', `${counted(uncompared.length, 'log')} could not be compared${advice}`)
  }
  return different.length === 0
}

async function compareAll(
  services: Services,
  kept: KeptCheckpoints,
  progress: (name: string) => void,
): Promise<Verdict[]> {
  const installation = { tenant_id: INSTALLATION_ID, name: 'installation' }
  const { tenants, leftOut, unread } = await listTenantsByVerifiedRecord(services)
  const verdicts: Verdict[] = []
  for (const owner of [installation, ...tenants]) {
    progress(owner.name)
    const onProgress = (entries: number) => progress(`${owner.name}: ${counted(entries, 'entry', 'entries')}`)
    verdicts.push(await compareOne(services, owner, { kept, onProgress }))
  }
  const known = new Set([...verdicts, ...leftOut].map(({ tenant_id }) => tenant_id))
  for (const tenant_id of await findMissingTenants(services.sql, [...kept.logs])) {
    if (known.has(tenant_id) || (await kept.of(tenant_id)).length === 0) continue
    leftOut.push({ tenant_id, reason: 'the checkpoints have this tenant, and the database does not' })
  }
  for (const { tenant_id, reason } of leftOut) verdicts.push({ tenant_id, outcome: 'missing', detail: reason })
  // Otherwise a tenant without a checkpoint that is missing from the list would go unnoticed.
  if (unread !== undefined) verdicts.push({ ...installation, outcome: 'not compared', detail: messageOf(unread) })
  return verdicts
}

const NOT_SIGNED = 'no key of this installation signed the checkpoints of it'

async function compareOne(
  services: Services,
  { tenant_id, name }: FoundTenant,
  { kept, onProgress }: { kept: KeptCheckpoints; onProgress: (entries: number) => void },
): Promise<Verdict> {
  const log = { tenant_id, name }
  try {
    const checkpoints = await kept.of(tenant_id)
    const diff = await diffAudit(services, tenant_id, { checkpoints, onProgress })
    if (isDifferent(diff)) return { ...log, outcome: 'different', diff, detail: describeDiff(diff) }
    if (diff.witnessed_through > 0) return { ...log, outcome: 'same', diff }
    const unsigned = kept.logs.has(tenant_id) ? NOT_SIGNED : 'the file has no checkpoint of it'
    const left =
      diff.accepted_through === null
        ? 'no checkpoint of an entry that was not purged'
        : 'no checkpoint but of entries that were purged or whose loss was accepted'
    return { ...log, outcome: 'not compared', diff, detail: checkpoints.length === 0 ? unsigned : left }
  } catch (error) {
    const outcome = error instanceof TamperedRowError ? 'different' : 'not compared'
    return { ...log, outcome, detail: messageOf(error) }
  }
}

const isFault = ({ outcome }: Verdict) => outcome === 'different' || outcome === 'missing'
const isUncompared = ({ outcome }: Verdict) => outcome === 'not compared'

function describeDiff(diff: AuditDiff): string {
  const { agrees_through, differs_at, witnessed_through } = diff
  const faults = describeFaults(diff)
  if (differs_at === null) return `Its entries agree through ${agrees_through}, but ${faults.join('; ')}`
  const parts = [describeFirst(diff), `the newest entry compared is ${witnessed_through}`, ...faults]
  return parts.join('; ')
}

function view({ tenant_id, name, outcome, diff, detail }: Verdict) {
  const { last_id = null, agrees_through = null, differs_at = null } = diff ?? {}
  const { witnessed_through = null, accepted_through = null } = diff ?? {}
  const found = { last_id, agrees_through, differs_at, witnessed_through, accepted_through }
  return { tenant_id, name: name ?? null, outcome, ...found, detail }
}

function describe(verdicts: readonly Verdict[], file: string): string[] {
  const rows = verdicts
    .filter(({ outcome }) => outcome !== 'same')
    .map(({ tenant_id, name = '-', outcome, detail = '' }) => [name, tenant_id, outcome, detail])
  const same = verdicts.length - rows.length
  const ends = `${counted(same, 'log agrees', 'logs agree')} with the checkpoints in ${file}. What a log lost after its newest checkpoint, these can't show.`
  const accepted = verdicts.flatMap(({ name, diff }) =>
    diff && diff.accepted_through !== null ? [`${name} (through entry ${diff.accepted_through})`] : [],
  )
  const left =
    accepted.length > 0 &&
    `Left out are checkpoints of entries whose loss was accepted (audit.rollback_accepted): ${accepted.join(', ')}.`
  if (rows.length === 0) return linesOf(`No difference: ${ends}`, left)
  return linesOf(
    ends,
    left,
    '',
    ...table(['NAME', 'ID', 'OUTCOME', 'DETAIL'], rows),
    '',
    `eaas audit diff ${chooseLog(verdicts.filter(({ outcome }) => outcome !== 'same'))} --export FILE names each lost entry, and what to do.`,
  )
}

function chooseLog(logs: readonly Verdict[]): string {
  const options = logs.map(({ tenant_id }) => (tenant_id === INSTALLATION_ID ? '--installation' : '--tenant ID'))
  return [...new Set(options)].sort().join(' or ')
}
