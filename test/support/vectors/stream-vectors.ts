// The published vectors of encrypted streams (stream.md 8), and the streams that they describe.
import { createCipheriv, createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { concatBytes, decodeHex, encodeHex } from '../../../packages/protocol/src/bytes.js'
import type { Context } from '../../../packages/protocol/src/envelope-binding.js'

interface SealedPiece {
  iv: string
  from: number
  to: number
  key?: string
  aad?: string
  flip?: [byte: number, bit: number]
  slice?: [from: number, to: number]
}
type Piece = { text: string } | { hex: string } | SealedPiece

export interface StreamVector {
  name: string
  dek: string
  context: Context
  key: string
  aad: string
  plaintext: { name: string; bytes: number }
  pieces: Piece[]
  sha256: string
}

export interface StreamVectors {
  derive: { name: string; dek: string; salt: string; key_id: string; key: string; commitment: string }[]
  aad: { name: string; key_id: string; context: Context; aad: string }[]
  iv: { counter: number; final: boolean; iv: string }[]
  header: {
    name: string
    header: { key_id: string; key_version: number; wrapped_key: string; salt: string; commitment: string }
    line: string
  }[]
  refuse_header: { name: string; line: string }[]
  open: StreamVector[]
  refuse: (StreamVector & { error: 'format' | 'decryption'; prefix: number })[]
}

export const streamVectors = JSON.parse(
  readFileSync(new URL('../../../packages/protocol/src/stream.vectors.json', import.meta.url), 'utf8'),
) as StreamVectors

const sha256 = (bytes: Uint8Array) => new Uint8Array(createHash('sha256').update(bytes).digest())

const longest = new Map<string, Uint8Array>()

/** The beginning of the plaintext of a name: SHA-256 of the name and a counter, block after block. */
export function plaintextOf(name: string, bytes: number): Uint8Array {
  const known = longest.get(name) ?? new Uint8Array(0)
  if (known.length >= bytes) return known.subarray(0, bytes)
  const blocks = Array.from({ length: Math.ceil(bytes / 32) }, (_, at) => {
    const counter = new Uint8Array(4)
    new DataView(counter.buffer).setUint32(0, at)
    return sha256(concatBytes(new TextEncoder().encode(name), counter))
  })
  const made = concatBytes(...blocks)
  longest.set(name, made)
  return made.subarray(0, bytes)
}

const built = new Map<StreamVector, Uint8Array>()

/**
 * Makes the stream that a vector describes, a new copy at each call. @throws when it differs from that of the
 * vector's author
 */
export function buildStream(vector: StreamVector): Uint8Array {
  const stream = built.get(vector) ?? build(vector)
  built.set(vector, stream)
  return stream.slice()
}

function build(vector: StreamVector): Uint8Array {
  const stream = concatBytes(...vector.pieces.map((piece) => buildPiece(piece, vector)))
  if (encodeHex(sha256(stream)) !== vector.sha256) throw new Error(`another stream than the vector's: ${vector.name}`)
  return stream
}

function buildPiece(piece: Piece, vector: StreamVector): Uint8Array {
  if ('text' in piece) return new TextEncoder().encode(piece.text)
  if ('hex' in piece) return decodeHex(piece.hex)
  const cipher = createCipheriv('aes-256-gcm', decodeHex(piece.key ?? vector.key), decodeHex(piece.iv))
  cipher.setAAD(decodeHex(piece.aad ?? vector.aad))
  const plaintext = plaintextOf(vector.plaintext.name, Math.max(piece.to, vector.plaintext.bytes))
  const ciphertext = cipher.update(plaintext.subarray(piece.from, piece.to))
  const sealed = concatBytes(ciphertext, cipher.final(), cipher.getAuthTag())
  const [at, bit] = piece.flip ?? [0, undefined]
  if (bit !== undefined) sealed[at] = (sealed[at] ?? 0) ^ (1 << bit)
  return piece.slice ? sealed.slice(...piece.slice) : sealed
}
