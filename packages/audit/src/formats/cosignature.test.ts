// Cosignatures and requests for them, see cosignature.md: those of another program, ours, and what no reader
// may take.
import { createSecretKey } from 'node:crypto'
import { decodeHex, encodeHex, encodeUtf8 } from '@eaas/protocol'
import { describe, expect, it } from 'vitest'
import { signingKeyOf } from '../node/signing-key.js'
import {
  cosign,
  createWitnessKey,
  MAX_REQUEST_BYTES,
  readAddCheckpoint,
  readCosignature,
  readWitnessKey,
  writeAddCheckpoint,
} from './cosignature.js'
import vectors from './cosignature.vectors.json' with { type: 'json' }
import { CheckpointError, encodeNoteKey, readSignatures } from './signed-note.js'

const keyOf = (seed: string) => signingKeyOf(createSecretKey(decodeHex(seed)))
const [first] = vectors.sign
const key = readWitnessKey(first?.key ?? '')
const text = first?.text ?? ''

describe('the published cosignatures', () => {
  it.each(vectors.sign)('are what the witness signs, to the byte: $name', ({ seed, key, time, text, line }) => {
    const { name } = readWitnessKey(key)
    const signingKey = keyOf(seed)
    const own = createWitnessKey(name, signingKey)
    expect(encodeNoteKey(own)).toBe(key)
    expect(cosign({ key: own, signingKey }, text, time)).toBe(line)
  })

  it.each(vectors.sign)('are read with the key: $name', ({ key, time, text, line }) => {
    expect(readCosignature(readSignatures(line), readWitnessKey(key), text)).toBe(time)
  })

  it.each(vectors.refuse)('are not this line: $name', ({ line }) => {
    expect(() => readCosignature(readSignatures(line), key, text)).toThrow(CheckpointError)
  })

  it.each(vectors.ignore)('are found behind a line $name, which is of no concern', ({ line }) => {
    expect(readCosignature(readSignatures(line), key, text)).toBeUndefined()
    expect(readCosignature(readSignatures(line + first?.line), key, text)).toBe(first?.time)
  })
})

describe("a witness's key", () => {
  it.each(vectors.keys)('is read and written: %s', (key) => {
    expect(encodeNoteKey(readWitnessKey(key))).toBe(key)
  })

  it.each(vectors.refuse_keys)('is not this: $name', ({ key }) => {
    expect(() => readWitnessKey(key)).toThrow(CheckpointError)
  })
})

describe('a request', () => {
  it.each(vectors.requests)('is written and read: $name', ({ body, old, proof, note }) => {
    expect(writeAddCheckpoint({ old, proof: proof.map(decodeHex), note })).toBe(body)
    const read = readAddCheckpoint(encodeUtf8(body))
    expect({ ...read, proof: read.proof.map(encodeHex) }).toEqual({ old, proof, note })
  })

  it('is read up to its largest size', () => {
    const { body = '' } = vectors.refuse_requests.find(({ name }) => name === 'a byte too many') ?? {}
    expect(encodeUtf8(body).length).toBe(MAX_REQUEST_BYTES + 1)
    expect(() => readAddCheckpoint(encodeUtf8(body))).toThrow(CheckpointError)
    expect(readAddCheckpoint(encodeUtf8(body.replace('AAAA', '')))).toMatchObject({ old: 0 })
  })

  it('is refused if it is not UTF-8', () => {
    const body = encodeUtf8(vectors.requests[0]?.body ?? '')
    expect(() => readAddCheckpoint(Uint8Array.of(...body, 0xff, 0x0a))).toThrow(CheckpointError)
  })
})
