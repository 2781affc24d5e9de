/** Verifies a file that proves entries, from the file and a public key, see proof.md. Pure. */
import { decodeHex } from '@eaas/protocol'
import * as z from 'zod/mini'
import { equalBytes } from '../crypto.js'
import { entryHash, genesisHash } from '../formats/chain.js'
import { type Checkpoint, type PublicKeys, readCheckpoint } from '../formats/checkpoint.js'
import type { LinkedEntry } from '../formats/export.js'
import { followKeyChanges, type KeyChange, listKeys } from '../formats/key-change.js'
import { verifyInclusion } from '../formats/merkle.js'
import { type EntryTree, PROOF_FORMAT, type Proof, readEntryTree, writeProof } from '../formats/proof.js'
import { CheckpointError } from '../formats/signed-note.js'
import { ANOTHER_LOG } from './compare-checkpoints.js'
import { findNote } from './kept-checkpoint.js'
import { type ExportedEntry, ExportFault, entrySchema, hash, integer, parse, text } from './read-export.js'
import { IF_REPLACED, type KeptStatement, viewCheckpoint } from './verify-export.js'

const proofSchema = z.strictObject({
  format: z.literal(PROOF_FORMAT),
  statement: text,
  public_key: text,
  key_changes: z.optional(z.array(text)),
  entries: z.array(z.strictObject({ before: hash, entry: entrySchema, proof: z.array(hash) })).check(z.minLength(1)),
  links: z.array(z.strictObject({ id: integer, hash, proof: z.array(hash) })),
})

export interface ProofVerdict {
  valid: boolean
  tenant_id?: string
  /** the proven entries; none if the file is not valid */
  entries: ExportedEntry[]
  /** the tree contains the entries after `after_id` through `last_id` */
  after_id?: number
  last_id?: number
  signed_at?: string
  public_key?: string
  trusted_key: boolean
  /** the statements by which a given key vouches for the signing one, as in the verdict on an export */
  key_changes?: KeyChange[]
  /** if checkpoints were given: whether the file has the entry of any */
  checkpoint_compared?: boolean
  /** the newest compared checkpoint, or the newest of all if none was compared */
  checkpoint?: KeptStatement
  reason?: string
}

export interface VerifyProofOptions {
  /** the public keys to trust; by default the one in the file, which proves nothing against a forger */
  publicKey?: PublicKeys | undefined
  /** the notes of the tenant's kept checkpoints, the newest first: none may contradict the file */
  checkpoints?: readonly string[]
}

/** Verifies a file. Never throws because of its content, which the verdict reports. */
export function verifyProof(file: string, options: VerifyProofOptions = {}): ProofVerdict {
  const verdict: ProofVerdict = { valid: false, entries: [], trusted_key: options.publicKey !== undefined }
  try {
    const proof = readProof(file)
    const given = options.publicKey === undefined ? undefined : [options.publicKey].flat()
    const keys = readKeys(proof, given, verdict)
    const tree = readEntryTree(proof.statement, proof.public_key)
    const { tenant_id, after_id, last_id, created_at } = tree
    Object.assign(verdict, { tenant_id, after_id, last_id, signed_at: created_at, public_key: proof.public_key })
    const entries = proof.entries.map(({ before, entry }) => assertEntry(before, { ...entry, tenant_id }))
    const known = [...proof.entries.map(({ entry, proof }) => ({ ...entry, proof })), ...proof.links]
    for (const leaf of known) assertHeld(leaf, tree)
    const { checkpoints = [] } = options
    if (checkpoints.length > 0) compare(checkpoints, { keys, tenant_id, known, verdict })
    return { ...verdict, entries, valid: true }
  } catch (error) {
    if (error instanceof CheckpointError) return { ...verdict, reason: error.message }
    if (!(error instanceof ExportFault)) throw error
    return { ...verdict, reason: error.reason }
  }
}

/** Reads a file (proof.md 3). The entries have no tenant yet. @throws ExportFault */
function readProof(file: string): Proof {
  const line = file.endsWith('\n') ? file.slice(0, -1) : ''
  const { key_changes = [], ...read } = parse(line, proofSchema, 'the file is not a proof of entries')
  const proof: Proof = {
    ...read,
    key_changes,
    entries: read.entries.map(({ before, entry, proof }) => ({
      before: decodeHex(before),
      entry: { ...entry, tenant_id: '', hash: decodeHex(entry.hash) } as ExportedEntry,
      proof: proof.map(decodeHex),
    })),
    links: read.links.map(({ id, hash, proof }) => ({ id, hash: decodeHex(hash), proof: proof.map(decodeHex) })),
  }
  for (const ids of [proof.entries.map(({ entry }) => entry.id), proof.links.map(({ id }) => id)]) {
    if (ids.some((id, at) => id <= (ids[at - 1] ?? 0)))
      throw new ExportFault('the entries are not in the order of their ids')
  }
  if (writeProof(proof) !== file) throw new ExportFault('the file is not written exactly as the format requires')
  return proof
}

/** Reads the signing key and who vouches for it. Returns the keys that may have signed a checkpoint. */
function readKeys(proof: Proof, given: readonly string[] | undefined, verdict: ProofVerdict): readonly string[] {
  const changes = followKeyChanges(proof.key_changes)
  const keys = listKeys(changes)
  if (keys.length > 0 && keys.at(-1) !== proof.public_key)
    throw new ExportFault('the statements about new signing keys do not lead to the key that signed')
  verdict.trusted_key = given?.includes(proof.public_key) ?? false
  if (!given || verdict.trusted_key) return keys.length > 0 ? keys : [proof.public_key]
  const known = keys.findLastIndex((key) => given.includes(key))
  if (known < 0) throw new ExportFault(`the file names a different public key from the one given${IF_REPLACED}`)
  verdict.key_changes = changes.slice(known)
  return keys
}

function assertEntry(before: Uint8Array, entry: ExportedEntry): ExportedEntry {
  if (!equalBytes(entryHash(before, entry), entry.hash))
    throw new ExportFault(`entry ${entry.id} was altered, or is of another log`)
  if (entry.id === 1 && !equalBytes(before, genesisHash(entry.tenant_id)))
    throw new ExportFault('entry 1 does not begin the log of this tenant')
  return entry
}

function assertHeld({ id, hash, proof }: LinkedEntry, { after_id, last_id, root }: EntryTree): void {
  const where = { root, size: last_id - after_id, index: id - after_id - 1 }
  if (!verifyInclusion({ ...where, leaf: hash, proof }))
    throw new ExportFault(`the signed tree does not hold entry ${id}`)
}

/** Reads the given checkpoint. An error says that the checkpoint, not the proof, is at fault. @throws ExportFault */
function readKept(note: string, keys: readonly string[]): Checkpoint {
  try {
    return readCheckpoint(note, keys)
  } catch (error) {
    if (!(error instanceof CheckpointError)) throw error
    throw new ExportFault(`it cannot be compared with the checkpoint that was given: ${error.message}`)
  }
}

function compare(
  notes: readonly string[],
  found: { keys: readonly string[]; tenant_id: string; known: readonly LinkedEntry[]; verdict: ProofVerdict },
): void {
  const { keys, tenant_id, known, verdict } = found
  const hashes = new Map(known.map(({ id, hash }) => [id, hash]))
  const comparable = notes.filter((note) => hashes.has(findNote(note)?.last_id ?? 0))
  verdict.checkpoint_compared = comparable.length > 0
  for (const note of comparable.length > 0 ? comparable : notes.slice(0, 1)) {
    const kept = readKept(note, keys)
    verdict.checkpoint ??= viewCheckpoint(kept)
    if (kept.tenant_id !== tenant_id) throw new ExportFault('the checkpoint that was given is of another log')
    const hash = hashes.get(kept.last_id)
    if (hash && !equalBytes(hash, kept.hash)) {
      verdict.checkpoint = viewCheckpoint(kept)
      throw new ExportFault(`entry ${kept.last_id} is not the one of the checkpoint: ${ANOTHER_LOG}`)
    }
  }
}
