// Statements about a new signing key, see key-change.md: those of another program, ours, and what no reader may take.
import { createSecretKey } from 'node:crypto'
import { decodeHex } from '@eaas/protocol'
import { describe, expect, it } from 'vitest'
import { sha256 } from '../crypto.js'
import { signingKeyOf } from '../node/signing-key.js'
import { encodePublicKey } from './checkpoint.js'
import {
  followKeyChanges,
  listKeys,
  readInstallation,
  readKeyChange,
  signInstallation,
  signKeyChange,
} from './key-change.js'
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

describe("the published statements of an installation's keys", () => {
  it.each(vectors.state)('are what the last key signs, and are read: $name', ({ seed, keys, note }) => {
    expect(signInstallation(keyOf(seed), keys)).toBe(note)
    expect(readInstallation(note)).toEqual(keys)
  })

  it.each(vectors.refuse_installation)('are not this note: $name', ({ note }) => {
    expect(() => readInstallation(note)).toThrow(CheckpointError)
  })
})

it("a statement of an installation's keys has no more than 10,000", () => {
  const signer = keyOf('01'.repeat(32))
  const keys = Array.from({ length: 10_000 }, (_, at) =>
    encodePublicKey({ ...signer, publicKey: sha256(new Uint8Array([at >> 8, at])) }),
  )
  const note = (before: number) => signInstallation(signer, [...keys.slice(0, before), encodePublicKey(signer)])
  expect(readInstallation(note(9_999))).toHaveLength(10_000)
  expect(() => readInstallation(note(10_000))).toThrow(CheckpointError)
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
