/** `eaas audit diff`: shows what a log lost, compared with kept checkpoints and an earlier export. Changes nothing. */
import { createReadStream } from 'node:fs'
import { type Checkpoint, CheckpointError, encodePublicKey, readCheckpoint } from '../audit/formats/checkpoint.js'
import { describeKept, listKeptNotes } from '../audit/verify/kept-checkpoint.js'
import { type ExportedEntry, isAnchor, isTrailer, readEntry, readHeader } from '../audit/verify/read-export.js'
import { splitLines } from '../audit/verify/split-lines.js'
import { verifyExport } from '../audit/verify/verify-export.js'
import { STANDARD_OUTPUT } from '../audit/watch/kept-witnesses.js'
import type { Config } from '../config.js'
import { type AuditDiff, diffAudit } from '../operations/diff-audit.js'
import { RECOVERY_PAGE } from '../recovery-page.js'
import { Refusal } from '../runner/refusal.js'
import { assertFile, readGiven } from './files.js'
import { print, printJson, table } from './output.js'
import { describeTenant, getTenant, withServices } from './with-services.js'

export interface DiffCommand {
  /** name or id */
  tenant: string
  /** a file of checkpoints, in any form (kept-checkpoint.ts); by default the server's own */
  checkpoint?: string
  /** an earlier export, or one of the abandoned database */
  export?: string
  json: boolean
}

/** Prints the differences; returns true if there are none. @throws Refusal E_VALIDATION if there is nothing to compare with */
export async function auditDiff(config: Config, { tenant, json, ...files }: DiffCommand): Promise<boolean> {
  const ownFile = config.checkpointFile === STANDARD_OUTPUT ? undefined : config.checkpointFile
  const checkpointFile = files.checkpoint ?? ownFile
  if (checkpointFile === undefined && files.export === undefined) {
    throw new Refusal('E_VALIDATION', 'there is nothing to compare with: give --checkpoint, --export or both')
  }
  const { owner, diff } = await withServices(config, async (services) => {
    const owner = await getTenant(services, tenant)
    const { tenant_id } = owner
    const publicKey = encodePublicKey(services.signingKey)
    if (files.export !== undefined) await assertExport(files.export, { tenant_id, publicKey })
    const kept =
      checkpointFile === undefined ? undefined : await readCheckpoints(checkpointFile, { tenant_id, publicKey })
    if (kept?.checkpoints.length === 0 && files.checkpoint !== undefined) throw new Refusal('E_VALIDATION', kept.fault)
    const diff = await diffAudit(services, tenant_id, {
      checkpoints: kept?.checkpoints ?? [],
      exported: files.export === undefined ? undefined : readEntries(files.export),
    })
    // An alarm's witness is compared too, so a log may differ although the server's own file holds nothing of it.
    if (diff.witnessed_through === 0) throw new Refusal('E_VALIDATION', nothingCompared(kept))
    return { owner, diff }
  })
  const { head_fault } = diff
  if (json) {
    const lost = diff.lost?.map(viewEntry) ?? null
    printJson({ ...diff, head_fault: head_fault?.reason ?? null, lost, tenant_id: owner.tenant_id })
  } else print(`The log of ${describeTenant(owner)} is compared.`, ...describe(diff))
  return diff.differs_at === null && head_fault === null
}

interface Kept {
  checkpoints: Checkpoint[]
  /** what is wrong with the file if it has none */
  fault: string
}

// Only checkpoints that the installation's key signed: a line that was cut short or forged proves nothing.
async function readCheckpoints(
  file: string,
  { tenant_id, publicKey }: { tenant_id: string; publicKey: string },
): Promise<Kept> {
  const text = await readGiven(file)
  const notes = listKeptNotes(text, tenant_id)
  const checkpoints = notes.flatMap((note) => {
    try {
      return [readCheckpoint(note, publicKey)]
    } catch (error) {
      if (error instanceof CheckpointError) return []
      throw error
    }
  })
  const contents = notes.length > 0 ? "checkpoints of it that this installation's key did not sign" : describeKept(text)
  return { checkpoints, fault: `${file} must have a checkpoint of this tenant's log, but has ${contents}` }
}

function nothingCompared(kept: Kept | undefined): string {
  const why =
    kept?.checkpoints.length === 0
      ? kept.fault
      : 'the checkpoints and the export are only of entries that were purged, or of none'
  return `nothing was compared: ${why}`
}

async function assertExport(file: string, { tenant_id, publicKey }: { tenant_id: string; publicKey: string }) {
  await assertFile(file)
  const verdict = await verifyExport(splitLines(createReadStream(file)), { publicKey })
  if (!verdict.valid)
    throw new Refusal('E_VALIDATION', `${file} does not verify: ${verdict.reason}, line ${verdict.line}`)
  if (verdict.tenant_id !== tenant_id) throw new Refusal('E_VALIDATION', `${file} is the log of another tenant`)
}

async function* readEntries(file: string): AsyncGenerator<ExportedEntry> {
  let position: { tenant_id: string; id: number } | undefined
  for await (const line of splitLines(createReadStream(file))) {
    if (!position) {
      const { tenant_id, after_id } = readHeader(line)
      position = { tenant_id, id: after_id }
    } else if (!isTrailer(line) && !isAnchor(line)) {
      position.id += 1
      yield readEntry(line, position)
    }
  }
}

function viewEntry({ hash: _, metadata, ...entry }: ExportedEntry) {
  return { ...entry, metadata: metadata === null ? null : (JSON.parse(metadata) as unknown) }
}

function describe(diff: AuditDiff): string[] {
  const { last_id, agrees_through, differs_at, witnessed_through, head_fault, lost, undone } = diff
  const known = `The log ends with entry ${last_id}.`
  const head = head_fault === null ? [] : [`But ${head_fault.detail} (${head_fault.reason}). ${RECOVERY_PAGE}.`]
  if (differs_at === null) {
    const what = head_fault === null ? 'No difference: it agrees' : 'Its entries agree'
    const after = `Whether it lost entries after entry ${last_id}, only a newer checkpoint, export or alarm can show.`
    return [known, `${what} through entry ${agrees_through}, the last one that can be compared.`, ...head, after]
  }
  const from = agrees_through + 1 === differs_at ? `${differs_at}` : `one of ${agrees_through + 1} to ${differs_at}`
  const lines = [
    known,
    `It agrees through entry ${agrees_through}. The first entry that differs is ${from}; the newest entry compared is ${witnessed_through}.`,
    ...head,
  ]
  if (lost === null) {
    return [
      ...lines,
      '',
      'Only an export shows which entries are lost and what they changed: --export FILE, made earlier, or from the abandoned',
      'database. Without one, check every API key (eaas api-key list) and every key (eaas key list), and replace those that you are',
      'unsure of. Both lists are refused while there is an alarm, and an API key whose revocation was lost works once it is accepted:',
      'stop the servers, accept the loss (eaas audit accept-rollback), list and revoke, and only then start the servers.',
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
    `The log lost ${lost.length} entries of the export: ${countActions(lost)}.`,
    '',
    ...(rows.length === 0
      ? ['None of them is a change that must be repeated.']
      : table(['ENTRY', 'CHANGE', 'OF', 'WRAPS LOST', 'TO DO'], rows)),
  ]
}

function countActions(entries: readonly ExportedEntry[]): string {
  const counts = new Map<string, number>()
  for (const { action } of entries) counts.set(action, (counts.get(action) ?? 0) + 1)
  return [...counts].map(([action, count]) => `${count} ${action}`).join(', ')
}
