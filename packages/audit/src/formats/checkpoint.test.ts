// Checkpoints, see checkpoint.md: the notes of another program, ours, and what no reader may take.
import { createPrivateKey, createSecretKey, generateKeyPairSync } from 'node:crypto'
import { decodeHex, encodeHex } from '@eaas/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { signerOf, signingKeyOf } from '../node/signing-key.js'
import { encodePublicKey, readCheckpoint, signCheckpoint } from './checkpoint.js'
import vectors from './checkpoint.vectors.json' with { type: 'json' }
import { CheckpointError } from './signed-note.js'

const [good] = vectors.sign
const note = good?.note ?? ''

const keyOf = (seed: string) => signingKeyOf(createSecretKey(decodeHex(seed)))
const flipped = (text: string, at: number, bit: number) => {
  const bytes = Buffer.from(text)
  bytes[at] = (bytes[at] ?? 0) ^ (1 << bit)
  return bytes
}

describe('the published checkpoints', () => {
  it.each(vectors.sign)('are what the key signs, to the byte: $name', ({ seed, statement, note, text }) => {
    expect(note.startsWith(`${text}\n`)).toBe(true)
    expect(signCheckpoint(keyOf(seed), { ...statement, hash: decodeHex(statement.hash) })).toBe(note)
  })

  it.each(vectors.sign)('are read with the public key: $name', ({ seed, public_key, statement, note }) => {
    expect(encodePublicKey(keyOf(seed))).toBe(public_key)
    const { hash, ...read } = readCheckpoint(note, public_key)
    expect({ ...read, hash: encodeHex(hash) }).toEqual(statement)
  })

  it.each(vectors.refuse)('are not this note: $name', ({ note }) => {
    expect(() => readCheckpoint(note, vectors.public_key)).toThrow(CheckpointError)
  })

  it.each(vectors.refuse_public_keys)('are not verified with this key: $name', ({ public_key }) => {
    expect(() => readCheckpoint(note, public_key)).toThrow(CheckpointError)
  })
})

describe('a checkpoint', () => {
  it('is refused with any bit of it altered', () => {
    for (let at = 0; at < Buffer.byteLength(note); at++) {
      for (let bit = 0; bit < 8; bit++) {
        const altered = flipped(note, at, bit).toString('utf8')
        expect(() => readCheckpoint(altered, vectors.public_key), `byte ${at}, bit ${bit}`).toThrow(CheckpointError)
      }
    }
  })

  it('is refused with any bit of the public key altered', () => {
    for (let at = 0; at < vectors.public_key.length; at++) {
      for (let bit = 0; bit < 8; bit++) {
        const altered = flipped(vectors.public_key, at, bit).toString('utf8')
        expect(() => readCheckpoint(note, altered), `byte ${at}, bit ${bit}`).toThrow(CheckpointError)
      }
    }
  })

  it('is refused when it is cut anywhere', () => {
    for (let length = 0; length < note.length; length++) {
      expect(() => readCheckpoint(note.slice(0, length), vectors.public_key), `${length}`).toThrow(CheckpointError)
    }
  })

  it('says what was signed, whatever that is, and only to who has the key', () => {
    const { privateKey } = generateKeyPairSync('ed25519')
    const statement = fc.record({
      tenant_id: fc.uuid(),
      last_id: fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
      hash: fc.uint8Array({ minLength: 32, maxLength: 32 }),
      created_at: fc
        .integer({ min: 0, max: Date.parse('9999-12-31T23:59:59.999Z') })
        .map((time) => new Date(time).toISOString()),
    })
    fc.assert(
      fc.property(statement, (statement) => {
        const note = signCheckpoint(signerOf(privateKey), statement)
        expect(readCheckpoint(note, encodePublicKey(signerOf(privateKey)))).toEqual(statement)
        expect(() => readCheckpoint(note, vectors.public_key)).toThrow('signed by another key')
      }),
    )
  })

  it('is not signed with a key of another kind', () => {
    const statement = {
      tenant_id: good?.statement.tenant_id ?? '',
      last_id: 1,
      hash: new Uint8Array(32),
      created_at: '',
    }
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const other = signCheckpoint(
      signerOf(createPrivateKey(privateKey.export({ format: 'pem', type: 'pkcs8' }))),
      statement,
    )
    expect(() => readCheckpoint(other, vectors.public_key)).toThrow(CheckpointError)
  })
})
