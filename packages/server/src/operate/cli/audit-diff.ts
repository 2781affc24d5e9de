/** `eaas audit diff`: shows what logs lost, compared with kept checkpoints and an earlier export. Changes nothing. */
import { createHash } from 'node:crypto'
import { createReadStream, existsSync } from 'node:fs'
import * as audit from '@eaas/audit'
import { assertFile, CommandError } from '@eaas/audit/command'
import { counted, INSTALLATION_ID } from '@eaas/protocol'
import { LATER_KEY, RECOVERY_PAGE } from '../../core/audit/append-errors.js'
import type { Config } from '../../core/config.js'
import type { Services } from '../../core/runner/operation.js'
import { Refusal } from '../../core/runner/refusal.js'
import { TamperedRowError } from '../../core/store/tampered-row.js'
import { findMissingTenants } from '../../core/store/tenants.js'
import { listTenantsByVerifiedRecord } from '../../guard/jobs/tenants-on-record.js'
import { type AuditDiff, diffAudit } from '../../guard/operations/diff-audit.js'
import { STANDARD_OUTPUT } from '../../guard/watch/kept-witnesses.js'
import type { OfLog } from './command.js'
import { type KeptCheckpoints, readKeptCheckpoints } from './kept-file.js'
import { linesOf, print, printJson, showProgress, table } from './output.js'
import { describeTenant, type FoundTenant, getLogOwner, messageOf, withServices } from './with-services.js'

interface DiffCommand extends OfLog {
  checkpoint?: string // a file of checkpoints, in any form (kept-checkpoint.ts); by default the server's own
  export?: string // an earlier export, or one of the abandoned database
}

/** Returns true if there are no differences. @throws Refusal E_VALIDATION if there is nothing to compare with */
export async function auditDiff(config: Config, { json, checkpoint, export: exported, ...log }: DiffCommand) {
  const file = checkpointFile(config, checkpoint)
  if (file === undefined && exported === undefined) {
    throw new Refusal('E_VALIDATION', 'there is nothing to compare with: give --checkpoint, --export or both')
  }
  const read = createReader()
  const progress = showProgress('compared')
  const { owner, diff } = await withServices(config, async (services) => {
    const owner = await getLogOwner(services, log)
    const { tenant_id } = owner
    if (exported !== undefined) {
      await assertExport(exported, { tenant_id, publicKey: services.signingKey.publicKeys }, read.hashed)
    }
    const kept = file === undefined ? undefined : await readKeptCheckpoints(services, file)
    const checkpoints = kept?.of(tenant_id) ?? []
    if (kept && checkpoint !== undefined && checkpoints.length === 0) {
      throw new Refusal('E_VALIDATION', kept.faultOf(tenant_id))
    }
    const diff = await diffAudit(services, tenant_id, {
      checkpoints,
      exported: exported === undefined ? undefined : readEntries(exported, read.hashed),
      onProgress: (entries) => progress(counted(entries, 'entry', 'entries')),
    })
    if (exported !== undefined) read.assertSame(exported)
    // An alarm's witness is compared too, so a log may differ although the server's own file has nothing about it.
    if (diff.witnessed_through === 0) {
      const fault = checkpoints.length === 0 ? kept?.faultOf(tenant_id) : undefined
      throw new Refusal('E_VALIDATION', `nothing was compared: ${fault ?? NOTHING_LEFT}`)
    }
    return { owner, diff }
  }).finally(progress.done)
  if (json) printJson(viewDiff(diff, owner))
  else print(`The log of ${describeTenant(owner)} is compared.`, ...describe(diff))
  return !isDifferent(diff)
}

const NOTHING_LEFT =
  'the checkpoints and the export are only of entries that were purged or whose loss was accepted, or of none'

function checkpointFile(config: Config, given: string | undefined): string | undefined {
  const own = config.checkpointFile === STANDARD_OUTPUT ? undefined : config.checkpointFile
  return given ?? (own !== undefined && existsSync(own) ? own : undefined)
}

function isDifferent({ differs_at, head_fault }: AuditDiff): boolean {
  return differs_at !== null || head_fault !== null
}

function viewDiff({ head_fault, entry_fault, lost, ...diff }: AuditDiff, { tenant_id }: FoundTenant) {
  const faults = { head_fault: head_fault?.reason ?? null, entry_fault: entry_fault?.reason ?? null }
  return { ...diff, ...faults, lost: lost?.map(viewEntry) ?? null, tenant_id }
}

function describeFaults({ head_fault, entry_fault }: AuditDiff): string[] {
  return [entry_fault, head_fault].flatMap((fault) => (fault ? [`${fault.detail} (${fault.reason})`] : []))
}

/** @throws Refusal if an export does not verify by the installation's keys, or is of another log */
async function assertExport(
  file: string,
  { tenant_id, publicKey }: { tenant_id: string; publicKey: audit.PublicKeys },
  read: Reader['hashed'],
) {
  await assertFile(file)
  const verdict = await audit.verifyExport(audit.splitLines(read(file)), { publicKey })
  if (!verdict.valid)
    throw new Refusal('E_VALIDATION', `${file} does not verify: ${verdict.reason}, line ${verdict.line}`)
  if (verdict.tenant_id !== tenant_id) throw new Refusal('E_VALIDATION', `${file} is the log of another tenant`)
}

type Reader = ReturnType<typeof createReader>

/** Reads a file twice, for its signature and its entries; notices if it changed in between. */
function createReader() {
  const digests: string[] = []
  return {
    async *hashed(file: string): AsyncGenerator<Uint8Array> {
      const hash = createHash('sha256')
      for await (const chunk of createReadStream(file) as AsyncIterable<Uint8Array>) {
        hash.update(chunk)
        yield chunk
      }
      digests.push(hash.digest('hex'))
    },
    assertSame(file: string): void {
      const [first, second] = digests
      if (first === undefined || first !== second) throw new CommandError(`${file} was changed while it was read.`)
    },
  }
}

async function* readEntries(file: string, read: Reader['hashed']): AsyncGenerator<audit.ExportedEntry> {
  let position: { tenant_id: string; id: number } | undefined
  for await (const line of audit.splitLines(read(file))) {
    if (!position) {
      const { tenant_id, after_id } = audit.readHeader(line)
      position = { tenant_id, id: after_id }
    } else if (!audit.isTrailer(line) && !audit.isAnchor(line) && !audit.isLinks(line)) {
      position.id += 1
      yield audit.readEntry(line, position)
    }
  }
}

function viewEntry({ hash: _, metadata, ...entry }: audit.ExportedEntry) {
  return { ...entry, metadata: metadata === null ? null : (JSON.parse(metadata) as unknown) }
}

function describe(diff: AuditDiff): string[] {
  const { last_id, agrees_through, differs_at, witnessed_through, accepted_through, lost, undone } = diff
  const known = linesOf(
    `The log ends with entry ${last_id}.`,
    accepted_through !== null &&
      `Left out are checkpoints of lost entries, through entry ${accepted_through}: the loss was accepted (audit.rollback_accepted).`,
  )
  const faults = describeFaults(diff).map((fault) => `But ${fault}. ${RECOVERY_PAGE}.`)
  if (differs_at === null) {
    const what = faults.length === 0 ? 'No difference: it agrees' : 'Its entries agree'
    const after = `Whether it lost entries after entry ${last_id}, only a newer checkpoint, export or alarm can show.`
    return [...known, `${what} through entry ${agrees_through}, the last one that can be compared.`, ...faults, after]
  }
  const lines = [
    ...known,
    `It agrees through entry ${agrees_through}. ${describeFirst(diff)}; the newest entry compared is ${witnessed_through}.`,
    ...faults,
  ]
  if (lost === null) {
    return [
      ...lines,
      '',
      'Only an export shows which entries are lost and what they changed: --export FILE, made earlier, or from the abandoned',
      'database. Without one, check every API key (eaas api-key list) and every key (eaas key list), and replace those that you are',
      'unsure of. Both lists are refused while there is an alarm, and an API key whose revocation was lost works once it is accepted:',
      'stop the servers, accept the loss (eaas accept rollback), list and revoke, and only then start the servers.',
    ]
  }
  const rows = undone.map(({ entry_id, change, key_id, key_version, api_key_id, wraps, remedy }) => [
    String(entry_id),
    change,
    api_key_id ?? (key_id === undefined ? '-' : `${key_id} v${key_version ?? '-'}`),
    wraps === undefined ? '-' : String(wraps),
    remedy,
  ])
  return [
    ...lines,
    lost.length === 0
      ? 'The log lost no entry of the export.'
      : `The log lost ${counted(lost.length, 'entry', 'entries')} of the export: ${countActions(lost)}.`,
    '',
    ...(rows.length === 0
      ? ['None of them is a change that must be repeated.']
      : table(['ENTRY', 'CHANGE', 'OF', 'WRAPS LOST', 'TO DO'], rows)),
  ]
}

function describeFirst(diff: Pick<AuditDiff, 'agrees_through' | 'differs_at'>): string {
  const { agrees_through, differs_at } = diff
  const from = agrees_through + 1 === differs_at ? `${differs_at}` : `one of ${agrees_through + 1} to ${differs_at}`
  return `The first entry that differs is ${from}`
}

function countActions(entries: readonly audit.ExportedEntry[]): string {
  const counts = new Map<string, number>()
  for (const { action } of entries) counts.set(action, (counts.get(action) ?? 0) + 1)
  return [...counts].map(([action, count]) => `${count} ${action}`).join(', ')
}

interface Verdict {
  tenant_id: string
  name?: string // undefined for a tenant that is missing
  outcome: 'same' | 'different' | 'missing' | 'not compared'
  diff?: Pick<AuditDiff, 'last_id' | 'agrees_through' | 'differs_at' | 'witnessed_through' | 'accepted_through'>
  detail?: string // what is wrong, in words
}

/** Returns true if no log differs or is missing. @throws Refusal if no log differs, but one could not be compared */
export async function auditDiffAll(config: Config, { checkpoint, json }: DiffCommand): Promise<boolean> {
  const file = checkpointFile(config, checkpoint)
  if (file === undefined) throw new Refusal('E_VALIDATION', 'there is nothing to compare with: give --checkpoint')
  const progress = showProgress('compared')
  let alarms = 0
  const { verdicts, public_key } = await withServices(
    config,
    async (services) => ({
      verdicts: await compareAll(services, await readKeptCheckpoints(services, file), progress),
      public_key: audit.encodePublicKey(services.signingKey),
    }),
    { onAlarm: () => alarms++ },
  ).finally(progress.done)
  printAlarms(alarms)
  const [different, uncompared] = [verdicts.filter(isFault), verdicts.filter(isUncompared)]
  if (json) printJson({ same: different.length + uncompared.length === 0, public_key, logs: verdicts.map(view) })
  else print(...describeAll(verdicts, file))
  if (different.length === 0 && uncompared.length > 0) {
    const advice = uncompared.some(({ detail }) => detail === NOT_SIGNED) ? `. ${LATER_KEY}` : ''
    throw new Refusal('E_VALIDATION', `${counted(uncompared.length, 'log')} could not be compared${advice}`)
  }
  return different.length === 0
}

export function printAlarms(alarms: number): void {
  if (alarms > 0)
    process.stderr.write(`eaas: there ${alarms === 1 ? 'is an alarm' : `are ${alarms} alarms`} about logs\n`)
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
  const others = kept.logs.filter((log) => !known.has(log) && kept.of(log).length > 0)
  for (const tenant_id of await findMissingTenants(services.sql, others)) {
    leftOut.push({ tenant_id, reason: 'the checkpoints have this tenant, and the database does not' })
  }
  for (const { tenant_id, reason } of leftOut) verdicts.push({ tenant_id, outcome: 'missing', detail: reason })
  // A tenant missing from the list, and without a checkpoint, would go unnoticed.
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
    const checkpoints = kept.of(tenant_id)
    const diff = await diffAudit(services, tenant_id, { checkpoints, onProgress })
    if (isDifferent(diff)) return { ...log, outcome: 'different', diff, detail: describeDiff(diff) }
    if (diff.witnessed_through > 0) return { ...log, outcome: 'same', diff }
    const unsigned = kept.logs.includes(tenant_id) ? NOT_SIGNED : 'the file has no checkpoint of it'
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

function describeAll(verdicts: readonly Verdict[], file: string): string[] {
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
