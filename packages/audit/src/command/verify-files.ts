/** Verifies a file that a command was given, with the checkpoint and the witnesses that were given beside it. */
import { createHash, type Hash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { basename } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { type PublicKeys, readCheckpoint } from '../formats/checkpoint.js'
import { followKeyChanges, type KeyChange, listKeys } from '../formats/key-change.js'
import { CheckpointError } from '../formats/signed-note.js'
import type { Witnessed } from '../formats/witnessed.js'
import { listComparable } from '../verify/exported-anchor.js'
import { joinExports } from '../verify/join-exports.js'
import { assertSameChanges, findKeptNote } from '../verify/kept-checkpoint.js'
import { ExportFault, isAnchor, isLinks, readAnchorLine, readHeader, readLinksLine } from '../verify/read-export.js'
import { splitLines } from '../verify/split-lines.js'
import { type ExportVerdict, type VerifyExportOptions, verifyExport } from '../verify/verify-export.js'
import { type OpenedFile, openGiven } from './files.js'
import { readAs, readWitnessedNote } from './kept-file.js'
import { showProgress } from './output.js'

/** What an export is compared with. */
export interface Trusted {
  publicKey?: string
  /** files with checkpoints, in any form (kept-checkpoint.ts); require a public key */
  checkpoint?: string[]
  /** keys of witnesses that must have cosigned the checkpoint of the installation's log in that file */
  witness?: string[]
}

export interface VerifiedFiles {
  verdict: ExportVerdict
  witnessed: Witnessed | undefined
  /** the SHA-256 of each, in hexadecimal; undefined of standard input that was not read to its end, because it is not valid */
  files: { name: string; sha256: string | undefined }[]
}

/**
 * Verifies an export, `-` for standard input, or several of one log in the order of their entries, and shows progress on a
 * terminal. @throws CheckpointError, CommandError
 */
export async function verifyFiles(
  files: readonly string[],
  { publicKey, checkpoint, witness }: Trusted,
  { onEntry }: Pick<VerifyExportOptions, 'onEntry'> = {},
): Promise<VerifiedFiles> {
  const parts = await Promise.all(files.map(openPart))
  const lines = joinExports(parts.map(({ opened, hash }) => splitLines(hashed(opened.chunks, hash))))
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
    ...(onEntry === undefined ? {} : { onEntry }),
    onProgress: (entries) => {
      const part = progressOf(parts.map(({ opened }) => opened))
      progress(`${entries} entries${part === undefined ? '' : `, ${Math.round(100 * part)} %`}`)
    },
  })
  progress.done()
  return { verdict, witnessed, files: await Promise.all(parts.map((part) => nameFile(part, verdict.valid))) }
}

interface Part {
  file: string
  opened: OpenedFile
  hash: Hash
}

async function openPart(file: string): Promise<Part> {
  return { file, opened: await openGiven(file), hash: createHash('sha256') }
}

/** What is read of several files; undefined if that of one is not known. */
function progressOf(opened: readonly OpenedFile[]): number | undefined {
  const parts = opened.map((file) => file.progress())
  const known = parts.filter((part) => part !== undefined)
  return known.length < parts.length ? undefined : known.reduce((sum, part) => sum + part, 0) / parts.length
}

/** A file that is not valid was not read to its end. */
async function nameFile({ file, hash }: Part, isRead: boolean): Promise<VerifiedFiles['files'][number]> {
  const name = file === '-' ? 'standard input' : basename(file)
  return { name, sha256: isRead ? hash.digest('hex') : await hashOf(file) }
}

async function* hashed(chunks: AsyncIterable<Uint8Array>, hash: Hash): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    hash.update(chunk)
    yield chunk
  }
}

/** Hashes a file that was not read to its end. */
async function hashOf(file: string): Promise<string | undefined> {
  if (file === '-') return undefined
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash)
  return hash.digest('hex')
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
  files: readonly string[],
  {
    tenant_id,
    publicKey,
    changes,
    comparable,
  }: { tenant_id: string; publicKey: PublicKeys } & Pick<Beginning, 'changes' | 'comparable'>,
): Promise<string> {
  // One of a later entry than the log's last one counts: it shows that the log went back.
  const isComparable = (id: number) => comparable !== undefined && (comparable.ids.has(id) || id > comparable.head_id)
  return readAs(files, (text) => {
    assertSameChanges(text, changes)
    const note = findKeptNote(text, tenant_id, isComparable)
    readCheckpoint(note, publicKey)
    return note
  })
}
