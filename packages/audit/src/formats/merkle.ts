/** Merkle trees over SHA-256, and their proofs, see merkle.md. Pure. */
import { concatBytes, encodeHex, encodeUtf8, isUuid } from '@eaas/protocol'
import { equalBytes, sha256 } from '../crypto.js'

const LEAF_PREFIX = Uint8Array.of(0x00)
const NODE_PREFIX = Uint8Array.of(0x01)
const HASH_BYTES = 32
/** Initial room for the hashes of a level, in bytes. */
const LEAST_ROOM = 32 * HASH_BYTES
const ANCHOR_LEAF_LABEL = 'eaas/audit/anchor-leaf/v1'

/** The claim that a tree of `size` leaves with this root has this leaf at the index. */
export interface Inclusion {
  root: Uint8Array
  size: number
  /** counted from 0 */
  index: number
  leaf: Uint8Array
  proof: readonly Uint8Array[]
}

/** The claim that the new tree begins with the `oldSize` leaves of the old one. */
export interface Consistency {
  oldRoot: Uint8Array
  oldSize: number
  newRoot: Uint8Array
  newSize: number
  proof: readonly Uint8Array[]
}

/** Leaves with the hashes of all complete subtrees, so that a root or a proof takes only a few more hashes. */
export interface HashedLeaves {
  readonly length: number
  /** the hash of the complete subtree over 2^level leaves at this index of its level, if there is one */
  node(level: number, index: number): Uint8Array | undefined
}

export type Leaves = readonly Uint8Array[] | HashedLeaves

/** A growing list of leaves. Each complete subtree is hashed once, and takes 32 bytes. */
export class GrowingLeaves {
  #length = 0
  /** by level: the hashes one after another, and spare room */
  readonly #levels: Uint8Array[] = []

  get length(): number {
    return this.#length
  }

  add(leaf: Uint8Array): void {
    let hash = leafHash(leaf)
    let index = this.#length++
    for (let level = 0; ; level++) {
      this.#put(level, index, hash)
      if (!isOdd(index)) return
      hash = nodeHash(this.#node(level, index - 1), hash)
      index = half(index)
    }
  }

  /** Returns the leaves so far. Leaves added later do not appear in it. */
  now(): HashedLeaves {
    const length = this.#length
    return {
      length,
      node: (level, index) =>
        Number.isInteger(level) && Number.isInteger(index) && (index + 1) * 2 ** level <= length
          ? this.#node(level, index)
          : undefined,
    }
  }

  #node(level: number, index: number): Uint8Array {
    return (this.#levels[level] as Uint8Array).subarray(index * HASH_BYTES, (index + 1) * HASH_BYTES)
  }

  #put(level: number, index: number, hash: Uint8Array): void {
    let hashes = this.#levels[level] ?? new Uint8Array(LEAST_ROOM)
    if (hashes.length === index * HASH_BYTES) {
      const larger = new Uint8Array(2 * hashes.length)
      larger.set(hashes)
      hashes = larger
    }
    hashes.set(hash, index * HASH_BYTES)
    this.#levels[level] = hashes
  }
}

/** The root over leaves that are added one by one. Its memory grows with the logarithm of their number. */
export class RunningRoot {
  #length = 0
  /** the roots of complete subtrees of falling sizes: one for each bit of the length */
  readonly #subtrees: Uint8Array[] = []

  get length(): number {
    return this.#length
  }

  add(leaf: Uint8Array): void {
    let hash = leafHash(leaf)
    for (let count = this.#length++; isOdd(count); count = half(count))
      hash = nodeHash(this.#subtrees.pop() as Uint8Array, hash)
    this.#subtrees.push(hash)
  }

  root(): Uint8Array {
    return this.#subtrees.length === 0
      ? merkleRoot([])
      : this.#subtrees.reduceRight((right, left) => nodeHash(left, right))
  }
}

/** Computes the root over the leaves (merkle.md 1). */
export function merkleRoot(leaves: Leaves): Uint8Array {
  return rootOf(leaves, 0, leaves.length)
}

/** Proves that the leaf at the index is one of the leaves (merkle.md 2). Hashes all leaves. @throws RangeError if not */
export function inclusionProof(leaves: Leaves, index: number): Uint8Array[] {
  if (!isCount(index) || index >= leaves.length)
    throw new RangeError(`index must be an integer from 0 to ${leaves.length - 1}, got ${index}`)
  const proof: Uint8Array[] = []
  let [from, to] = [0, leaves.length]
  while (to - from > 1) {
    const split = from + largestPowerBelow(to - from)
    proof.push(index < split ? rootOf(leaves, split, to) : rootOf(leaves, from, split))
    if (index < split) to = split
    else from = split
  }
  return proof.reverse()
}

/** Proves that the leaves begin with the first `oldSize` (merkle.md 3). Hashes all. @throws RangeError if there are fewer */
export function consistencyProof(leaves: Leaves, oldSize: number): Uint8Array[] {
  if (!isCount(oldSize) || oldSize > leaves.length)
    throw new RangeError(`the old size must be an integer from 0 to ${leaves.length}, got ${oldSize}`)
  if (oldSize === 0) return []
  const proof: Uint8Array[] = []
  let [from, to] = [0, leaves.length]
  while (to > oldSize) {
    const split = from + largestPowerBelow(to - from)
    proof.push(oldSize <= split ? rootOf(leaves, split, to) : rootOf(leaves, from, split))
    if (oldSize <= split) to = split
    else from = split
  }
  // The verifier knows the subtree that ends the old tree only if it is the whole old tree.
  if (from > 0) proof.push(rootOf(leaves, from, to))
  return proof.reverse()
}

/** Whether the proof shows the inclusion. False for malformed input too (merkle.md 4). */
export function verifyInclusion({ root, size, index, leaf, proof }: Inclusion): boolean {
  if (!isHash(root) || !isCount(size) || !isCount(index) || index >= size) return false
  if (!(leaf instanceof Uint8Array) || !Array.isArray(proof)) return false
  // RFC 9162 section 2.1.3.2. Numbers may exceed 32 bits: they are halved, not shifted.
  let [position, last] = [index, size - 1]
  let hash = leafHash(leaf)
  for (const node of proof) {
    if (last === 0 || !isHash(node)) return false
    if (isOdd(position) || position === last) {
      hash = nodeHash(node, hash)
      while (!isOdd(position) && position !== 0) [position, last] = [half(position), half(last)]
    } else {
      hash = nodeHash(hash, node)
    }
    ;[position, last] = [half(position), half(last)]
  }
  return last === 0 && equalBytes(hash, root)
}

/**
 * Lists the nodes of an inclusion proof that lie left of the leaf. They are the whole proof in the tree that ends with
 * this leaf, so a larger tree with the same nodes continues that tree.
 */
export function leftNodes({ size, index, proof }: Pick<Inclusion, 'size' | 'index' | 'proof'>): Uint8Array[] {
  const left: Uint8Array[] = []
  let [position, last] = [index, size - 1]
  for (const node of proof) {
    if (isOdd(position) || position === last) {
      left.push(node)
      while (!isOdd(position) && position !== 0) [position, last] = [half(position), half(last)]
    }
    ;[position, last] = [half(position), half(last)]
  }
  return left
}

/** Whether the proof shows the consistency. False for malformed input too (merkle.md 4). */
export function verifyConsistency({ oldRoot, oldSize, newRoot, newSize, proof }: Consistency): boolean {
  if (!isHash(oldRoot) || !isHash(newRoot) || !isCount(oldSize) || !isCount(newSize) || oldSize > newSize) return false
  if (!Array.isArray(proof)) return false
  if (oldSize === 0 && !equalBytes(oldRoot, merkleRoot([]))) return false
  if (oldSize === newSize) return proof.length === 0 && equalBytes(oldRoot, newRoot)
  if (oldSize === 0) return proof.length === 0
  // RFC 9162 section 2.1.4.2.
  let [position, last] = [oldSize - 1, newSize - 1]
  while (isOdd(position)) [position, last] = [half(position), half(last)]
  // Where the old tree is a whole subtree, its root is not in the proof.
  const nodes = proof.values()
  const first = position === 0 ? oldRoot : nodes.next().value
  if (!isHash(first)) return false
  let [oldHash, newHash] = [first, first]
  for (const node of nodes) {
    if (last === 0 || !isHash(node)) return false
    if (isOdd(position) || position === last) {
      ;[oldHash, newHash] = [nodeHash(node, oldHash), nodeHash(node, newHash)]
      while (!isOdd(position) && position !== 0) [position, last] = [half(position), half(last)]
    } else {
      newHash = nodeHash(newHash, node)
    }
    ;[position, last] = [half(position), half(last)]
  }
  return last === 0 && equalBytes(oldHash, oldRoot) && equalBytes(newHash, newRoot)
}

/** Makes the leaf of a tenant's head (merkle.md 5). @throws RangeError if the tenant, last id or hash is malformed */
export function anchorLeaf(head: { tenant_id: string; last_id: number; hash: Uint8Array }): Uint8Array {
  const { tenant_id, last_id, hash } = head
  if (!isUuid(tenant_id)) throw new RangeError('the tenant of a leaf must be a UUID in lower case')
  if (!isCount(last_id) || last_id === 0)
    throw new RangeError('the last id of a leaf must be an integer from 1 to 2^53 − 1')
  if (!isHash(hash)) throw new RangeError(`the hash of a leaf must be ${HASH_BYTES} bytes`)
  return encodeUtf8(JSON.stringify([ANCHOR_LEAF_LABEL, tenant_id, last_id, encodeHex(hash)]))
}

function rootOf(leaves: Leaves, from: number, to: number): Uint8Array {
  const known = 'node' in leaves ? leaves.node(Math.log2(to - from), from / (to - from)) : undefined
  if (known) return known
  const [leaf] = to - from === 1 && !('node' in leaves) ? leaves.slice(from, to) : []
  if (leaf) return leafHash(leaf)
  if (to === from) return sha256(new Uint8Array())
  const split = from + largestPowerBelow(to - from)
  return nodeHash(rootOf(leaves, from, split), rootOf(leaves, split, to))
}

function largestPowerBelow(count: number): number {
  let power = 1
  while (power * 2 < count) power *= 2
  return power
}

function leafHash(leaf: Uint8Array): Uint8Array {
  return sha256(concatBytes(LEAF_PREFIX, leaf))
}

function nodeHash(left: Uint8Array, right: Uint8Array): Uint8Array {
  return sha256(concatBytes(NODE_PREFIX, left, right))
}

function isHash(value: unknown): value is Uint8Array {
  return value instanceof Uint8Array && value.length === HASH_BYTES
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0
}

function isOdd(count: number): boolean {
  return count % 2 === 1
}

function half(count: number): number {
  return Math.floor(count / 2)
}
