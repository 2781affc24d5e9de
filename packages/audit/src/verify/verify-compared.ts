/** Verifies an export against checkpoints and cosignatures that were kept apart from it. Also runs in browsers. */
import { INSTALLATION_ID } from '@eaas/protocol'
import { type Checkpoint, type PublicKeys, parseCheckpoint, readCheckpoint } from '../formats/checkpoint.js'
import { readWitnessKey } from '../formats/cosignature.js'
import { followKeyChanges, type KeyChange, listKeys, readInstallation } from '../formats/key-change.js'
import { CheckpointError, OtherSignerError } from '../formats/signed-note.js'
import { findWitnessed, type Witnessed } from '../formats/witnessed.js'
import { OTHER_SIGNER } from './compare-checkpoints.js'
import { findEnd } from './exported-anchor.js'
import { assertSameChanges, type Kept, listWitnessedLines, namedOf, notesOf } from './kept-checkpoint.js'
import { ExportFault, isAnchor, readAnchorLine, readHeader } from './read-export.js'
import { type ExportVerdict, type VerifyExportOptions, verifyExport } from './verify-export.js'

export interface VerifyComparedOptions extends Pick<VerifyExportOptions, 'tree' | 'onEntry' | 'onProgress'> {
  /** the public key to trust; by default the one in the file */
  publicKey?: string | undefined
  /** checkpoints; only with a public key */
  kept?: Kept | undefined
  /** keys of witnesses that must all have cosigned one of these checkpoints */
  witnesses?: readonly string[] | undefined
}

export type ComparedVerdict = { verdict: ExportVerdict; witnessed: Witnessed | undefined }

/** Verifies the lines of an export. @throws CheckpointError if what was kept cannot be compared with it */
export async function verifyCompared(
  lines: AsyncGenerator<string>,
  { publicKey, kept, witnesses, ...calls }: VerifyComparedOptions,
): Promise<ComparedVerdict> {
  const beginning = await readBeginning(lines)
  const { changes, tenant_id } = beginning
  const keys = listKeys(changes)
  // Anybody can write 10,000 keys into a file, and each would be tried for every checkpoint: only the list of a key that may sign counts.
  const isBySigner = beginning.installation.at(-1) === (keys.at(-1) ?? publicKey)
  const installation = isBySigner ? beginning.installation : []
  // Keys before a key change may have signed kept checkpoints.
  const signers = keys.includes(publicKey ?? '') ? keys : (publicKey ?? '')
  const installationKeys = installation.length > 0 ? installation : signers
  const own = installation.slice(1).map((to, at) => ({ from: installation[at] ?? '', to }))
  // A move to another installation does not replace the key: the former installation keeps it.
  if (kept !== undefined) assertSameChanges(kept, installation.length > 0 ? own : changes)
  const witnessed =
    kept === undefined || witnesses === undefined || tenant_id === undefined
      ? undefined
      : findWitnessed(listWitnessedLines(kept), {
          publicKey: assertStated(installation),
          witnesses: witnesses.map(readWitnessKey),
          prefer: (checkpoint) => !isLater(checkpoint, beginning),
        })
  const notes = kept === undefined || tenant_id === undefined ? [] : notesOf(kept, [tenant_id, INSTALLATION_ID])
  const named = witnessed?.note ?? namedOf(notes, { tenant_id: tenant_id ?? '', signers: installationKeys })?.note
  // A fault of the checkpoint is reported as such, not as one of the export.
  if (named !== undefined)
    assertKnown(named, parseCheckpoint(named).tenant_id === INSTALLATION_ID ? installationKeys : signers)
  const verdict = await verifyExport(joined(beginning, lines), {
    publicKey,
    checkpoint: named,
    checkpoints: named === undefined ? [] : notes.map(({ note }) => note),
    treeProof: witnessed?.proof,
    ...calls,
  })
  return { verdict, witnessed }
}

/** @throws CheckpointError */
function assertKnown(note: string, signers: PublicKeys): void {
  try {
    readCheckpoint(note, signers)
  } catch (error) {
    if (!(error instanceof OtherSignerError)) throw error
    throw new CheckpointError(
      `${error.message} than those that the export states, at ${parseCheckpoint(note).created_at}. ${OTHER_SIGNER}`,
    )
  }
}

/** A witness cosigns a tree, and only these keys give its name (tree.md 2). @throws CheckpointError */
function assertStated(installation: readonly string[]): readonly string[] {
  if (installation.length > 0) return installation
  throw new CheckpointError(
    'the export does not state the keys of its installation, so it cannot be compared with what witnesses cosigned: have it made by eaas audit export',
  )
}

/** Whether a checkpoint of the installation's log is later than an export: signed after it, for an entry after its end. */
function isLater({ last_id, created_at }: Checkpoint, { end }: Beginning): boolean {
  return end !== undefined && last_id > end.head_id && created_at > end.created_at
}

interface Beginning {
  tenant_id?: string
  /** where and when the installation's log ended, if it has an anchor */
  end?: ReturnType<typeof findEnd>
  /** changes of the keys that signed the log (key-change.md 4) */
  changes: KeyChange[]
  /** the installation's keys, oldest first; none if the file does not state them */
  installation: readonly string[]
  begun: string[]
  /** the error of reading more lines, if any: joined exports may not belong together */
  fault?: unknown
}

/** Reads the header and the anchor, up to the first fault, which the verdict will report. */
async function readBeginning(lines: AsyncGenerator<string>): Promise<Beginning> {
  const found: Beginning = { changes: [], installation: [], begun: [] }
  const read = async () => {
    const { value, done } = await lines.next().catch((error: unknown) => {
      found.fault = error
      throw error
    })
    if (!done) found.begun.push(value)
    return value ?? ''
  }
  try {
    const { tenant_id, key_changes, installation } = readHeader(await read())
    found.changes = followKeyChanges(key_changes)
    found.installation = installation === undefined ? [] : readInstallation(installation)
    found.tenant_id = tenant_id
    const line = await read()
    if (isAnchor(line)) found.end = findEnd(readAnchorLine(line))
  } catch (error) {
    if (!(error instanceof ExportFault) && !(error instanceof CheckpointError)) throw error
  }
  return found
}

/** Yields all lines again, including those already read; throws where reading them threw, since nothing follows. */
async function* joined({ begun, fault }: Beginning, rest: AsyncGenerator<string>): AsyncGenerator<string> {
  yield* begun
  if (fault !== undefined) throw fault
  yield* rest
}
