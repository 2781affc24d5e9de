/** Asks one witness for its cosignature over HTTP (cosignature.md 3 and 4). */
import {
  type AddCheckpoint,
  CheckpointError,
  findSignature,
  type NoteKey,
  readCosignature,
  readSignatures,
  SIZE_TYPE,
  signatureLine,
  splitNote,
  writeAddCheckpoint,
} from '@eaas/audit/formats'
import { VERSION } from '../../version.js'

const MAX_ANSWER_BYTES = 65_536
const SIZE = /^(0|[1-9]\d{0,15})\n$/

export interface KnownWitness {
  key: NoteKey
  url: string // `/add-checkpoint` is appended to it
}

type WitnessAnswer =
  /** `line` is verified */
  | { kind: 'cosigned'; line: string }
  /** the size that the witness last cosigned */
  | { kind: 'conflict'; size: number }
  /** the proof does not begin at the tree that the witness last cosigned */
  | { kind: 'inconsistent' }
  | { kind: 'failed'; detail: string }

/** Sends one request; never throws. */
export async function askWitness(
  { key, url }: KnownWitness,
  request: AddCheckpoint,
  { timeoutMs, signal }: { timeoutMs: number; signal?: AbortSignal | undefined },
): Promise<WitnessAnswer> {
  try {
    const response = await fetch(`${url}/add-checkpoint`, {
      method: 'POST',
      body: writeAddCheckpoint(request),
      headers: { 'content-type': 'text/plain; charset=utf-8', 'user-agent': `eaas/${VERSION}` },
      redirect: 'error',
      signal: AbortSignal.any([AbortSignal.timeout(timeoutMs), ...(signal ? [signal] : [])]),
    })
    const { status, headers } = response
    const text = await readText(response)
    if (status === 200) return { kind: 'cosigned', line: readLine(text, key, request.note) }
    if (status === 422) return { kind: 'inconsistent' }
    const [, size] =
      (status === 409 && headers.get('content-type')?.split(';')[0] === SIZE_TYPE && SIZE.exec(text)) || []
    if (size !== undefined && Number.isSafeInteger(Number(size))) return { kind: 'conflict', size: Number(size) }
    const isUnknown = status === 404 || status === 403
    const unknown = ': it does not know the key of this installation, which is: eaas audit public-key --tree'
    return { kind: 'failed', detail: `it answered ${status}${isUnknown ? unknown : ''}` }
  } catch (error) {
    return { kind: 'failed', detail: describe(error) }
  }
}

// Drops lines of other keys, which this server can't verify.
function readLine(text: string, key: NoteKey, note: string): string {
  const signatures = readSignatures(text)
  const seconds = readCosignature(signatures, key, splitNote(note).text)
  const signature = findSignature(signatures, key)
  if (seconds === undefined || !signature) throw new CheckpointError(`the answer has no cosignature of ${key.name}`)
  return signatureLine(key, signature)
}

async function readText(response: Response): Promise<string> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  const reader = response.body?.getReader()
  for (let part = await reader?.read(); part?.value; part = await reader?.read()) {
    bytes += part.value.length
    if (bytes > MAX_ANSWER_BYTES) {
      await reader?.cancel()
      throw new CheckpointError(`the answer has more than ${MAX_ANSWER_BYTES} bytes`)
    }
    chunks.push(part.value)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function describe(error: unknown): string {
  if (error instanceof CheckpointError) return error.message
  const { name, message, cause } = error as Error
  if (name === 'TimeoutError') return 'it did not answer in time'
  if (name === 'AbortError') return 'the server stopped before it answered'
  const { code } = (cause ?? {}) as NodeJS.ErrnoException
  return `it could not be asked: ${code ?? message}`
}
