/** `eaas-audit prove` and `eaas-audit verify-proof`: single entries as evidence for somebody who gets nothing else of the log. */
import { type Command, InvalidArgumentError } from 'commander'
import { parseCheckpoint } from '../formats/checkpoint.js'
import { writeProof } from '../formats/proof.js'
import { findKeptNote, groupKeptNotes } from '../verify/kept-checkpoint.js'
import { describeEntry, proveEntries } from '../verify/prove-entries.js'
import { readHeader } from '../verify/read-export.js'
import { splitLines } from '../verify/split-lines.js'
import { type ProofVerdict, verifyProof } from '../verify/verify-proof.js'
import { CommandError, openGiven, openNew, readGiven } from './files.js'
import { describeStatement, readAs } from './kept-file.js'
import { assertComparable, JSON_OPTION, judge, NOT_VALID, UNTRUSTED_KEY, UNUSED, VALID, withKey } from './options.js'
import { print, printJson, showProgress } from './output.js'

interface ProveCommand {
  out: string
  publicKey?: string
  checkpoint?: string
}

interface VerifyProofCommand {
  publicKey?: string
  checkpoint?: string
  json: boolean
}

/** Checkpoints of a file to which a proof is linked: the last ones. */
const LAST_LINKED = 16
/** The file is read at once. */
const MOST_PROOF_BYTES = 64 * 1_048_576

/** Adds `eaas-audit prove`. */
export function addProve(program: Command): void {
  program
    .command('prove')
    .description(
      'Write entries of an export as a file that proves them by what the server signed, and that has hashes alone of other entries. Exit code 1 if the export is not valid, 3 if it has no such entry, or no signed tree.',
    )
    .argument('<export>', 'what eaas audit export wrote, - for standard input')
    .argument('<entry...>', 'the ids of the entries', readIds)
    .requiredOption('--out <file>', 'where to write the proof; the file must not exist')
    .option(
      '--checkpoint <file>',
      'checkpoints that somebody keeps: the proof can be compared with the last 16 of the tenant',
    )
    .option('--public-key <key>', 'the public key that you trust, or a file with it (default: the one in the export)')
    .action((file: string, ids: number[], options: ProveCommand, command: Command) =>
      judge(async () => prove(file, ids, await withKey(options, command))),
    )
}

/** Writes a proof; returns the exit code. */
async function prove(
  file: string,
  ids: readonly number[],
  { out, publicKey, checkpoint }: ProveCommand,
): Promise<number> {
  const { chunks } = await openGiven(file)
  const lines = splitLines(chunks)
  const { value: header } = await lines.next()
  const progress = showProgress('read')
  const { verdict, proof, missing } = await proveEntries(joined(header, lines), {
    ids,
    links: checkpoint === undefined ? [] : await readLinkable(checkpoint, header ?? ''),
    ...(publicKey === undefined ? {} : { publicKey }),
    onProgress: (entries) => progress(`${entries} entries`),
  })
  progress.done()
  if (!verdict.valid) {
    print(`The export is NOT valid, so it proves nothing: ${verdict.reason} (line ${verdict.line}).`)
    return NOT_VALID
  }
  if (missing.length > 0) throw new CommandError(`${file} has no entry ${missing.join(', ')}`)
  if (!proof)
    throw new CommandError(`${file} has no signed tree of its entries: export the log again with a newer server`)
  const written = await openNew(out)
  try {
    await written.writeFile(writeProof(proof))
  } finally {
    await written.close()
  }
  print(
    `Wrote ${out}: ${proof.entries.length} of the entries ${(verdict.after_id ?? 0) + 1} to ${verdict.last_id}, signed at ${verdict.signed_at}.`,
  )
  return verdict.trusted_key ? VALID : UNTRUSTED_KEY
}

async function* joined(first: string | undefined, rest: AsyncGenerator<string>): AsyncGenerator<string> {
  if (first !== undefined) yield first
  yield* rest
}

/** The ids of the last checkpoints of the tenant in a file. Checks no signature: an id proves nothing. */
async function readLinkable(file: string, header: string): Promise<number[]> {
  return readAs(file, (text) => {
    const kept = groupKeptNotes(text).get(readHeader(header).tenant_id) ?? []
    return kept.slice(-LAST_LINKED).map(({ checkpoint }) => parseCheckpoint(checkpoint).last_id)
  })
}

/** Adds `eaas-audit verify-proof`. */
export function addVerifyProof(program: Command): void {
  program
    .command('verify-proof')
    .description(
      'Verify a file that eaas-audit prove wrote, and print its entries. Exit code 1 if it is not valid, 5 if the checkpoint is of an entry that the file does not have, 6 if the key that signed was not given.',
    )
    .argument('<file>', 'the proof')
    .option('--public-key <key>', 'the public key that you trust, or a file with it (default: the one in the file)')
    .option('--checkpoint <file>', 'a checkpoint of the tenant that you kept; needs --public-key')
    .addOption(JSON_OPTION)
    .action(async (file: string, options: VerifyProofCommand, command: Command) => {
      assertComparable(command)
      await judge(async () => verifyFileOfProof(file, await withKey(options, command)))
    })
}

/** Verifies a proof and prints it; returns the exit code. */
async function verifyFileOfProof(file: string, { publicKey, checkpoint, json }: VerifyProofCommand): Promise<number> {
  const text = await readGiven(file)
  if (text.length > MOST_PROOF_BYTES) throw new CommandError(`${file} is longer than any proof`)
  const trusted = publicKey === undefined ? {} : { publicKey }
  let verdict = verifyProof(text, trusted)
  if (verdict.valid && checkpoint !== undefined) {
    const { tenant_id = '' } = verdict
    const note = await readAs(checkpoint, (kept) => findKeptNote(kept, tenant_id))
    verdict = verifyProof(text, { ...trusted, checkpoint: note })
  }
  if (json) printJson(view(verdict))
  else print(...describe(verdict))
  if (!verdict.valid) return NOT_VALID
  return Math.max(verdict.checkpoint_compared === false ? UNUSED : VALID, verdict.trusted_key ? VALID : UNTRUSTED_KEY)
}

function view({ entries, ...verdict }: ProofVerdict) {
  return { ...verdict, entries: entries.map(({ hash: _, tenant_id: __, ...entry }) => entry) }
}

function describe(verdict: ProofVerdict): string[] {
  const { valid, reason, tenant_id, after_id = 0, last_id, entries, checkpoint, checkpoint_compared } = verdict
  if (!valid) return [`The proof is NOT valid: ${reason}.`]
  return [
    `The proof is valid: the server signed that ${entries.length === 1 ? 'this entry stands' : 'these entries stand'} in the log.`,
    `tenant      ${tenant_id}`,
    `signed      ${verdict.signed_at}, with the entries ${after_id + 1} to ${last_id}`,
    `by key      ${verdict.public_key}`,
    ...entries.flatMap((entry) => ['', ...describeEntry(entry)]),
    '',
    ...(checkpoint
      ? [
          checkpoint_compared
            ? `checkpoint  agrees: ${describeStatement(checkpoint)}`
            : `UNUSED      the checkpoint is of ${describeStatement(checkpoint)}: the file has no hash of that entry. Have it made again with prove --checkpoint`,
        ]
      : []),
    ...(verdict.key_changes ?? []).map(
      ({ from, to, created_at }) =>
        `KEY CHANGED from ${from} to ${to} at ${created_at}: compare the last key with the operator's`,
    ),
    ...(verdict.trusted_key || verdict.key_changes
      ? []
      : ['WARNING     the public key came from the file itself: give the one that you trust with --public-key']),
  ]
}

function readIds(text: string, before: number[] = []): number[] {
  if (!/^[1-9]\d{0,15}$/.test(text) || !Number.isSafeInteger(Number(text)))
    throw new InvalidArgumentError('It must be the id of an entry, from 1 on.')
  return [...before, Number(text)]
}
