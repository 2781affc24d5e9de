// The worker of the verifier: verifies an export, and makes the report of `eaas-audit report` or the proof of
// `eaas-audit prove` from it. It sends nothing anywhere.
import {
  CheckpointError,
  createReportReader,
  joinExports,
  type KeptFile,
  proveEntries,
  readKept,
  selectExport,
  signersOf,
  splitLines,
  verifyCompared,
  verifyExport,
  writePage,
  writeProof,
} from '@eaas/audit'
import { encodeHex, INSTALLATION_ID, visible } from '@eaas/protocol'
import { sha256 } from '@noble/hashes/sha2.js'

export interface Task {
  exports: readonly File[] // in the order of their entries
  kept: readonly File[]
  publicKey: string | undefined
  names: Readonly<Record<string, string>> // names of the tenant, of keys and of API keys, by their ids
  from: string // RFC 3339, UTC
  to: string
}

export interface ProofTask extends Pick<Task, 'exports' | 'publicKey'> {
  ids: readonly number[]
  starts: readonly number[] // the entry before the first one of each export
}

export type Message =
  | { entries: number; part: number }
  | { error: string }
  /** the report as a complete page of HTML */
  | { page: string }
  /** the file that proves entries */
  | { proof: string }

const post = (message: Message) => (postMessage as (message: Message) => void)(message)

addEventListener('message', ({ data }: MessageEvent<Task | ProofTask>) => {
  const work = 'ids' in data ? prove(data) : run(data)
  work.catch((error: unknown) => {
    const isKnown = error instanceof CheckpointError
    post({
      error: isKnown ? error.message : `the verification failed: ${error instanceof Error ? error.message : error}`,
    })
  })
})

async function run({ exports, kept, publicKey, names, from, to }: Task): Promise<void> {
  let bytes = 0
  const size = exports.reduce((sum, file) => sum + file.size, 0)
  const parts = exports.map((file) => {
    const hash = sha256.create()
    const count = (chunk: Uint8Array) => {
      hash.update(chunk)
      bytes += chunk.length
    }
    return { file, hash, lines: splitLines(readChunks(file, count)) }
  })
  const reader = createReportReader({ from, to })
  const { verdict } = await verifyCompared(joinExports(parts.map(({ lines }) => lines)), {
    publicKey,
    kept: kept.length === 0 ? undefined : readKept(await Promise.all(kept.map(readText))),
    onEntry: reader.read,
    onProgress: (entries) => post({ entries, part: size === 0 ? 1 : bytes / size }),
  })
  if (verdict.tenant_id === INSTALLATION_ID)
    throw new CheckpointError(
      "this is the installation's log, which records no keys and no rights: eaas-audit verify reads it",
    )
  const report = reader.report({
    verdict,
    // An invalid file was not read to its end.
    files: parts.map(({ file, hash }) => ({
      name: file.name,
      sha256: verdict.valid ? encodeHex(hash.digest()) : 'not computed',
    })),
    names: new Map(Object.entries(names)),
    version: VERSION,
    command: `npx @eaas/audit@${VERSION} report with these files`,
  })
  const page = writePage(report, { files: exports.map(({ name }) => name) })
  post({ page })
}

async function readText(file: File): Promise<KeptFile> {
  return { name: visible(file.name), text: await file.text() }
}

async function prove({ exports, publicKey, ids, starts }: ProofTask): Promise<void> {
  const linesOf = (file: File) => splitLines(readChunks(file, () => undefined))
  const found = exports[selectExport(starts, ids) ?? -1]
  if (!found) throw new CheckpointError('no export has all of these entries: prove those of each export by themselves')
  const whole = await verifyExport(joinExports(exports.map(linesOf)), {
    publicKey,
    onProgress: (entries) => post({ entries, part: 0 }),
  })
  if (!whole.valid) throw new CheckpointError(`the export is NOT valid, so it proves nothing: ${whole.reason}`)
  const { value: header = '' } = await linesOf(exports.at(-1) ?? found).next()
  const signers = signersOf(header, publicKey)
  const { verdict, proof, missing } = await proveEntries(linesOf(found), { ids, publicKey: signers })
  if (!verdict.valid) throw new CheckpointError(`${found.name} is NOT valid by itself: ${verdict.reason}`)
  if (missing.length > 0) throw new CheckpointError(`${found.name} has no entry ${missing.join(', ')}`)
  if (!proof)
    throw new CheckpointError(
      `${found.name} has no signed tree of its entries: export the log again with a newer server`,
    )
  post({ proof: writeProof(proof) })
}

async function* readChunks(file: File, onChunk: (chunk: Uint8Array) => void): AsyncGenerator<Uint8Array> {
  const stream = file.stream().getReader()
  for (;;) {
    const { done, value } = await stream.read()
    if (done) return
    onChunk(value)
    yield value
  }
}
