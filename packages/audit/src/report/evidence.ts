/** The first page of a report: the verdict, what it rests on, and what it does not prove. Pure. */
import { encodeHex, listTexts, visible } from '@eaas/protocol'
import { sha256 } from '../crypto.js'
import { readPublicKey } from '../formats/checkpoint.js'
import { describeLosses, describeRollbacks } from '../verify/accepted-rollbacks.js'
import { describeCheckpoints, describeStatement } from '../verify/compare-checkpoints.js'
import { describeAhead, type EntryTimes } from '../verify/entry-times.js'
import { describeMove } from '../verify/moves.js'
import type { ExportVerdict } from '../verify/verify-export.js'

export interface EvidenceSource extends EntryTimes {
  verdict: ExportVerdict
  from: string
  to: string
  fromExport?: { from: boolean; to: boolean }
  /** the files that were read, each with its SHA-256 in hexadecimal */
  files: readonly { name: string; sha256: string }[]
  witnessed?: { entry_id: number; cosigned_at: string } | undefined
  witnesses?: readonly string[] | undefined
  /** names of the tenant, of keys and of API keys by id, from a file that the auditor gave */
  names: ReadonlyMap<string, string>
  version: string
  command: string
}

export interface Evidence {
  verdict: string
  tone: 'good' | 'due' | 'alarm'
  facts: readonly { name: string; text: string }[]
  not_proven: readonly string[]
}

/** Lists why a valid export does not cover the period, as sentences without a full stop; empty if it does. */
export function listUncovered(source: EvidenceSource): string[] {
  const { losses } = source
  return listTexts(
    findUncoveredBeginning(source),
    findUncoveredEnd(source),
    losses.length > 0 && `entries of the period may be lost: ${describeLosses(losses)}`,
  )
}

function findUncoveredEnd({ verdict, to, fromExport, last_at = '', ahead }: EvidenceSource): string | undefined {
  const { last_id, missing = [], signed_at = '' } = verdict
  const isCut = missing.includes('end')
  // The next entry may have the same millisecond, and would then count for the rights at the end of the period.
  if (isCut && last_at <= to)
    return `the export ends with entry ${last_id} of ${last_at}, which is not after the end of the period`
  if (!isCut && !fromExport?.to && signed_at < to)
    return `the export ends where it was signed, at ${signed_at}, which is before the end of the period`
  if (!ahead) return undefined
  return `${describeAhead(ahead)}, so what is dated from then on may be of the period and is not counted; list it with the command entries and --from=${ahead.entry.created_at}`
}

function findUncoveredBeginning({ verdict, from, to, fromExport, first_at }: EvidenceSource): string | undefined {
  const { after_id = 0, purged_through } = verdict
  // The entry before may have the same millisecond: an interrupted purge of many entries may end anywhere.
  if (after_id === 0 || (first_at ?? to) < from) return undefined
  if (fromExport?.from && purged_through === after_id) return undefined
  const why = purged_through === after_id ? 'were purged' : 'are missing'
  return `entries through ${after_id} ${why}, and the first that is left is of ${first_at ?? 'no time'}, not before the beginning of the period`
}

export function createEvidence(source: EvidenceSource): Evidence {
  const { verdict, from, to } = source
  const uncovered = verdict.valid ? listUncovered(source) : []
  const { tenant_id } = verdict
  const named = source.names.get(tenant_id ?? '')
  return {
    ...judge(source, uncovered),
    facts: [
      ...(tenant_id === undefined
        ? []
        : [{ name: 'Tenant', text: named === undefined ? tenant_id : `${visible(named)}, ${tenant_id}` }]),
      { name: 'Period', text: `from ${from} until before ${to}` },
      ...(verdict.valid ? listProven(source) : []),
      ...source.files.map(({ name, sha256 }) => ({ name: 'File', text: `${name}, SHA-256 ${sha256}` })),
      { name: 'Made by', text: `@eaas/audit ${source.version}` },
      { name: 'Made again by', text: source.command },
    ],
    not_proven: verdict.valid ? listUnproven(source, uncovered) : [],
  }
}

function judge({ verdict }: EvidenceSource, uncovered: readonly string[]): Pick<Evidence, 'verdict' | 'tone'> {
  const { valid, reason, line, broken_at, trusted_key, checkpoint_compared, verified_entries } = verdict
  if (!valid) {
    const where = broken_at === undefined ? `line ${line}` : `line ${line}, entry ${broken_at}`
    return { verdict: `The export is NOT valid, so nothing is reported from it: ${reason} (${where}).`, tone: 'alarm' }
  }
  const faults = listTexts(
    !trusted_key && 'the key that signed it was not given by the auditor',
    checkpoint_compared === false && 'a checkpoint that was given could not be compared with it',
    uncovered,
  )
  const proven = `The export is valid: ${verified_entries === 1 ? 'its one entry' : `each of its ${verified_entries} entries`} is as the server signed it`
  if (faults.length > 0) return { verdict: `${proven}; but ${faults.join('; ')}.`, tone: 'due' }
  const rest = checkpoint_compared
    ? `, it covers the period, and it agrees with the checkpoint that was kept elsewhere${isWordOfServer(verdict) ? ', by the word of the server alone' : ''}`
    : ', and it covers the period'
  return { verdict: `${proven}${rest}.`, tone: 'good' }
}

function listProven({ verdict, first_at, last_at, witnessed, witnesses }: EvidenceSource): Evidence['facts'] {
  const { after_id = 0, last_id = after_id, head_id = last_id, public_key = '', anchor, checkpoint } = verdict
  const isPurged = verdict.purged_through === after_id
  const missing = isPurged ? `purged through entry ${after_id}` : `entries through ${after_id} are not in the file`
  const end = head_id > last_id ? `the log went on to entry ${head_id}` : 'the log ended there when this was signed'
  const facts: [name: string, texts: string | string[] | false | undefined][] = [
    ['Entries', last_id === after_id ? 'none' : `${after_id + 1} of ${first_at} to ${last_id} of ${last_at}`],
    ['Before and after', `${after_id === 0 ? 'nothing is missing before' : missing}; ${end}`],
    ['Signed', `${verdict.signed_at}`],
    ['By key', public_key],
    ['Fingerprint', `SHA-256 ${encodeHex(sha256(readPublicKey(public_key).key))}`],
    [
      'Key compared',
      verdict.trusted_key
        ? 'it is the key that the auditor gave'
        : 'no: compare it with what eaas audit public-key prints, over another way',
    ],
    ['Key changed', verdict.key_changes?.map(({ from, to, created_at }) => `${created_at}: from ${from} to ${to}`)],
    [
      'Checkpoint',
      checkpoint
        ? `${verdict.checkpoint_compared ? 'agrees' : 'NOT compared'}: ${describeStatement(checkpoint)}`
        : 'none was given',
    ],
    ['Checkpoints', verdict.checkpoints && describeCheckpoints(verdict.checkpoints)],
    ['Moved', verdict.moves?.map(describeMove)],
    ['Rolled back', verdict.accepted_rollbacks && describeRollbacks(verdict.accepted_rollbacks)],
    [
      'Anchor',
      anchor && `entry ${anchor.id} of the installation's log, of ${anchor.created_at}, covers entry ${anchor.last_id}`,
    ],
    [
      'Tree',
      verdict.tree && `${verdict.tree}, ${verdict.trusted_tree ? 'as the auditor gave it' : 'as the key states it'}`,
    ],
    [
      'Witnesses',
      witnessed
        ? `${(witnesses ?? []).map((key) => key.split('+')[0]).join(', ')} cosigned entry ${witnessed.entry_id} of the installation's log; the oldest cosignature is of ${witnessed.cosigned_at}`
        : 'none was given',
    ],
  ]
  return facts.flatMap(([name, texts]) => listTexts(texts).map((text) => ({ name, text })))
}

/** Whether only the server vouches that the compared checkpoint and the anchor are of the same log. */
function isWordOfServer({ checkpoint_compared, anchor }: ExportVerdict): boolean {
  return checkpoint_compared === true && anchor?.vouched === false
}

/** Describes, in one sentence, which claims about the log rest on the server's word alone. */
function describeRewriting(verdict: ExportVerdict, isWitnessed: boolean): string {
  const { checkpoint_compared, anchor } = verdict
  if (!checkpoint_compared)
    return "That the log was not rewritten, or rolled back and written on, by whoever held the server's keys: no checkpoint from elsewhere was compared."
  if (isWordOfServer(verdict))
    return "That the log was not rewritten by whoever held the server's keys: these sign that the anchor is of the log of the checkpoint."
  const after = anchor?.vouched ? `entry ${anchor.last_id}, which the checkpoint covers` : 'the checkpoint'
  return `That nothing was rewritten after ${after}${isWitnessed ? ' that witnesses saw' : ''}, by whoever held the server's keys.`
}

function listUnproven({ verdict, witnessed, names }: EvidenceSource, uncovered: readonly string[]): string[] {
  const { trusted_key, after_id = 0, last_id, missing = [] } = verdict
  return listTexts(
    uncovered.map((why) => `The whole period: ${why}.`),
    missing.includes('end') && [
      `That no entry of the period was lost in a rollback that an operator accepted after entry ${last_id}: the file would not show it.`,
      `That the entries after ${last_id} are of after the period: they are not in the file, and a clock that was ahead may have dated entry ${last_id}.`,
    ],
    !trusted_key && 'Who signed: the public key came from the file itself, or a statement of an earlier key.',
    describeRewriting(verdict, witnessed !== undefined),
    'What happened after the export was signed.',
    'That clocks were right: what a clock that was ahead dated after the period is not counted, and shows only if a later entry or the signature has an earlier time.',
    'That the server recorded the truth when it wrote an entry: a server in the hands of an attacker can leave out what it does.',
    'Who an end user was: the application names them, and the server takes its word.',
    'Which rows were read: an entry tells of a data key. Where rows share one, it opens all of them; a program that keeps it opens more without an entry.',
    'What was done with an exported key: it opens data without the server, and so without an entry.',
    'Which calls were refused for an unknown API key or a missing permission: such calls leave no entry.',
    after_id > 0 &&
      `What only the entries through ${after_id} recorded: rights and states that they set are shown as unknown, and a key or an API key that no later entry names is in no table.`,
    'What a name stands for: whoever makes or renames a key or an API key chooses it, and two may have one name. The id beside it tells them apart.',
    names.size > 0 &&
      'The name of the tenant, and names that the log does not state: they come from a file that no signature covers.',
  )
}
