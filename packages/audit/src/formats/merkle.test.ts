// Merkle trees, see merkle.md: the trees of other programs, ours, and proofs that no verifier may take.
import { createHash } from 'node:crypto'
import { decodeHex, encodeHex } from '@eaas/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  anchorLeaf,
  consistencyProof,
  GrowingLeaves,
  inclusionProof,
  leftNodes,
  merkleRoot,
  verifyConsistency,
  verifyInclusion,
} from './merkle.js'
import vectors from './merkle.vectors.json' with { type: 'json' }

/** An inclusion as the vectors have it. Sizes and indices of those that must be refused may be anything. */
interface InclusionVector {
  size: unknown
  index: unknown
  leaf: string
  root: string
  proof: string[]
}

interface ConsistencyVector {
  old_size: unknown
  new_size: unknown
  old_root: string
  new_root: string
  proof: string[]
}

function isIncluded({ size, index, leaf, root, proof }: InclusionVector): boolean {
  return verifyInclusion({
    size: size as number,
    index: index as number,
    leaf: decodeHex(leaf),
    root: decodeHex(root),
    proof: proof.map(decodeHex),
  })
}

function isConsistent({ old_size, new_size, old_root, new_root, proof }: ConsistencyVector): boolean {
  return verifyConsistency({
    oldSize: old_size as number,
    newSize: new_size as number,
    oldRoot: decodeHex(old_root),
    newRoot: decodeHex(new_root),
    proof: proof.map(decodeHex),
  })
}

describe('the published trees', () => {
  it.each(vectors.trees)('have this root: $name', ({ leaves, root }) => {
    expect(encodeHex(merkleRoot(leaves.map(decodeHex)))).toBe(root)
  })

  it.each(vectors.inclusion)('hold: $name', (vector) => {
    expect(isIncluded(vector)).toBe(true)
  })

  it.each(vectors.consistency)('continue: $name', (vector) => {
    expect(isConsistent(vector)).toBe(true)
  })

  it.each(vectors.refuse_inclusion)('do not hold: $name', (vector) => {
    expect(isIncluded(vector)).toBe(false)
  })

  it.each(vectors.refuse_consistency)('do not continue: $name', (vector) => {
    expect(isConsistent(vector)).toBe(false)
  })
})

describe('the leaf of a head', () => {
  it.each(vectors.anchor_leaves)('is this text: $name', ({ tenant_id, last_id, hash, leaf }) => {
    expect(Buffer.from(anchorLeaf({ tenant_id, last_id, hash: decodeHex(hash) })).toString()).toBe(leaf)
  })

  it.each(vectors.refuse_anchor_leaves)('is none for $name', ({ tenant_id, last_id, hash }) => {
    expect(() => anchorLeaf({ tenant_id, last_id: last_id as number, hash: decodeHex(hash) })).toThrow(RangeError)
  })
})

// RFC 6962 section 2.1, word for word, on slices: shares neither the ranges nor the loops of the code.
const sha256 = (...parts: Uint8Array[]) => createHash('sha256').update(Buffer.concat(parts)).digest()
const splitOf = (leaves: Uint8Array[]) => 2 ** (Math.ceil(Math.log2(leaves.length)) - 1)

function mth(leaves: Uint8Array[]): Uint8Array {
  const [only] = leaves
  if (!only) return sha256()
  if (leaves.length === 1) return sha256(Uint8Array.of(0), only)
  const k = splitOf(leaves)
  return sha256(Uint8Array.of(1), mth(leaves.slice(0, k)), mth(leaves.slice(k)))
}

function path(m: number, leaves: Uint8Array[]): Uint8Array[] {
  if (leaves.length === 1) return []
  const k = splitOf(leaves)
  if (m < k) return [...path(m, leaves.slice(0, k)), mth(leaves.slice(k))]
  return [...path(m - k, leaves.slice(k)), mth(leaves.slice(0, k))]
}

function subproof(m: number, leaves: Uint8Array[], isWhole: boolean): Uint8Array[] {
  if (m === leaves.length) return isWhole ? [] : [mth(leaves)]
  const k = splitOf(leaves)
  if (m <= k) return [...subproof(m, leaves.slice(0, k), isWhole), mth(leaves.slice(k))]
  return [...subproof(m - k, leaves.slice(k), false), mth(leaves.slice(0, k))]
}

const leafLists = fc.array(fc.uint8Array({ maxLength: 40 }), { minLength: 1, maxLength: 70 })
const fraction = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
const hashes = fc.uint8Array({ minLength: 32, maxLength: 32 })
const hexOf = (nodes: readonly Uint8Array[]) => nodes.map(encodeHex)

describe('a tree of any leaves', () => {
  it('has the root and the proofs of the recursive definition, and they verify', () => {
    fc.assert(
      fc.property(leafLists, fraction, (leaves, at) => {
        const root = merkleRoot(leaves)
        expect(encodeHex(root)).toBe(encodeHex(mth(leaves)))
        const index = Math.floor(at * leaves.length)
        const leaf = leaves[index] ?? new Uint8Array()
        const proof = inclusionProof(leaves, index)
        expect(hexOf(proof)).toEqual(hexOf(path(index, leaves)))
        expect(verifyInclusion({ root, size: leaves.length, index, leaf, proof })).toBe(true)
        const oldSize = index + 1
        const consistency = consistencyProof(leaves, oldSize)
        expect(hexOf(consistency)).toEqual(hexOf(subproof(oldSize, leaves, true)))
        const oldRoot = merkleRoot(leaves.slice(0, oldSize))
        expect(verifyConsistency({ oldRoot, oldSize, newRoot: root, newSize: leaves.length, proof: consistency })).toBe(
          true,
        )
      }),
    )
  })

  it('has the same root and proofs if its subtrees are hashed before', () => {
    const growing = new GrowingLeaves()
    const hashedOf = Array.from({ length: 34 }, (_, size) => {
      if (size > 0) growing.add(Uint8Array.of(size - 1))
      return growing.now()
    })
    // Each of them, although others were added since.
    for (const [size, hashed] of hashedOf.entries()) {
      const leaves = Array.from({ length: size }, (_, at) => Uint8Array.of(at))
      expect(encodeHex(merkleRoot(hashed))).toBe(encodeHex(merkleRoot(leaves)))
      for (let index = 0; index < size; index++) {
        expect(hexOf(inclusionProof(hashed, index))).toEqual(hexOf(inclusionProof(leaves, index)))
      }
      for (let oldSize = 0; oldSize <= size; oldSize++) {
        expect(hexOf(consistencyProof(hashed, oldSize))).toEqual(hexOf(consistencyProof(leaves, oldSize)))
      }
    }
  })

  it('has a proof for each leaf and each older size, up to 33 leaves', () => {
    for (let size = 1; size <= 33; size++) {
      const leaves = Array.from({ length: size }, (_, at) => Uint8Array.of(at))
      const root = merkleRoot(leaves)
      for (const [index, leaf] of leaves.entries()) {
        expect(verifyInclusion({ root, size, index, leaf, proof: inclusionProof(leaves, index) })).toBe(true)
      }
      for (let oldSize = 0; oldSize <= size; oldSize++) {
        const [oldRoot, proof] = [merkleRoot(leaves.slice(0, oldSize)), consistencyProof(leaves, oldSize)]
        expect(verifyConsistency({ oldRoot, oldSize, newRoot: root, newSize: size, proof })).toBe(true)
      }
    }
  })

  it('has to the left of a leaf what proves it in the tree that it ends, up to 33 leaves', () => {
    const leaves = Array.from({ length: 33 }, (_, at) => Uint8Array.of(at))
    for (let size = 1; size <= leaves.length; size++)
      for (let index = 0; index < size; index++) {
        const proof = inclusionProof(leaves.slice(0, size), index)
        expect(leftNodes({ size, index, proof })).toEqual(inclusionProof(leaves.slice(0, index + 1), index))
      }
  })

  it('proves no other leaf and no other beginning', () => {
    fc.assert(
      fc.property(leafLists, fraction, fc.uint8Array({ maxLength: 40 }), (leaves, at, other) => {
        const index = Math.floor(at * leaves.length)
        fc.pre(encodeHex(leaves[index] ?? new Uint8Array()) !== encodeHex(other))
        const [root, size] = [merkleRoot(leaves), leaves.length]
        expect(verifyInclusion({ root, size, index, leaf: other, proof: inclusionProof(leaves, index) })).toBe(false)
        const oldSize = index + 1
        const rewritten = leaves.with(index, other)
        const oldRoot = merkleRoot(leaves.slice(0, oldSize))
        const proof = consistencyProof(rewritten, oldSize)
        expect(verifyConsistency({ oldRoot, oldSize, newRoot: merkleRoot(rewritten), newSize: size, proof })).toBe(
          false,
        )
      }),
    )
  })

  it('is refused with any byte of a proof or a root altered', () => {
    const leaves = Array.from({ length: 13 }, (_, at) => Uint8Array.of(at))
    const leaf = Uint8Array.of(9)
    const inclusion = { root: merkleRoot(leaves), size: 13, index: 9, leaf, proof: inclusionProof(leaves, 9) }
    const consistency = {
      oldRoot: merkleRoot(leaves.slice(0, 6)),
      oldSize: 6,
      newRoot: inclusion.root,
      newSize: 13,
      proof: consistencyProof(leaves, 6),
    }
    expect(inclusion.proof).toHaveLength(4)
    expect(consistency.proof).toHaveLength(4)
    const alteredAt = (bytes: Uint8Array, at: number) => bytes.map((byte, each) => (each === at ? byte ^ 0x10 : byte))
    for (let at = 0; at < 32; at++) {
      for (const [node, bytes] of inclusion.proof.entries()) {
        const proof = inclusion.proof.with(node, alteredAt(bytes, at))
        expect(verifyInclusion({ ...inclusion, proof })).toBe(false)
      }
      for (const [node, bytes] of consistency.proof.entries()) {
        const proof = consistency.proof.with(node, alteredAt(bytes, at))
        expect(verifyConsistency({ ...consistency, proof })).toBe(false)
      }
      expect(verifyInclusion({ ...inclusion, root: alteredAt(inclusion.root, at) })).toBe(false)
      expect(verifyConsistency({ ...consistency, oldRoot: alteredAt(consistency.oldRoot, at) })).toBe(false)
      expect(verifyConsistency({ ...consistency, newRoot: alteredAt(consistency.newRoot, at) })).toBe(false)
    }
  })
})

describe('a verifier', () => {
  const leaves = [Uint8Array.of(1), Uint8Array.of(2)] as const
  const garbage = fc.anything({ withBigInt: true, withDate: true, withTypedArray: true, withSparseArray: true })

  it('answers false to whatever is no proof, and throws nothing', () => {
    const size = fc.oneof(garbage, fc.nat(9))
    const hash = fc.oneof(garbage, hashes)
    const proof = fc.oneof(garbage, fc.array(hash, { maxLength: 5 }))
    fc.assert(
      fc.property(size, size, hash, hash, proof, (first, second, one, other, nodes) => {
        const inclusion = { size: first, index: second, leaf: one, root: other, proof: nodes } as never
        expect(verifyInclusion(inclusion)).toBe(false)
        // Nothing is the only older tree that anyone can guess.
        fc.pre(first !== 0 && (first !== second || one !== other))
        const consistency = { oldSize: first, newSize: second, oldRoot: one, newRoot: other, proof: nodes } as never
        expect(verifyConsistency(consistency)).toBe(false)
      }),
    )
  })

  it.each([[undefined], [null], [''], [{}], [new Set()], [new Uint8Array()]])(
    'takes no %s for the empty proof',
    (nodes) => {
      const [leaf] = leaves
      const [root, proof] = [merkleRoot([leaf]), nodes as never]
      expect(verifyInclusion({ root, size: 1, index: 0, leaf, proof: [] })).toBe(true)
      expect(verifyInclusion({ root, size: 1, index: 0, leaf, proof })).toBe(false)
      const same = { oldRoot: root, oldSize: 1, newRoot: root, newSize: 1 }
      expect(verifyConsistency({ ...same, proof: [] })).toBe(true)
      expect(verifyConsistency({ ...same, proof })).toBe(false)
    },
  )

  it.each([[undefined], [null], ['a'], [{}], [new Uint8Array(31)], [[1]]])('takes no %s for a node', (node) => {
    const seven = Array.from({ length: 7 }, (_, at) => Uint8Array.of(at))
    const [root, oldRoot] = [merkleRoot(seven), merkleRoot(seven.slice(0, 5))]
    const [inclusion, consistency] = [inclusionProof(seven, 2), consistencyProof(seven, 5)]
    for (const at of inclusion.keys()) {
      const proof = inclusion.with(at, node as never)
      expect(verifyInclusion({ root, size: 7, index: 2, leaf: Uint8Array.of(2), proof })).toBe(false)
    }
    for (const at of consistency.keys()) {
      const proof = consistency.with(at, node as never)
      expect(verifyConsistency({ oldRoot, oldSize: 5, newRoot: root, newSize: 7, proof })).toBe(false)
    }
  })

  it('stops at the first node too many, however many there are', () => {
    const [root, [leaf]] = [merkleRoot(leaves), leaves]
    const inclusion = countReads(new Array<Uint8Array>(100_000).fill(root))
    expect(verifyInclusion({ root, size: 2, index: 0, leaf, proof: inclusion.proof })).toBe(false)
    expect(inclusion.reads()).toBe(2)
    const consistency = countReads(new Array<Uint8Array>(100_000).fill(root))
    const sizes = { oldRoot: merkleRoot([leaf]), oldSize: 1, newRoot: root, newSize: 2 }
    expect(verifyConsistency({ ...sizes, proof: consistency.proof })).toBe(false)
    expect(consistency.reads()).toBe(2)
  })
})

/** A proof that counts how many of its nodes are read. */
function countReads(nodes: Uint8Array[]): { proof: Uint8Array[]; reads: () => number } {
  let reads = 0
  const get = (target: Uint8Array[], name: string | symbol) => {
    if (typeof name === 'string' && /^\d+$/.test(name)) reads++
    return Reflect.get(target, name)
  }
  return { proof: new Proxy(nodes, { get }), reads: () => reads }
}

describe('a maker of proofs', () => {
  const leaves = [Uint8Array.of(1), Uint8Array.of(2), Uint8Array.of(3)]

  it.each([-1, 3, 1.5, Number.NaN, 2 ** 53])('refuses the index %s of three leaves', (index) => {
    expect(() => inclusionProof(leaves, index)).toThrow(RangeError)
  })

  it.each([-1, 4, 1.5, Number.NaN, 2 ** 53])('refuses the older size %s of three leaves', (oldSize) => {
    expect(() => consistencyProof(leaves, oldSize)).toThrow(RangeError)
  })

  it('has no proof of a leaf in the empty tree', () => {
    expect(() => inclusionProof([], 0)).toThrow(RangeError)
  })
})
