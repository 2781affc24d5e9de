/** The request by which a log asks a witness for its cosignature, see cosignature.md 3. Pure. */
import { decodeUtf8, encodeBase64 } from '@eaas/protocol'
import { CheckpointError, findBase64 } from './signed-note.js'

/** The largest request, in bytes: 63 lines of a proof, and a note with 16 signatures of the largest kind. */
export const MAX_REQUEST_BYTES = 131_072
/** The media type of the size in a 409. */
export const SIZE_TYPE = 'text/x.tlog.size'
const MOST_HASHES = 63
const HASH_BYTES = 32
const REQUEST = /^old (0|[1-9]\d{0,15})\n((?:[A-Za-z0-9+/]{43}=\n)*)\n([\s\S]+)$/

export interface AddCheckpoint {
  /** size of the tree that the proof starts from; 0: none */
  old: number
  /** the consistency proof from the old tree to that of the note */
  proof: Uint8Array[]
  note: string
}

/** Writes a request. */
export function writeAddCheckpoint({ old, proof, note }: AddCheckpoint): string {
  return `old ${old}\n${proof.map((hash) => `${encodeBase64(hash)}\n`).join('')}\n${note}`
}

/** Reads a request without reading its note. @throws CheckpointError */
export function readAddCheckpoint(body: Uint8Array): AddCheckpoint {
  const [, old = '', lines = '', note = ''] = (body.length <= MAX_REQUEST_BYTES && REQUEST.exec(decode(body))) || []
  const encoded = lines.split('\n').slice(0, -1)
  if (note === '' || !Number.isSafeInteger(Number(old)) || encoded.length > MOST_HASHES) {
    throw new CheckpointError('this is not a request for a cosignature: old size, proof, an empty line and the note')
  }
  return { old: Number(old), proof: encoded.map(decodeHash), note }
}

function decodeHash(text: string): Uint8Array {
  const hash = findBase64(text, HASH_BYTES)
  if (!hash) throw new CheckpointError('a line of the proof is not the canonical base64 of 32 bytes')
  return hash
}

function decode(body: Uint8Array): string {
  try {
    return decodeUtf8(body)
  } catch {
    return ''
  }
}
