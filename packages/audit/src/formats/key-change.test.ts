// Statements about a new signing key, see key-change.md: those of another program, ours, and what no reader may take.
import { createSecretKey } from 'node:crypto'
import { decodeHex } from '@eaas/protocol'
import { describe, expect, it } from 'vitest'
import { signingKeyOf } from '../node/signing-key.js'
import { followKeyChanges, listKeys, readKeyChange, signKeyChange } from './key-change.js'
import vectors from './key-change.vectors.json' with { type: 'json' }
import { CheckpointError } from './signed-note.js'

const keyOf = (seed: string) => signingKeyOf(createSecretKey(decodeHex(seed)))
const [good] = vectors.sign

describe('the published statements about a new signing key', () => {
  it.each(vectors.sign)('are what both keys sign, to the byte: $name', ({ from_seed, to_seed, created_at, note }) => {
    expect(signKeyChange(keyOf(from_seed), keyOf(to_seed), created_at)).toBe(note)
  })

  it.each(vectors.sign)('are read: $name', ({ note, from, to, created_at }) => {
    expect(readKeyChange(note)).toEqual({ from, to, created_at })
  })

  it.each(vectors.refuse)('are not this note: $name', ({ note }) => {
    expect(() => readKeyChange(note)).toThrow(CheckpointError)
  })

  it.each(vectors.follow)('lead from one key to another: $name', ({ notes, keys }) => {
    expect(listKeys(followKeyChanges(notes))).toEqual(keys)
  })

  it.each(vectors.refuse_lists)('are not followed: $name', ({ notes }) => {
    expect(() => followKeyChanges(notes)).toThrow(CheckpointError)
  })
})

describe('a statement about a new signing key', () => {
  it('is refused with any bit of it altered', () => {
    const bytes = Buffer.from(good?.note ?? '')
    for (let at = 0; at < bytes.length; at++) {
      const altered = Buffer.from(bytes)
      altered[at] = (altered[at] ?? 0) ^ 1
      expect(() => readKeyChange(altered.toString('utf8')), `byte ${at}`).toThrow(CheckpointError)
    }
  })
})
