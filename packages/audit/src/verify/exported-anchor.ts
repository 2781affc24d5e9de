/** Checks the line of an anchor in an export, see export.md 8. Pure. */
import { INSTALLATION_ID } from '@eaas/protocol'
import { equalBytes } from '../crypto.js'
import { readAnchorMetadata } from '../formats/anchor.js'
import { entryHash } from '../formats/chain.js'
import { ORIGIN, readCheckpoint } from '../formats/checkpoint.js'
import type { ExportAnchor, ExportLinks, LinkedEntry } from '../formats/export.js'
import { anchorLeaf, leftNodes, verifyInclusion } from '../formats/merkle.js'
import type { NoteKey } from '../formats/signed-note.js'
import { readStretch, type Stretch } from '../formats/stretch.js'
import { readTree } from '../formats/tree.js'
import { ExportFault } from './read-export.js'

/** Checks that the anchor covers the tenant's head. Returns how many tenants it covers. @throws ExportFault */
export function assertCovers(line: ExportAnchor, tenant_id: string): number {
  const { anchor, after_hash, last_id, hash, index, proof } = line
  if (anchor.action !== 'installation.anchor' || !equalBytes(anchor.hash, entryHash(after_hash, anchor)))
    throw new ExportFault('the anchor was altered')
  const covered = readAnchorMetadata(anchor.metadata)
  if (!covered) throw new ExportFault('the anchor has no root')
  if (last_id === 0) throw new ExportFault('the anchor covers a log without entries')
  const leaf = anchorLeaf({ tenant_id, last_id, hash })
  if (!verifyInclusion({ root: covered.root, size: covered.tenants, index, leaf, proof }))
    throw new ExportFault('the anchor does not cover this head of the tenant')
  return covered.tenants
}

/** Checks that the key signed the anchor's position. Returns the signed statement. @throws ExportFault, CheckpointError */
export function readAnchorPosition({ anchor, signed }: ExportAnchor, publicKey: string): Stretch {
  const position = signed.startsWith(`${ORIGIN}\n`) ? endOf(signed, publicKey) : readStretch(signed, publicKey)
  const { tenant_id, last_id, hash } = position
  if (tenant_id !== INSTALLATION_ID || last_id !== anchor.id || !equalBytes(hash, anchor.hash))
    throw new ExportFault("what is signed of the installation's log does not agree with the anchor")
  return position
}

/**
 * Checks that the key signed the tree of the installation's log, at the moment when it signed the anchor's position,
 * and that the tree contains the anchor and the linked entries. @throws ExportFault, CheckpointError
 */
export function assertLinks(
  { tree, proof, entries }: ExportLinks,
  { anchor, head_id }: { anchor: ExportAnchor['anchor']; head_id: number },
  treeKey: NoteKey,
): void {
  const { size, root, signatures } = readTree(tree, [treeKey])
  if (size !== head_id) throw new ExportFault("the tree is not that of the installation's log that was signed")
  if (signatures.length > 1) throw new ExportFault('the tree has more than the signature of the log')
  for (const { id, hash, proof: own } of [{ ...anchor, proof }, ...entries]) {
    if (!verifyInclusion({ root, size, index: id - 1, leaf: hash, proof: own }))
      throw new ExportFault(`the tree of the installation's log does not hold entry ${id}`)
  }
}

/**
 * Checks that a linked entry's tree continues the tree that ends with that entry, in which `proof` is the entry's proof
 * (tree.md 5). @throws ExportFault
 */
export function assertContinues({ id, proof: linked }: LinkedEntry, proof: readonly Uint8Array[], size: number): void {
  const left = leftNodes({ size, index: id - 1, proof: linked })
  if (left.length === proof.length && left.every((node, at) => equalBytes(node, proof[at] as Uint8Array))) return
  throw new ExportFault(
    `the tree of the installation's log does not continue the one that witnesses cosigned at entry ${id}: the log was rewritten`,
  )
}

/** Reads from an anchor's line where and when the installation's log ended. Checks no signature. */
export function findEnd({ signed }: ExportAnchor): { head_id: number; created_at: string } {
  const lines = signed.split('\n')
  const [head, created_at = ''] = lines[0] === ORIGIN ? [lines[2], lines[4]] : [lines[4], lines[6]]
  return { head_id: Number(head), created_at }
}

function endOf(note: string, publicKey: string): Stretch {
  const checkpoint = readCheckpoint(note, publicKey)
  return { ...checkpoint, head_id: checkpoint.last_id, head_hash: checkpoint.hash }
}
