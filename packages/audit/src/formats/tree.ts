/** The Merkle tree over the installation's log, and signed statements of its root, see tree.md. Pure. */
import { encodeBase64, encodeHex, encodeUtf8 } from '@eaas/protocol'
import { type SigningKey, sha256 } from '../crypto.js'
import { encodePublicKey, type PublicKeys, readPublicKey } from './checkpoint.js'
import { type Leaves, merkleRoot } from './merkle.js'
import {
  CheckpointError,
  createNoteKey,
  ED25519,
  findBase64,
  findSignature,
  isSignedBy,
  type NoteKey,
  type SignedNote,
  signatureLine,
  splitNote,
} from './signed-note.js'

const ORIGIN_PREFIX = 'eaas/audit/tree/v1/'
const ORIGIN_DIGEST_BYTES = 16
const HASH_BYTES = 32
/** c2sp.org/tlog-checkpoint: origin, size, root, and extension lines, none of them empty. */
const TREE_HEAD = /^([^\n]+)\n(0|[1-9]\d{0,15})\n([^\n]+)\n((?:[^\n]+\n)*)$/

export type TreeHead = { origin: string; size: number; root: Uint8Array }

/** A statement that the log signed, with all signatures under it. */
export interface SignedTree extends TreeHead, SignedNote {}

/** Derives the key that signs trees; `first` is the installation's first key (tree.md 3). @throws CheckpointError */
export function readTreeKey(publicKey: string, first = publicKey): NoteKey {
  return treeKeyOf(readPublicKey(publicKey).key, readPublicKey(first).key)
}

/** Lists the keys that sign trees, one for each key that signed for the installation. @throws CheckpointError */
export function readTreeKeys(publicKeys: PublicKeys): NoteKey[] {
  const [first = '', ...later] = [publicKeys].flat()
  return [first, ...later].map((publicKey) => readTreeKey(publicKey, first))
}

/** Signs the tree over the hashes of all entries. Returns the note. `first` is the installation's first public key. */
export function signTree(signingKey: SigningKey, hashes: Leaves, first = encodePublicKey(signingKey)): string {
  const key = treeKeyOf(signingKey.publicKey, readPublicKey(first).key)
  const text = `${key.name}\n${hashes.length}\n${encodeBase64(merkleRoot(hashes))}\n`
  return `${text}\n${signatureLine(key, signingKey.sign(encodeUtf8(text)))}`
}

/** Reads a note that one of the keys signed; they share one name. @throws CheckpointError (tree.md 4) */
export function readTree(note: string, keys: readonly NoteKey[]): SignedTree {
  const { text, signatures } = splitNote(note)
  assertSigned({ text, signatures }, keys)
  const { origin, size, root } = readTreeHead(text)
  if (origin !== keys[0]?.name || size === 0 || text.split('\n').length !== 4)
    throw new CheckpointError('this is not a statement of the tree of this installation')
  return { origin, size, root, text, signatures }
}

/** Checks that one of a log's keys signed. @throws CheckpointError if none did, or a signature by any of them is wrong */
export function assertSigned({ text, signatures }: SignedNote, keys: readonly NoteKey[]): void {
  const signed = keys.flatMap((key) => {
    const signature = findSignature(signatures, key)
    return signature ? [isSignedBy(key, encodeUtf8(text), signature)] : []
  })
  if (signed.length === 0) throw new CheckpointError('the statement of the tree was signed by another key')
  if (signed.includes(false))
    throw new CheckpointError('the statement of the tree was altered: its signature does not verify')
}

/** Reads the text of any log's tree checkpoint. @throws CheckpointError */
export function readTreeHead(text: string): TreeHead {
  const [, origin = '', size = '', encoded = ''] = TREE_HEAD.exec(text) ?? []
  const root = findBase64(encoded, HASH_BYTES)
  if (!root || !Number.isSafeInteger(Number(size))) throw new CheckpointError('this is not a checkpoint of a tree')
  return { origin, size: Number(size), root }
}

function treeKeyOf(publicKey: Uint8Array, first: Uint8Array): NoteKey {
  const id = sha256(first).subarray(0, ORIGIN_DIGEST_BYTES)
  return createNoteKey(`${ORIGIN_PREFIX}${encodeHex(id)}`, ED25519, publicKey)
}
