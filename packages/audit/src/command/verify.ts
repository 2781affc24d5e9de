/** `eaas-audit verify`: verifies an export by a public key, without server or secret. */
import { INSTALLATION_ID } from '@eaas/protocol'
import type { Command } from 'commander'
import { type PublicKeys, readCheckpoint } from '../formats/checkpoint.js'
import { followKeyChanges, type KeyChange, listKeys } from '../formats/key-change.js'
import { CheckpointError } from '../formats/signed-note.js'
import { listComparable } from '../verify/exported-anchor.js'
import { assertSameChanges, findKeptNote } from '../verify/kept-checkpoint.js'
import { ExportFault, isAnchor, isLinks, readAnchorLine, readHeader, readLinksLine } from '../verify/read-export.js'
import { splitLines } from '../verify/split-lines.js'
import { type ExportVerdict, type KeptStatement, verifyExport } from '../verify/verify-export.js'
import { openGiven } from './files.js'
import { describeStatement, describeWitnessed, readAs, readWitnessedNote, viewWitnessed } from './kept-file.js'
import {
  assertWitnessable,
  EXIT_CODES,
  JSON_OPTION,
  judge,
  NOT_VALID,
  PART,
  UNTRUSTED_KEY,
  UNUSED,
  USAGE_ERROR,
  VALID,
  WITNESS_OPTION,
  withKey,
} from './options.js'
import { print, printJson, showProgress } from './output.js'

interface VerifyCommand {
  publicKey?: string
  /** a file with a checkpoint, in any form (kept-checkpoint.ts); requires a public key */
  checkpoint?: string
  /** keys of witnesses that must have cosigned the checkpoint of the installation's log in that file */
  witness?: string[]
  json: boolean
}

/** Adds `eaas-audit verify`. */
export function addVerify(program: Command): void {
  program
    .command('verify')
    .description('Verify an export of an audit log, without server or secret.')
    .argument('<export>', 'what eaas audit export wrote, - for standard input')
    .option('--public-key <key>', 'the public key that you trust, or a file with it (default: the one in the export)')
    .option(
      '--checkpoint <file>',
      'a checkpoint that you kept, of the tenant or the installation: the export must agree with it, and the verdict names it; needs --public-key',
    )
    .addOption(WITNESS_OPTION)
    .addOption(JSON_OPTION)
    .addHelpText('after', EXIT_CODES)
    .action(async (file: string, options: VerifyCommand, command: Command) => {
      assertWitnessable(command)
      if (options.checkpoint !== undefined && options.publicKey === undefined) {
        command.error("error: option '--checkpoint' needs '--public-key', which verifies the checkpoint", {
          exitCode: USAGE_ERROR,
        })
      }
      await judge(async () => verifyFile(file, await withKey(options, command)))
    })
}

/** Verifies an export, `-` for standard input; returns the exit code. */
async function verifyFile(file: string, { publicKey, checkpoint, witness, json }: VerifyCommand): Promise<number> {
  const opened = await openGiven(file)
  const lines = splitLines(opened.chunks)
  const { tenant_id, comparable, changes, begun } = await readBeginning(lines)
  const keys = listKeys(changes)
  // Those of before a change of keys signed checkpoints that were kept.
  const signers = keys.includes(publicKey ?? '') ? keys : (publicKey ?? '')
  const witnessed =
    checkpoint === undefined || witness === undefined
      ? undefined
      : await readWitnessedNote(checkpoint, {
          publicKey: signers,
          changes,
          witness,
          prefer: comparable && ((id) => comparable.ids.has(id)),
        })
  const note =
    witnessed?.note ??
    (checkpoint === undefined || tenant_id === undefined
      ? undefined
      : await readNote(checkpoint, { tenant_id, publicKey: signers, changes, comparable }))
  const progress = showProgress('verified')
  const verdict = await verifyExport(joined(begun, lines), {
    ...(publicKey === undefined ? {} : { publicKey }),
    ...(note === undefined ? {} : { checkpoint: note }),
    onProgress: (entries) => {
      const part = opened.progress()
      progress(`${entries} entries${part === undefined ? '' : `, ${Math.round(100 * part)} %`}`)
    },
  })
  progress.done()
  if (json) printJson({ ...verdict, ...viewWitnessed(witnessed) })
  else print(...describe(verdict), ...(verdict.valid ? describeWitnessed(witnessed) : []))
  return exitCode(verdict)
}

/** The exit code of a verdict. */
// A script that accepts a lower code must not overlook a higher one. Archives are parts as a rule, so a
// script may accept those; nobody who gives a checkpoint expects that it is not compared; and without a
// trusted key nothing is proven.
export function exitCode({ valid, whole, checkpoint_compared, trusted_key }: ExportVerdict): number {
  if (!valid) return NOT_VALID
  return Math.max(
    VALID,
    whole ? VALID : PART,
    checkpoint_compared === false ? UNUSED : VALID,
    trusted_key ? VALID : UNTRUSTED_KEY,
  )
}

function describe({ valid, line, reason, broken_at, ...verdict }: ExportVerdict): string[] {
  const { verified_entries, after_id = 0, last_id = after_id, checkpoint, anchor } = verdict
  if (!valid) {
    const where = broken_at === undefined ? `line ${line}` : `line ${line}, entry ${broken_at}`
    return [`The export is NOT valid: ${reason} (${where}).`, `entries     ${verified_entries} verified before that`]
  }
  return [
    'The export is valid.',
    `tenant      ${verdict.tenant_id}`,
    `entries     ${verified_entries}${verified_entries === 0 ? '' : `, from ${after_id + 1} to ${last_id}`}`,
    ...(verdict.purged_through === undefined
      ? []
      : [`purged      through entry ${verdict.purged_through}, as a later entry of the file says`]),
    `signed      ${verdict.signed_at}`,
    `by key      ${verdict.public_key}`,
    ...(anchor
      ? [
          `anchor      entry ${anchor.id} of the installation's log, of ${anchor.created_at}, covers entry ${anchor.last_id}`,
        ]
      : []),
    ...(checkpoint ? describeCompared(checkpoint, verdict) : []),
    ...(verdict.missing?.includes('beginning')
      ? [
          `PART        entries before ${after_id + 1} are missing from the export, and no purge in the file explains that`,
        ]
      : []),
    ...(verdict.missing?.includes('end')
      ? [`PART        the log went on after entry ${last_id}, to entry ${verdict.head_id} when this was signed`]
      : []),
    ...(verdict.key_changes ?? []).flatMap(({ from, to, created_at }) => [
      `KEY CHANGED from ${from}`,
      `            to   ${to}, says a statement of ${created_at} that both signed`,
    ]),
    ...(verdict.key_changes
      ? [
          'WARNING     who stole the earlier key can write such a statement too: compare the last key with the',
          "            operator's over another channel, and give it with --public-key from then on. Another successor of",
          '            the same key, in whatever file, is an alarm',
        ]
      : []),
    ...(verdict.trusted_key || verdict.key_changes
      ? []
      : ['WARNING     the public key came from the file itself: give the one that you trust with --public-key']),
  ]
}

function describeCompared(
  checkpoint: KeptStatement,
  { checkpoint_compared, anchor }: Partial<ExportVerdict>,
): string[] {
  const { id, tenant_id } = checkpoint
  const isShared = tenant_id === INSTALLATION_ID
  const what = describeStatement(checkpoint)
  if (checkpoint_compared !== true) {
    const advice = isShared
      ? 'this export is not linked to it. Have it made again: eaas audit export --since, with this checkpoint'
      : 'that entry is not in the file, so it says nothing of this export'
    return [`UNUSED      the checkpoint is of ${what}: ${advice}`]
  }
  if (!isShared || !anchor) return [`checkpoint  agrees: ${what}; nothing before it was rewritten, cut or rolled back`]
  const order = id < anchor.id ? 'goes on from it to the anchor' : 'has the anchor up to it'
  return [`checkpoint  agrees: ${what}; that log ${order}, and nothing before it was rewritten, cut or rolled back`]
}

/** What the first lines of an export say. */
interface Beginning {
  tenant_id?: string
  /** at which entries of the installation's log it can be compared, if it has an anchor */
  comparable?: ReturnType<typeof listComparable> | undefined
  /** of the keys that signed for the installation (key-change.md 4) */
  changes: KeyChange[]
  /** the lines that were read */
  begun: string[]
}

/**
 * The tenant of the header and what the anchor can be compared with, as far as the file has them without a
 * fault, which the verdict will report.
 */
async function readBeginning(lines: AsyncGenerator<string>): Promise<Beginning> {
  const begun: string[] = []
  const read = async () => {
    const { value, done } = await lines.next()
    if (!done) begun.push(value)
    return value ?? ''
  }
  const found: Beginning = { changes: [], begun }
  try {
    const { tenant_id, key_changes } = readHeader(await read())
    found.tenant_id = tenant_id
    found.changes = followKeyChanges(key_changes)
    const line = await read()
    if (!isAnchor(line)) return found
    const anchor = readAnchorLine(line)
    found.comparable = listComparable(anchor, undefined)
    const next = await read()
    if (isLinks(next)) found.comparable = listComparable(anchor, readLinksLine(next))
  } catch (error) {
    if (!(error instanceof ExportFault) && !(error instanceof CheckpointError)) throw error
  }
  return found
}

async function* joined(begun: readonly string[], rest: AsyncGenerator<string>): AsyncGenerator<string> {
  yield* begun
  yield* rest
}

// An error of the checkpoint itself is reported as such, not as a fault of the export.
function readNote(
  file: string,
  {
    tenant_id,
    publicKey,
    changes,
    comparable,
  }: { tenant_id: string; publicKey: PublicKeys } & Pick<Beginning, 'changes' | 'comparable'>,
): Promise<string> {
  // One of a later entry than the log's last one counts: it shows that the log went back.
  const isComparable = (id: number) => comparable !== undefined && (comparable.ids.has(id) || id > comparable.head_id)
  return readAs(file, (text) => {
    assertSameChanges(text, changes)
    const note = findKeptNote(text, tenant_id, isComparable)
    readCheckpoint(note, publicKey)
    return note
  })
}
