/** Verifies an export with what was kept apart from it: checkpoints in any form, and what witnesses cosigned. Runs in browsers too. */
import { type Checkpoint, type PublicKeys, readCheckpoint } from '../formats/checkpoint.js'
import { readWitnessKey } from '../formats/cosignature.js'
import { followKeyChanges, type KeyChange, listKeys } from '../formats/key-change.js'
import { CheckpointError } from '../formats/signed-note.js'
import { findWitnessed, type Witnessed } from '../formats/witnessed.js'
import { listComparable } from './exported-anchor.js'
import { assertSameChanges, findKeptNote, groupKeptNotes, listWitnessedLines } from './kept-checkpoint.js'
import { ExportFault, isAnchor, isLinks, readAnchorLine, readHeader, readLinksLine } from './read-export.js'
import { type ExportVerdict, type VerifyExportOptions, verifyExport } from './verify-export.js'

export interface VerifyComparedOptions {
  /** the public key to trust; by default the one in the file */
  publicKey?: string | undefined
  /** checkpoints as `mergeKept` joins them; they need a public key */
  kept?: string | undefined
  /** keys of witnesses that must have cosigned one of these checkpoints */
  witnesses?: readonly string[] | undefined
  onEntry?: VerifyExportOptions['onEntry'] | undefined
  onProgress?: VerifyExportOptions['onProgress'] | undefined
}

export interface ComparedVerdict {
  verdict: ExportVerdict
  witnessed: Witnessed | undefined
}

/** Verifies the lines of an export. @throws CheckpointError if what was kept cannot be compared with it */
export async function verifyCompared(
  lines: AsyncGenerator<string>,
  { publicKey, kept, witnesses, onEntry, onProgress }: VerifyComparedOptions,
): Promise<ComparedVerdict> {
  const beginning = await readBeginning(lines)
  const { changes, comparable, tenant_id } = beginning
  const keys = listKeys(changes)
  // Those of before a change of keys signed checkpoints that were kept.
  const signers = keys.includes(publicKey ?? '') ? keys : (publicKey ?? '')
  if (kept !== undefined) assertSameChanges(kept, changes)
  const witnessed =
    kept === undefined || witnesses === undefined
      ? undefined
      : findWitnessed(listWitnessedLines(kept), {
          publicKey: signers,
          witnesses: witnesses.map(readWitnessKey),
          prefer: comparable && ((checkpoint) => isTold(comparable, checkpoint)),
        })
  const note =
    witnessed?.note ??
    (kept === undefined || tenant_id === undefined
      ? undefined
      : readNote(kept, { tenant_id, publicKey: signers, comparable }))
  const own = kept === undefined ? [] : listOwn(kept, tenant_id)
  const verdict = await verifyExport(joined(beginning, lines), {
    ...(publicKey === undefined ? {} : { publicKey }),
    ...(note === undefined ? {} : { checkpoint: note }),
    ...(own.some((other) => other !== note) ? { checkpoints: own } : {}),
    ...(onEntry === undefined ? {} : { onEntry }),
    ...(onProgress === undefined ? {} : { onProgress }),
  })
  return { verdict, witnessed }
}

/**
 * Whether an export tells of a checkpoint: it has its entry, or was signed after it and of a log that had ended
 * before that entry, which shows that the log went back.
 */
function isTold(
  { ids, head_id, signed_at }: NonNullable<Beginning['comparable']>,
  { last_id, created_at }: Pick<Checkpoint, 'last_id' | 'created_at'>,
): boolean {
  return ids.has(last_id) || (last_id > head_id && created_at <= signed_at)
}

/** All notes of a tenant's log, whichever of them the verdict names: an older one may contradict the log all the same. */
function listOwn(kept: string, tenant_id: string | undefined): string[] {
  const notes = tenant_id === undefined ? [] : (groupKeptNotes(kept).get(tenant_id) ?? [])
  return [...new Set(notes.map(({ checkpoint }) => checkpoint))]
}

/** What the first lines of an export say. */
interface Beginning {
  tenant_id?: string
  /** at which entries of the installation's log it can be compared, if it has an anchor */
  comparable?: ReturnType<typeof listComparable> | undefined
  /** of the keys that signed for the installation (key-change.md 4) */
  changes: KeyChange[]
  /** the lines that were read */
  begun: string[]
  /** what reading more of them failed with, if it did: joined exports may not belong together */
  fault?: unknown
}

/**
 * The tenant of the header and what the anchor can be compared with, as far as the file has them without a
 * fault, which the verdict will report.
 */
async function readBeginning(lines: AsyncGenerator<string>): Promise<Beginning> {
  const found: Beginning = { changes: [], begun: [] }
  const read = async () => {
    const { value, done } = await lines.next().catch((error: unknown) => {
      found.fault = error
      throw error
    })
    if (!done) found.begun.push(value)
    return value ?? ''
  }
  try {
    const { tenant_id, key_changes } = readHeader(await read())
    found.tenant_id = tenant_id
    found.changes = followKeyChanges(key_changes)
    const line = await read()
    if (!isAnchor(line)) return found
    const anchor = readAnchorLine(line)
    found.comparable = listComparable(anchor, undefined)
    const next = await read()
    if (isLinks(next)) found.comparable = listComparable(anchor, readLinksLine(next))
  } catch (error) {
    if (!(error instanceof ExportFault) && !(error instanceof CheckpointError)) throw error
  }
  return found
}

/** All lines again; fails where reading the first ones did, after which the rest has none. */
async function* joined({ begun, fault }: Beginning, rest: AsyncGenerator<string>): AsyncGenerator<string> {
  yield* begun
  if (fault !== undefined) throw fault
  yield* rest
}

// An error of the checkpoint itself is reported as such, not as a fault of the export.
function readNote(
  kept: string,
  { tenant_id, publicKey, comparable }: { tenant_id: string; publicKey: PublicKeys } & Pick<Beginning, 'comparable'>,
): string {
  // One of a later entry than the log's last one counts: it shows that the log went back.
  const isComparable = (id: number) => comparable !== undefined && (comparable.ids.has(id) || id > comparable.head_id)
  const note = findKeptNote(kept, tenant_id, isComparable)
  readCheckpoint(note, publicKey)
  return note
}
