// The tree of the installation's log, see tree.md: notes and lines of another program, ours, and what no
// reader may take.
import { createSecretKey } from 'node:crypto'
import { decodeHex, encodeHex } from '@eaas/protocol'
import { describe, expect, it } from 'vitest'
import { signingKeyOf } from '../node/signing-key.js'
import { readWitnessKey } from './cosignature.js'
import { merkleRoot } from './merkle.js'
import { CheckpointError, encodeNoteKey } from './signed-note.js'
import { readTree, readTreeKey, signTree } from './tree.js'
import vectors from './tree.vectors.json' with { type: 'json' }
import { keepTree, readWitnessed } from './witnessed.js'

const keyOf = (seed: string) => signingKeyOf(createSecretKey(decodeHex(seed)))
const treeKey = readTreeKey(vectors.public_key)

describe('the published trees', () => {
  it.each(vectors.trees)(
    'are what the key signs, to the byte: $name',
    ({ seed, first_public_key, hashes, text, note }) => {
      expect(signTree(keyOf(seed), hashes.map(decodeHex), first_public_key)).toBe(note)
      expect(note.startsWith(`${text}\n`)).toBe(true)
    },
  )

  it.each(vectors.trees)(
    'are read with the key of the log: $name',
    ({ public_key, first_public_key, tree_key, hashes, text, note }) => {
      const key = readTreeKey(public_key, first_public_key)
      expect(encodeNoteKey(key)).toBe(tree_key)
      const root = encodeHex(merkleRoot(hashes.map(decodeHex)))
      const read = readTree(note, [key])
      expect({ ...read, root: encodeHex(read.root) }).toMatchObject({
        origin: key.name,
        size: hashes.length,
        root,
        text,
      })
    },
  )

  it.each(vectors.accept)('are read with $name', ({ note }) => {
    expect(readTree(note, [treeKey])).toMatchObject({ size: 11, text: vectors.trees[0]?.text })
  })

  it.each(vectors.refuse)('are not this note: $name', ({ note }) => {
    expect(() => readTree(note, [treeKey])).toThrow(CheckpointError)
  })
})

describe('a line of the checkpoint file', () => {
  const publicKey = vectors.public_key

  it.each(vectors.kept)('is proven to be what witnesses saw: $name', ({ witnesses, last_id, seconds, ...line }) => {
    const read = readWitnessed(line, { publicKey, witnesses: witnesses.map(readWitnessKey) })
    expect(read).toMatchObject({ last_id, seconds })
  })

  it.each(vectors.refuse_kept)('is refused with $name', ({ witnesses, checkpoint, ...line }) => {
    const kept = { checkpoint, tree: 'tree' in line ? line.tree : undefined }
    expect(() => readWitnessed(kept, { publicKey, witnesses: witnesses.map(readWitnessKey) })).toThrow(CheckpointError)
  })

  it('has the proof that the published lines have', () => {
    const [tree] = vectors.trees
    const note = tree?.note ?? ''
    expect(keepTree(note, tree?.hashes.map(decodeHex) ?? []).proof).toEqual(vectors.kept[0]?.tree.proof)
  })
})
