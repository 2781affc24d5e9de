/** `eaas-audit prove` and `eaas-audit verify-proof`: entries as evidence for people who do not get the log. */
import { counted, listTexts } from '@eaas/protocol'
import type { Command } from 'commander'
import type { PublicKeys } from '../formats/checkpoint.js'
import { writeProof } from '../formats/proof.js'
import { describeStatement } from '../verify/compare-checkpoints.js'
import { notesOf } from '../verify/kept-checkpoint.js'
import { describeEntry, proveEntries, selectExport, signersOf } from '../verify/prove-entries.js'
import { readHeader } from '../verify/read-export.js'
import { splitLines } from '../verify/split-lines.js'
import type { ExportVerdict } from '../verify/verify-export.js'
import { type ProofVerdict, verifyProof } from '../verify/verify-proof.js'
import { CommandError, createNew, openGiven, readGiven, STANDARD_STREAM } from './files.js'
import { KEY_OF_FILE, readAs } from './kept-file.js'
import * as cli from './options.js'
import { print, printBeside, printJson, showProgress } from './output.js'
import { readFirstLine, verifyFiles } from './verify-files.js'

type ProveCommand = { out: string; publicKey?: string; checkpoint?: string }

type VerifyProofCommand = { publicKey?: string; checkpoint?: string; json: boolean }

/** A proof is linked to at most this many of the newest checkpoints in a file. */
const LAST_LINKED = 16
/** Arguments that are ids of entries. A file with such a name needs ./ before it. */
const IS_ID = /^[1-9]\d{0,15}$/
const MOST_PROOF_BYTES = 64 * 1_048_576

export function addProve(program: Command): void {
  program
    .command('prove')
    .description(
      'Write a file that proves entries of an export by what the server signed, and that has only hashes of other entries. Several exports are verified as one; the one that has all the entries proves them. Exit code 1 if the export is not valid, 3 if it has no such entry, or no signed tree.',
    )
    .usage('[options] <export...> <entry...>')
    .argument(
      '<export...>',
      'what eaas audit export wrote, - for standard input; several of one log in the order of their entries; then the ids of the entries',
    )
    .option('--out <file>', cli.NEW_FILE, cli.readNewFile, STANDARD_STREAM)
    .option(
      '--checkpoint <file>',
      'a file of checkpoints: the proof can be compared with the last 16 of the tenant',
      cli.readInputFile,
    )
    .option('--public-key <key>', 'the public key that you trust, or a file with it (default: the one in the export)')
    .action(async (given: string[], options: ProveCommand, command: Command) => {
      const files = given.filter((one) => !IS_ID.test(one))
      const ids = given.filter((one) => IS_ID.test(one)).map(Number)
      if (files.length === 0 || ids.length === 0 || !ids.every(Number.isSafeInteger))
        command.error('error: give at least one export and then the id of an entry')
      if (files.length > 1 && files.includes('-'))
        command.error('error: of several exports, none may be standard input')
      await cli.judge(async () => prove(files, ids, await cli.withKey(options, command)))
    })
}

async function prove(
  files: readonly string[],
  ids: readonly number[],
  { out, publicKey, checkpoint }: ProveCommand,
): Promise<number> {
  const found =
    files.length > 1
      ? await findExport(files, ids, { out, trusted: publicKey })
      : { file: files[0] ?? '', signers: publicKey }
  if (found === undefined) return cli.NOT_VALID
  const { file, signers } = found
  const { chunks } = await openGiven(file)
  const lines = splitLines(chunks)
  const { value: header } = await lines.next()
  const progress = showProgress('read')
  const { verdict, proof, missing } = await proveEntries(joined(header, lines), {
    ids,
    links: checkpoint === undefined ? [] : await readLinkable(checkpoint, header ?? ''),
    publicKey: signers,
    onProgress: (entries) => progress(counted(entries, 'entry', 'entries')),
  })
  progress.done()
  if (!verdict.valid) {
    printBeside(out, notValid(verdict))
    return cli.NOT_VALID
  }
  if (missing.length > 0) throw new CommandError(`${file} has no entry ${missing.join(', ')}`)
  if (!proof)
    throw new CommandError(`${file} has no signed tree of its entries: export the log again with a newer server`)
  await createNew(out, writeProof(proof))
  if (out !== STANDARD_STREAM)
    print(
      `Wrote ${out}: ${proof.entries.length} of the entries ${(verdict.after_id ?? 0) + 1} to ${verdict.last_id}, signed at ${verdict.signed_at}.`,
    )
  if (signers !== publicKey && verdict.public_key !== publicKey)
    printBeside(
      out,
      `A key that was replaced since signed it: whoever verifies the proof gives that one, ${verdict.public_key}.`,
    )
  return verdict.trusted_key ? cli.VALID : cli.UNTRUSTED_KEY
}

/** Finds the export with all entries, once all exports verified as one. If they did not, prints why, and returns undefined. */
async function findExport(
  files: readonly string[],
  ids: readonly number[],
  { out, trusted: publicKey }: { out: string; trusted: string | undefined },
): Promise<{ file: string; signers: PublicKeys | undefined } | undefined> {
  const { verdict } = await verifyFiles(files, { publicKey })
  if (!verdict.valid) {
    printBeside(out, notValid(verdict))
    return undefined
  }
  const headers = await Promise.all(files.map(readFirstLine))
  const starts = headers.map((header) => readHeader(header).after_id)
  const file = files[selectExport(starts, ids) ?? -1]
  if (file === undefined)
    throw new CommandError('no export has all of these entries: write a proof of those of each export')
  return { file, signers: signersOf(headers.at(-1) ?? '', publicKey) }
}

function notValid({ reason, line }: ExportVerdict): string {
  return `The export is NOT valid, so it proves nothing: ${reason} (line ${line}).`
}

async function* joined(first: string | undefined, rest: AsyncGenerator<string>): AsyncGenerator<string> {
  if (first !== undefined) yield first
  yield* rest
}

/** Lists the ids of the tenant's newest checkpoints in a file. Checks no signature: an id proves nothing. */
async function readLinkable(file: string, header: string): Promise<number[]> {
  return readAs(file, ({ notes }) => {
    const kept = notes.filter(({ tenant_id }) => tenant_id === readHeader(header).tenant_id)
    return kept.slice(0, LAST_LINKED).map(({ last_id }) => last_id)
  })
}

export function addVerifyProof(program: Command): void {
  program
    .command('verify-proof')
    .description(
      'Verify a file that eaas-audit prove wrote, and print its entries. Exit code 1 if it is not valid, 5 if it has the entry of none of the checkpoints, 6 if the key that signed was not given.',
    )
    .argument('<file>', 'the proof, - for standard input', cli.readInputFile)
    .option('--public-key <key>', 'the public key that you trust, or a file with it (default: the one in the file)')
    .option(
      '--checkpoint <file>',
      'a file of checkpoints that you kept of the tenant; needs --public-key',
      cli.readInputFile,
    )
    .addOption(cli.JSON_OPTION)
    .action(async (file: string, options: VerifyProofCommand, command: Command) => {
      cli.assertComparable(command)
      await cli.judge(async () => verifyFileOfProof(file, await cli.withKey(options, command)))
    })
}

async function verifyFileOfProof(file: string, { publicKey, checkpoint, json }: VerifyProofCommand): Promise<number> {
  const text = await readGiven(file)
  if (text.length > MOST_PROOF_BYTES) throw new CommandError(`${file} is longer than any proof`)
  let verdict = verifyProof(text, { publicKey })
  if (verdict.valid && checkpoint !== undefined) {
    const { tenant_id = '' } = verdict
    const notes = await readAs(checkpoint, (kept) => notesOf(kept, [tenant_id]))
    verdict = verifyProof(text, { publicKey, checkpoints: notes.map(({ note }) => note) })
  }
  if (json) printJson(view(verdict))
  else print(...describe(verdict))
  if (!verdict.valid) return cli.NOT_VALID
  return Math.max(
    verdict.checkpoint_compared === false ? cli.UNUSED : cli.VALID,
    verdict.trusted_key ? cli.VALID : cli.UNTRUSTED_KEY,
  )
}

function view({ entries, ...verdict }: ProofVerdict) {
  return { ...verdict, entries: entries.map(({ hash: _, tenant_id: __, ...entry }) => entry) }
}

function describe(verdict: ProofVerdict): string[] {
  const { valid, reason, tenant_id, after_id = 0, last_id, entries, checkpoint, checkpoint_compared } = verdict
  if (!valid) return [`The proof is NOT valid: ${reason}.`]
  return listTexts(
    `The proof is valid: the server signed that ${entries.length === 1 ? 'this entry stands' : 'these entries stand'} in the log.`,
    `tenant      ${tenant_id}`,
    `signed      ${verdict.signed_at}, with the entries ${after_id + 1} to ${last_id}`,
    `by key      ${verdict.public_key}`,
    entries.flatMap((entry) => ['', ...describeEntry(entry)]),
    '',
    checkpoint && checkpoint_compared && `checkpoint  agrees: ${describeStatement(checkpoint)}`,
    checkpoint &&
      !checkpoint_compared &&
      `UNUSED      the checkpoint is of ${describeStatement(checkpoint)}: the file has no hash of that entry. Have it made again with prove --checkpoint`,
    verdict.key_changes?.map(
      ({ from, to, created_at }) =>
        `KEY CHANGED from ${from} to ${to} at ${created_at}: compare the last key with the operator's`,
    ),
    !verdict.trusted_key && !verdict.key_changes && KEY_OF_FILE,
  )
}
