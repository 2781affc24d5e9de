/** Verifies the files of a command against the checkpoints and witnesses given with them. */
import { createHash, type Hash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { basename } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { counted } from '@eaas/protocol'
import { CheckpointError } from '../formats/signed-note.js'
import type { Witnessed } from '../formats/witnessed.js'
import { joinExports } from '../verify/join-exports.js'
import { splitLines } from '../verify/split-lines.js'
import { verifyCompared } from '../verify/verify-compared.js'
import type { ExportVerdict, VerifyExportOptions } from '../verify/verify-export.js'
import { type OpenedFile, openGiven } from './files.js'
import { readKeptFiles } from './kept-file.js'
import { showProgress } from './output.js'

export interface Trusted {
  publicKey?: string | undefined
  /** files with checkpoints, in any form (kept-checkpoint.ts); require a public key */
  checkpoint?: string[]
  /** keys of witnesses that must all have cosigned one checkpoint of the installation's log in these files */
  witness?: string[]
  tree?: string
}

interface VerifiedFiles {
  verdict: ExportVerdict
  witnessed: Witnessed | undefined
  /** the SHA-256 of each, in hexadecimal; undefined for an invalid standard input, which was not read to its end */
  files: { name: string; sha256: string | undefined }[]
}

/** Verifies exports of one log in the order of their entries, with progress. @throws CheckpointError, CommandError */
export async function verifyFiles(
  files: readonly string[],
  { publicKey, checkpoint, witness, tree }: Trusted,
  { onEntry }: Pick<VerifyExportOptions, 'onEntry'> = {},
): Promise<VerifiedFiles> {
  const parts = await Promise.all(
    files.map(async (file): Promise<Part> => ({ file, opened: await openGiven(file), hash: createHash('sha256') })),
  )
  const lines = joinExports(parts.map(({ opened, hash }) => splitLines(hashed(opened.chunks, hash))))
  const kept = checkpoint && (await readKeptFiles(checkpoint))
  const progress = showProgress('verified')
  const { verdict, witnessed } = await verifyCompared(lines, {
    publicKey,
    tree,
    kept,
    witnesses: witness,
    onEntry,
    onProgress: (entries) => {
      const part = progressOf(parts.map(({ opened }) => opened))
      progress(counted(entries, 'entry', 'entries') + (part === undefined ? '' : `, ${Math.round(100 * part)} %`))
    },
  }).catch((error) => {
    if (!checkpoint || !(error instanceof CheckpointError)) throw error
    throw new CheckpointError(`${checkpoint.join(', ')}: ${error.message}`)
  })
  progress.done()
  return { verdict, witnessed, files: await Promise.all(parts.map((part) => nameFile(part, verdict.valid))) }
}

type Part = { file: string; opened: OpenedFile; hash: Hash }

function progressOf(opened: readonly OpenedFile[]): number | undefined {
  const parts = opened.map((file) => file.progress())
  const known = parts.filter((part) => part !== undefined)
  return known.length < parts.length ? undefined : known.reduce((sum, part) => sum + part, 0) / parts.length
}

/** Names and hashes a file. An invalid one was not read to its end, so it is read again. */
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

async function hashOf(file: string): Promise<string | undefined> {
  if (file === '-') return undefined
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash)
  return hash.digest('hex')
}

export async function readFirstLine(file: string): Promise<string> {
  const lines = splitLines((await openGiven(file)).chunks)
  const { value = '' } = await lines.next()
  await lines.return(undefined)
  return value
}
