// Asks witnesses to cosign the tree of the installation's log (tree.md). Each answer covers earlier missing ones.
import { consistencyProof, type HashedLeaves, keepTree, signTree } from '@eaas/audit/formats'
import { INSTALLATION_ID } from '@eaas/protocol'
import type { Head } from '../../core/audit/formats/chain.js'
import type { Services } from '../../core/runner/operation.js'
import { findHead } from '../../core/store/audit.js'
import { createTreeReader } from '../operations/proven-tree.js'
import { createLineWriter, signHead } from './emit-checkpoints.js'
import { askWitness, type KnownWitness } from './witness-client.js'

const MOST_ATTEMPTS = 3 // with the known size, then with the size in the 409, and once more if another server was faster
/** In milliseconds, how long one request to a witness may take; less while the server stops. */
export const WITNESS_TIMEOUT_MS = 10_000
const LAST_TIMEOUT_MS = 1_500

export interface WitnessOutcome {
  witness: string // the name of the witness's key
  /** `contradicted`: it cosigned a tree that this log does not continue; `overtaken`: it cosigned another server's newer tree */
  kind: 'cosigned' | 'contradicted' | 'overtaken' | 'failed'
  detail: string // one sentence; for `cosigned`, the entry
  line?: string // the line of the cosignature
}

interface AskingOptions {
  witnesses: readonly KnownWitness[]
  sizes: Map<string, number> // by witness, the size that it last cosigned as far as this process knows; updated by each call
  readTree?: ReturnType<typeof createTreeReader> // proves the tree before it is signed; by default a new reader
  timeoutMs: number
  signal?: AbortSignal | undefined // aborted when the server stops: unanswered requests are given up
}

/** Asks all at once. @throws if the server did not write the head, or the entries do not lead to it or state other signing keys */
export async function askWitnesses(
  { sql, signingKey, installationKey }: Pick<Services, 'sql' | 'signingKey' | 'installationKey'>,
  head: Head,
  { witnesses, sizes, readTree = createTreeReader(), ...limits }: AskingOptions,
): Promise<{ outcomes: WitnessOutcome[]; note: string; hashes: HashedLeaves }> {
  const { publicKeys } = signingKey
  const hashes = await readTree(sql, head, { auditKey: installationKey, publicKeys, signal: limits.signal })
  const note = signTree(signingKey, hashes, publicKeys[0])
  const outcomes = await Promise.all(
    witnesses.map(async (witness) => {
      const { key } = witness
      const { size, ...outcome } = await askUntilAnswered(witness, {
        offer: (old) => ({ note, proof: consistencyProof(hashes, old), size: hashes.length }),
        old: Math.min(sizes.get(key.name) ?? 0, hashes.length),
        length: hashes.length,
        findLastId: () => findLastId(sql),
        ...limits,
      })
      if (size !== undefined) sizes.set(key.name, size)
      return { witness: key.name, ...outcome }
    }),
  )
  return { outcomes, note, hashes }
}

/** Offers no tree larger than the last cosigned one, so that a copy of the database never gets its own entries cosigned. */
export async function compareWithWitnesses(
  { sql, signingKey, installationKey }: Pick<Services, 'sql' | 'signingKey' | 'installationKey'>,
  head: Head,
  { witnesses, timeoutMs }: Pick<AskingOptions, 'witnesses' | 'timeoutMs'>,
): Promise<WitnessOutcome[]> {
  const { publicKeys } = signingKey
  const hashes = await createTreeReader()(sql, head, { auditKey: installationKey, publicKeys })
  return Promise.all(
    witnesses.map(async (witness) => {
      const { size: _, ...outcome } = await askUntilAnswered(witness, {
        offer: (size) => ({ note: signTree(signingKey, { ...hashes, length: size }, publicKeys[0]), proof: [], size }),
        old: 1, // every copy has this entry; the witness answers with the size that it has
        length: hashes.length,
        findLastId: () => findLastId(sql),
        timeoutMs,
      })
      return { witness: witness.key.name, ...outcome }
    }),
  )
}

/** Creates the round that follows each checkpoint; undefined if there are no witnesses. */
export function createWitnessRound(
  services: Services,
  { witnesses, file }: { witnesses: readonly KnownWitness[]; file: string | undefined },
): (run: { isLast: boolean; signal?: AbortSignal | undefined }) => Promise<WitnessOutcome[] | undefined> {
  const sizes = new Map<string, number>()
  const readTree = createTreeReader()
  const write = file === undefined ? undefined : createLineWriter(file)
  let written = ''
  return async ({ isLast, signal }) => {
    if (witnesses.length === 0) return undefined
    const current = { ...services, signingKey: services.signingKey.current() }
    const { line, head } = await signHead(current, INSTALLATION_ID)
    const timeoutMs = isLast ? LAST_TIMEOUT_MS : WITNESS_TIMEOUT_MS
    const options = { witnesses, sizes, readTree, timeoutMs, signal }
    const { outcomes, note, hashes } = await askWitnesses(current, head, options)
    const cosigned = outcomes.filter(({ kind }) => kind === 'cosigned')
    // An unchanged log is cosigned again, which shows that it is current, but the line is not written again.
    const state = [head.last_id, ...cosigned.map(({ witness }) => witness)].join(' ')
    if (write && cosigned.length > 0 && state !== written) {
      const tree = keepTree(note + cosigned.map(({ line = '' }) => line).join(''), hashes)
      await write({ ...line, tree })
      written = state
    }
    return outcomes
  }
}

async function findLastId(sql: Services['sql']): Promise<number> {
  return (await findHead(sql, INSTALLATION_ID))?.last_id ?? 0
}

interface Asking extends Pick<AskingOptions, 'timeoutMs' | 'signal'> {
  offer: (old: number) => { note: string; proof: Uint8Array[]; size: number }
  old: number
  length: number // the number of entries in the log
  findLastId: () => Promise<number> // the present end of the log
}

async function askUntilAnswered(
  witness: KnownWitness,
  { offer, old, length, findLastId, ...limits }: Asking,
): Promise<Omit<WitnessOutcome, 'witness'> & { size?: number }> {
  for (let attempt = 1; attempt <= MOST_ATTEMPTS; attempt++) {
    const { size, ...tree } = offer(old)
    if (size === 0)
      return {
        kind: 'failed',
        detail: 'it has cosigned nothing of this log yet: start a server with it in EAAS_WITNESSES',
      }
    const answer = await askWitness(witness, { old, ...tree }, limits)
    if (answer.kind === 'cosigned') return { kind: 'cosigned', detail: `entry ${size}`, line: answer.line, size }
    if (answer.kind === 'failed') return answer
    if (answer.kind === 'inconsistent') return { kind: 'contradicted', detail: contradiction(old) }
    if (answer.size === old && old === size) return { kind: 'contradicted', detail: contradiction(old) }
    if (answer.size === old) return { kind: 'failed', detail: `it answered 409 with the size ${old} that it was sent` }
    if (answer.size > length) {
      const lastId = await findLastId()
      if (lastId >= answer.size) return { kind: 'overtaken', detail: `entry ${answer.size}`, size: answer.size }
      return {
        kind: 'contradicted',
        detail: `it cosigned entry ${answer.size} of the installation's log, which ends with entry ${lastId}`,
      }
    }
    old = answer.size
  }
  return { kind: 'failed', detail: 'it answered each request with another size' }
}

function contradiction(size: number): string {
  return `it cosigned the installation's log through entry ${size}, of which this log is no continuation`
}
