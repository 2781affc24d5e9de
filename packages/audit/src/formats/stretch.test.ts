// Statements about a stretch, see checkpoint.md 7: the notes of another program, ours, and what no reader may
// take.
import { createSecretKey } from 'node:crypto'
import { decodeHex, encodeHex } from '@eaas/protocol'
import { describe, expect, it } from 'vitest'
import { signingKeyOf } from '../node/signing-key.js'
import { readCheckpoint } from './checkpoint.js'
import vectors from './checkpoint.vectors.json' with { type: 'json' }
import { CheckpointError } from './signed-note.js'
import { readStretch, signStretch } from './stretch.js'

const note = vectors.sign_stretch[0]?.note ?? ''

describe('the published statements about a stretch', () => {
  it.each(vectors.sign_stretch)('are what the key signs, to the byte: $name', ({ seed, statement, note, text }) => {
    expect(note.startsWith(`${text}\n`)).toBe(true)
    const { hash, head_hash, ...rest } = statement
    const stretch = { ...rest, hash: decodeHex(hash), head_hash: decodeHex(head_hash) }
    expect(signStretch(signingKeyOf(createSecretKey(decodeHex(seed))), stretch)).toBe(note)
  })

  it.each(vectors.sign_stretch)('are read with the public key: $name', ({ public_key, statement, note }) => {
    const { hash, head_hash, ...rest } = readStretch(note, public_key)
    expect({ ...rest, hash: encodeHex(hash), head_hash: encodeHex(head_hash) }).toEqual(statement)
  })

  it.each(vectors.sign_stretch)('are no checkpoints: $name', ({ public_key, note }) => {
    expect(() => readCheckpoint(note, public_key)).toThrow(CheckpointError)
  })

  it.each(vectors.refuse_stretch)('are not this note: $name', ({ note }) => {
    expect(() => readStretch(note, vectors.public_key)).toThrow(CheckpointError)
  })
})

describe('a statement about a stretch', () => {
  it('is refused with any byte of it altered', () => {
    const bytes = Buffer.from(note)
    for (const [at, byte] of bytes.entries()) {
      const altered = Buffer.from(bytes)
      altered[at] = byte ^ (1 << (at % 8))
      expect(() => readStretch(altered.toString('utf8'), vectors.public_key), `byte ${at}`).toThrow(CheckpointError)
    }
  })
})
