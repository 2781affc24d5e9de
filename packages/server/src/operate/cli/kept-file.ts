/** The file of checkpoints with which a log in the database is compared, and the server's own file. */
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import * as audit from '@eaas/audit'
import { findWitnessedNote, readAs, readGiven } from '@eaas/audit/command'
import { counted, encodeHex, INSTALLATION_ID } from '@eaas/protocol'
import { LATER_KEY } from '../../core/audit/append-errors.js'
import type { KeptHead } from '../../core/audit/formats/chain.js'
import { listSignersOf } from '../../core/runner/installation-key.js'
import type { Services } from '../../core/runner/operation.js'
import { addSuccessor, readSealed, STANDARD_OUTPUT } from '../../guard/watch/kept-witnesses.js'

export interface Kept {
  all?: KeptCheckpoints // those of every log
  note?: string
  signers?: audit.PublicKeys // the keys that may have signed it
  witnessed?: audit.Witnessed // the cosignatures of the required witnesses
}

/** Reads what a log in the database is verified against; nothing if no file was given. @throws CheckpointError */
export async function readKept(
  services: SignerServices,
  tenant_id: string,
  { checkpoint, witness }: { checkpoint?: string | undefined; witness?: string[] | undefined },
): Promise<Kept> {
  if (checkpoint === undefined) return {}
  const publicKeys = await listSignersOf(services, tenant_id)
  return readAs(checkpoint, (kept) => {
    const all = keptCheckpoints(services, checkpoint, kept)
    if (witness === undefined) {
      const [{ note }] = audit.notesOf(kept, [tenant_id])
      return { all, note, signers: signersOf(publicKeys, kept) }
    }
    const witnessed = findWitnessedNote(kept, { publicKey: publicKeys, witness })
    return { all, note: witnessed.note, witnessed }
  })
}

export interface KeptCheckpoints {
  logs: ReadonlySet<string> // those of which it has checkpoints, signed or not
  // The heads of a log's signed checkpoints, the newest first, since a truncated or forged line proves nothing. No
  // signature covers the policy version, which is 0 if the line has none.
  of(tenant_id: string): Promise<KeptHead[]>
  faultOf(tenant_id: string): string
}

type SignerServices = Pick<Services, 'sql' | 'signingKey'>

/** Reads a file of checkpoints of any logs. @throws CheckpointError if it is an export, CommandError */
export async function readKeptCheckpoints(services: SignerServices, file: string): Promise<KeptCheckpoints> {
  return keptCheckpoints(services, file, audit.parseKept(await readGiven(file)))
}

export function keptCheckpoints(services: SignerServices, file: string, kept: audit.Kept): KeptCheckpoints {
  const { notes } = kept
  const groups = groupByLog(notes)
  return {
    logs: new Set(groups.keys()),
    async of(tenant_id) {
      const group = groups.get(tenant_id)
      if (!group) return []
      const signers = signersOf(await listSignersOf(services, tenant_id), kept)
      return group.flatMap((note) => readSigned(note, signers))
    },
    faultOf(tenant_id) {
      const contents = groups.has(tenant_id)
        ? `checkpoints of it that this installation's key did not sign. ${LATER_KEY}`
        : audit.describeKept(notes)
      const log = tenant_id === INSTALLATION_ID ? "the installation's log" : "this tenant's log"
      return `${file} must have a checkpoint of ${log}, but has ${contents}`
    },
  }
}

/** The installation's keys, and their successors according to the statements in a file (key-change.md 4). */
function signersOf(publicKeys: readonly string[], { changes }: audit.Kept): audit.PublicKeys {
  const keys = new Set<string>(publicKeys)
  for (const note of new Set(changes)) addSuccessor(keys, note)
  return [...keys]
}

function groupByLog(notes: readonly audit.KeptNote[]): Map<string, audit.KeptNote[]> {
  const groups = new Map<string, audit.KeptNote[]>()
  for (const note of notes) {
    const group = groups.get(note.tenant_id)
    if (group) group.push(note)
    else groups.set(note.tenant_id, [note])
  }
  return groups
}

function readSigned({ note, policy_version, head }: audit.KeptNote, publicKey: audit.PublicKeys): KeptHead[] {
  try {
    const { last_id, hash } = audit.readCheckpoint(note, publicKey)
    const policy = { policy_version: typeof policy_version === 'number' ? policy_version : 0 }
    return [{ last_id, hash, ...policy, ...readSealed(head) }]
  } catch (error) {
    if (error instanceof audit.CheckpointError) return []
    throw error
  }
}

// Entries of the installation's log that the last lines of a server's file name; none if the file does not exist or
// this user may not read it. Reports that, and lines that no server wrote, on standard error.
export async function readOwnIds(file: string | undefined): Promise<number[]> {
  const ids = new audit.KeptIds()
  if (file === undefined || file === STANDARD_OUTPUT || !(await isFile(file))) return []
  let unread = 0
  try {
    for await (const line of audit.splitLines(createReadStream(file))) {
      const notes = findNotes(line)
      if (notes) ids.add(notes)
      else unread += 1
    }
    if (unread > 0)
      process.stderr.write(`eaas: ${file} has ${counted(unread, 'line')} that no server wrote; see eaas doctor\n`)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'EACCES' && code !== 'EPERM') throw error
    process.stderr.write(`eaas: this user may not read ${file}, so the export links none of its checkpoints\n`)
  }
  return ids.all()
}

// Otherwise anybody who may append a line to the file could prevent every export.
function findNotes(line: string): audit.KeptNote[] | undefined {
  try {
    return audit.parseKept(line).notes
  } catch (error) {
    if (error instanceof audit.CheckpointError) return undefined
    throw error
  }
}

async function isFile(path: string): Promise<boolean> {
  const found = await stat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
  })
  return found?.isFile() === true
}

/** With this many proofs, of 2 KB in a tree of 2^26 entries, a line stays below 16 MiB (export.md 1). */
const MOST_LINKED = 8_192

/**
 * Reads which entries of the installation's log a file of checkpoints names. @throws CheckpointError if none, or if none
 * of the checkpoints was signed here: the logs of all installations have the same id
 */
export async function readGivenIds({ signingKey }: Pick<Services, 'signingKey'>, file: string): Promise<number[]> {
  return readAs(file, ({ notes }) => {
    const shared = notes.filter(({ tenant_id }) => tenant_id === INSTALLATION_ID)
    const [signature] = shared.slice(0, 1).flatMap(({ note }) => audit.splitNote(note).signatures)
    if (!signature)
      throw new audit.CheckpointError(
        `it must have a checkpoint of the installation's log, but has ${audit.describeKept(notes)}`,
      )
    if (!shared.some(({ note }) => audit.isSignedCheckpoint(note, signingKey.publicKeys)))
      throw new audit.CheckpointError(
        `no key of this installation signed a checkpoint of an installation's log in it, and the newest names the key eaas-audit+${encodeHex(signature.id)}: give one that eaas audit checkpoint --installation printed here`,
      )
    const ids = new audit.KeptIds(MOST_LINKED)
    ids.add(shared.toReversed())
    return ids.all()
  })
}

export function viewKept(note: string | undefined): audit.KeptStatement | undefined {
  return note === undefined ? undefined : audit.viewCheckpoint(audit.parseCheckpoint(note))
}
