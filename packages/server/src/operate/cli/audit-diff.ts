/** `eaas audit diff`: shows what a log lost, compared with kept checkpoints and an earlier export. Changes nothing. */
import { createHash } from 'node:crypto'
import { createReadStream, existsSync } from 'node:fs'
import * as audit from '@eaas/audit'
import { assertFile, CommandError } from '@eaas/audit/command'
import { counted } from '@eaas/protocol'
import { RECOVERY_PAGE } from '../../core/audit/append-errors.js'
import type { Config } from '../../core/config.js'
import { Refusal } from '../../core/runner/refusal.js'
import { type AuditDiff, diffAudit } from '../../guard/operations/diff-audit.js'
import { STANDARD_OUTPUT } from '../../guard/watch/kept-witnesses.js'
import type { OfLog } from './command.js'
import { readKeptCheckpoints } from './kept-file.js'
import { linesOf, print, printJson, showProgress, table } from './output.js'
import { describeTenant, type FoundTenant, getLogOwner, withServices } from './with-services.js'

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
    const checkpoints = (await kept?.of(tenant_id)) ?? []
    if (kept && checkpoint !== undefined && checkpoints.length === 0) {
      throw new Refusal('E_VALIDATION', kept.faultOf(tenant_id))
    }
    const diff = await diffAudit(services, tenant_id, {
      checkpoints,
      exported: exported === undefined ? undefined : readEntries(exported, read.hashed),
      onProgress: (entries) => progress(counted(entries, 'entry', 'entries')),
    })
    if (exported !== undefined) read.assertSame(exported)
    // An alarm's witness is also compared, so a log may differ even if the server's own file has nothing about it.
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

/** The file of checkpoints to compare with: the given one, or the server's own if it exists. */
export function checkpointFile(config: Config, given: string | undefined): string | undefined {
  const own = config.checkpointFile === STANDARD_OUTPUT ? undefined : config.checkpointFile
  return given ?? (own !== undefined && existsSync(own) ? own : undefined)
}

export function isDifferent({ differs_at, head_fault }: AuditDiff): boolean {
  return differs_at !== null || head_fault !== null
}

function viewDiff({ head_fault, entry_fault, lost, ...diff }: AuditDiff, { tenant_id }: FoundTenant) {
  const faults = { head_fault: head_fault?.reason ?? null, entry_fault: entry_fault?.reason ?? null }
  return { ...diff, ...faults, lost: lost?.map(viewEntry) ?? null, tenant_id }
}

export function describeFaults({ head_fault, entry_fault }: AuditDiff): string[] {
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

/** Reads a file twice, for its signature and its entries; detects a change in between. */
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

export function describeFirst(diff: Pick<AuditDiff, 'agrees_through' | 'differs_at'>): string {
  const { agrees_through, differs_at } = diff
  const from = agrees_through + 1 === differs_at ? `${differs_at}` : `one of ${agrees_through + 1} to ${differs_at}`
  return `The first entry that differs is ${from}`
}

function countActions(entries: readonly audit.ExportedEntry[]): string {
  const counts = new Map<string, number>()
  for (const { action } of entries) counts.set(action, (counts.get(action) ?? 0) + 1)
  return [...counts].map(([action, count]) => `${count} ${action}`).join(', ')
}
