/** Reads a file of checkpoints: where each log ended, and which lines are not as a server wrote them. */
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import {
  type Checkpoint,
  findKeyChange,
  isSignedCheckpoint,
  type KeptTree,
  NO_LINE,
  type PublicKeys,
  parseCheckpoint,
  splitLines,
} from '@eaas/audit/formats'
import { readJson } from '@eaas/protocol'
import {
  type AuditKey,
  equalBytes,
  isKeptHeadAuthentic,
  type KeptHead,
  nextPolicyEpoch,
} from '../../core/audit/formats/chain.js'

/** The policy version puts checkpoints from before and after a rollback in order. */
export interface KeptLine {
  tenant_id: string
  policy_version: number
  /** the signed head's; the MAC (base64) proves the policy version to a process with the audit key */
  head?: { created_at: string; mac: string }
  checkpoint: string
  public_key: string
  key_change?: string // the statement that this key replaced another one (key-change.md 4)
  tree?: KeptTree // of the installation's log, once witnesses have cosigned it (tree.md 5)
}

export type LineFault = { line: number; what: string }

export interface KeptFile {
  /** the latest signed head of each tenant; if it has no MAC, also the latest earlier one that has */
  witnesses: Map<string, KeptHead & { line: number }>
  // the head in a tenant's last line, if it differs from the latest and is not later: a command may have written a line
  // of a fork, and then a server one of the true log
  others: (KeptHead & { tenant_id: string; line: number })[]
  lines: number // without remnants; 0 after a quick reading, as are `remnants`
  remnants: number // lines that a crash or a full disk cut short, which prove nothing and are no fault
  faults: LineFault[] // in the order of the file, MOST_FAULTS at most; none after a quick reading
}

export const STANDARD_OUTPUT = '-'
/** At the end of the file, and beside each tenant's latest line: checking all signatures would take too long. */
const CHECKED_SIGNATURES = 2_000
const MOST_FAULTS = 100
const MOST_NAMED = 5

const CUT = 'cut short, not UTF-8 or too long'
const NO_FORM = 'not the line of a checkpoint'
const INCOMPLETE = 'it lacks policy_version or public_key'
const FOREIGN_KEY = 'of another signing key'
const FORGED = 'its signature does not verify'
const CONTRADICTS = 'it contradicts the previous line of the same tenant'

interface ReadingOptions {
  isThorough: boolean // report the lines that are not as a server wrote them
  /** the audit keys of these tenants that exist in the database and open */
  findAuditKeys: (tenants: readonly string[]) => Promise<ReadonlyMap<string, AuditKey>>
}

/**
 * A line proves nothing unless it is a checkpoint signed by these keys or their successors: a crash may have truncated
 * it, and an attacker who can write a forged line could also have deleted one. A thorough reading reports such lines. A
 * missing file, a pipe and a terminal count as empty.
 */
export async function readKeptFile(
  file: string,
  ownKeys: PublicKeys,
  { isThorough, findAuditKeys }: ReadingOptions,
): Promise<KeptFile> {
  const text = await openText(file)
  const publicKey = await addSuccessors(text, [ownKeys].flat())
  const judge = isThorough ? createJudge(publicKey) : undefined
  const epochs = new Map<string, Set<number>>()
  const claimed = await findSigned(text, publicKey, { judge, epochs })
  const disputed = [...claimed.signed.keys()].filter((tenant_id) => (epochs.get(tenant_id)?.size ?? 0) > 1)
  // An accepted rollback begins an epoch. So does an attacker who appends an old line with a higher policy version.
  const opened = disputed.length === 0 ? undefined : await findAuditKeys(disputed)
  const weigh = { keys: opened && new Map(disputed.map((tenant_id) => [tenant_id, opened.get(tenant_id)])) }
  const { signed, besides, isGood } = weigh.keys ? await findSigned(text, publicKey, weigh) : claimed
  const isSealed = [...signed.values()].every(isProven)
  const isGoodAndProven = (line: Parsed) => isProven(line) && isGood(line)
  const sealed = isSealed ? signed : (await findLatest(text, publicKey, { ...weigh, isGood: isGoodAndProven })).latest
  const witnesses = new Map(
    [...signed].map(([tenant_id, line]) => {
      const before = isProven(line) ? undefined : sealed.get(tenant_id)
      return [tenant_id, { ...headOf(line), sealed: before && headOf(before), line: line.number }]
    }),
  )
  const others = [...besides].map(([tenant_id, line]) => ({ tenant_id, ...headOf(line), line: line.number }))
  return { witnesses, others, ...(judge?.verdict() ?? { lines: 0, remnants: 0, faults: [] }) }
}

// By the statements in the file, since a database that was rolled back to before a replacement lacks the new key.
async function addSuccessors(text: Text, ownKeys: readonly string[]): Promise<string[]> {
  const keys = new Set(ownKeys)
  let last = ''
  for await (const line of text()) {
    if (!line.includes('"key_change":')) continue
    const note = findMember(line, 'key_change')
    if (note === undefined || note === last) continue
    last = note
    addSuccessor(keys, note)
  }
  return [...keys]
}

export function addSuccessor(keys: Set<string>, note: string): void {
  const change = findKeyChange(note)
  if (change && keys.has(change.from)) keys.add(change.to)
}

function findMember(text: string, name: keyof KeptLine): string | undefined {
  const value: unknown = Object(readJson(text))[name]
  return typeof value === 'string' ? value : undefined
}

export async function holdsCheckpoints(file: string): Promise<boolean> {
  const text = await openText(file)
  for await (const line of text()) if (parseLine(line, 0)) return true
  return false
}

export const FAULTS_ADVICE =
  'Somebody edited the file, or the server does not use the database that it used before. Keep a copy of the file, and compare the logs with ' +
  'checkpoints that are kept elsewhere (eaas audit verify --checkpoint). The page "Keep checkpoints" says when to remove the lines'

export function nameFaults(faults: readonly LineFault[]): string {
  const named = faults.slice(0, MOST_NAMED).map(({ line, what }) => `line ${line}: ${what}`)
  return [...named, ...(faults.length > MOST_NAMED ? ['and more'] : [])].join('; ')
}

interface Judge {
  /** called with each line in turn; `line` is undefined if the text does not have the form of a line */
  see(line: Parsed | undefined, text: string): void
  condemn(line: Parsed | undefined): void
  verdict(): Pick<KeptFile, 'lines' | 'remnants' | 'faults'>
}

function createJudge(publicKey: PublicKeys): Judge {
  const found = new Map<number, string>()
  const before = new Map<string, Parsed>()
  const last: Parsed[] = []
  let lines = 0
  let remnants = 0
  const note = (line: number, what: string) => {
    if (found.size < MOST_FAULTS) found.set(line, what)
  }
  const condemn = (line: Parsed | undefined) => {
    if (line && !found.has(line.number)) note(line.number, FORGED)
  }
  return {
    condemn,
    see(line, text) {
      lines += 1
      if (!line) {
        if (isRemnant(text)) remnants += 1
        else note(lines, text === NO_LINE ? CUT : NO_FORM)
        return
      }
      if (!line.isComplete) note(line.number, INCOMPLETE)
      else if (![publicKey].flat().includes(String(line.public_key))) note(line.number, FOREIGN_KEY)
      const { tenant_id } = line.statement
      if (contradicts(line, before.get(tenant_id))) note(line.number, CONTRADICTS)
      before.set(tenant_id, line)
      last[lines % CHECKED_SIGNATURES] = line
    },
    verdict() {
      for (const line of last) if (line && !isSigned(line, publicKey)) condemn(line)
      const faults = [...found].map(([line, what]) => ({ line, what })).sort((a, b) => a.line - b.line)
      return { lines: lines - remnants, remnants, faults }
    },
  }
}

const HEAD = /^\{"tenant_id":"[0-9a-f-]{36}","policy_version":\d+,"checkpoint":"/
const A_HEAD = '{"tenant_id":"00000000-0000-4000-8000-000000000000","policy_version":1,"checkpoint":"'

// A remnant hides no attack: an attacker who can truncate a line of the file can also remove it.
function isRemnant(text: string): boolean {
  if (text === '' || readJson(text) !== undefined) return false
  return HEAD.test(text) || Array.from(A_HEAD, (_, at) => A_HEAD.slice(at)).some((rest) => HEAD.test(text + rest))
}

// Between two accepted rollbacks, ids and policy versions rise together. Several processes may write one file, so a
// line may follow one of a longer log. Without the MAC of a head, the policy version is only a lower bound.
function contradicts(line: Parsed, other: Parsed | undefined): boolean {
  if (!other || line.epoch !== other.epoch) return false
  const entries = line.statement.last_id - other.statement.last_id
  const changes = isProven(line) && isProven(other) ? line.policy_version - other.policy_version : 0
  if (entries === 0) return changes !== 0 || !equalBytes(line.statement.hash, other.statement.hash)
  return changes !== 0 && entries > 0 !== changes > 0
}

/** Whether the MAC of a head covers a policy version. */
function isProven({ policy_version, sealed }: Parsed): boolean {
  return policy_version > 0 && sealed.mac !== undefined
}

function headOf({ statement: { last_id, hash }, policy_version, sealed }: Parsed): KeptHead {
  return { last_id, hash, policy_version, ...sealed }
}

interface Search {
  isGood?: (line: Parsed) => boolean
  judge?: Judge | undefined
  epochs?: Map<string, Set<number>> // receives the epochs that each tenant's lines claim
  /** of tenants whose lines are weighed, not believed; undefined if the key does not open */
  keys?: ReadonlyMap<string, AuditKey | undefined> | undefined
}

interface Latest {
  latest: Map<string, Parsed> // each tenant's latest good line
  /** of the later signed lines with a MAC but no later entry, the one of the latest entry */
  besides: Map<string, Parsed>
}

async function findSigned(text: Text, publicKey: PublicKeys, { judge, ...search }: Search) {
  const claimed = await findLatest(text, publicKey, { judge, ...search })
  const forged = new Set([...claimed.latest].filter(([, line]) => !isSigned(line, publicKey)).map(([id]) => id))
  for (const id of forged) judge?.condemn(claimed.latest.get(id))
  // Only the latest line of each tenant must be verified, unless it is forged.
  const isGood = (line: Parsed) => !forged.has(line.statement.tenant_id) || isSigned(line, publicKey)
  const found = forged.size === 0 ? claimed : await findLatest(text, publicKey, { ...search, isGood })
  return { signed: found.latest, besides: found.besides, isGood }
}

async function findLatest(
  text: Text,
  publicKey: PublicKeys,
  { isGood = () => true, judge, epochs, keys = new Map() }: Search,
): Promise<Latest> {
  const [latest, besides] = [new Map<string, Parsed>(), new Map<string, Parsed>()]
  const weigh = createScales(keys)
  let number = 0
  for await (const line of text()) {
    number += 1
    const read = parseLine(line, number)
    judge?.see(read, line)
    if (!read) continue
    const weighed = weigh(read)
    const { tenant_id } = read.statement
    if (epochs) epochs.set(tenant_id, (epochs.get(tenant_id) ?? new Set()).add(weighed.epoch))
    const [before, other] = [latest.get(tenant_id), besides.get(tenant_id)]
    if (isLater(weighed, before) && isGood(weighed)) {
      latest.set(tenant_id, weighed)
      besides.delete(tenant_id)
    } else if (
      isProven(weighed) &&
      isBesides(weighed, before) &&
      isLater(weighed, other) &&
      isSigned(read, publicKey)
    ) {
      besides.set(tenant_id, weighed)
    }
  }
  return { latest, besides }
}

// chain.md 10: without a valid MAC, no line is of a later epoch than the lines before it that have one.
function createScales(keys: ReadonlyMap<string, AuditKey | undefined>): (line: Parsed) => Parsed {
  const proven = new Map<string, number>()
  return (line) => {
    const { tenant_id } = line.statement
    if (!keys.has(tenant_id)) return line
    const key = keys.get(tenant_id)
    const known = proven.get(tenant_id) ?? nextPolicyEpoch(0)
    if (!key) return { ...line, epoch: known } // once the key opens, the MAC proves the version
    if (!isKeptHeadAuthentic(key, tenant_id, headOf(line))) {
      return { ...line, sealed: {}, epoch: Math.min(line.epoch, known) }
    }
    proven.set(tenant_id, Math.max(line.epoch, known))
    return line
  }
}

/** The file as of its opening, from its beginning at each call. */
type Text = () => AsyncGenerator<string>

// Lines that are appended between two passes must not be read by only one of them.
async function openText(file: string): Promise<Text> {
  const found =
    file === STANDARD_OUTPUT
      ? undefined
      : await stat(file).catch((error: NodeJS.ErrnoException) => {
          if (error.code !== 'ENOENT') throw error
        })
  return async function* () {
    if (found?.isFile() && found.size > 0) yield* splitLines(endLine(createReadStream(file, { end: found.size - 1 })))
  }
}

const LINE_FEED = 0x0a

// A crash or a full disk may have truncated the last line, which is read like the others.
async function* endLine(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let end: number | undefined
  for await (const chunk of chunks) {
    end = chunk.at(-1)
    yield chunk
  }
  if (end !== LINE_FEED) yield Uint8Array.of(LINE_FEED)
}

interface Parsed {
  number: number
  statement: Checkpoint
  policy_version: number
  epoch: number // the side of accepted rollbacks on which the line is; as claimed, unless it was weighed
  sealed: Pick<KeptHead, 'created_at' | 'mac'>
  checkpoint: string
  public_key: unknown
  isComplete: boolean // whether it has every member of a line
}

function parseLine(text: string, number: number): Parsed | undefined {
  if (!text.startsWith('{')) return undefined
  try {
    const members = JSON.parse(text) as Partial<Record<keyof KeptLine, unknown>>
    const { tenant_id, policy_version = 0, checkpoint, public_key } = members
    if (typeof checkpoint !== 'string' || typeof policy_version !== 'number') return undefined
    if (!Number.isSafeInteger(policy_version) || policy_version < 0) return undefined
    const statement = parseCheckpoint(checkpoint)
    if (statement.tenant_id !== tenant_id) return undefined
    const isComplete = members.policy_version !== undefined && typeof public_key === 'string'
    const sealed = readSealed(members.head)
    const epoch = nextPolicyEpoch(policy_version)
    return { number, statement, policy_version, epoch, sealed, checkpoint, public_key, isComplete }
  } catch {
    return undefined
  }
}

/** Authenticates nothing if any part is malformed. */
export function readSealed(head: unknown): Pick<KeptHead, 'created_at' | 'mac'> {
  const { created_at, mac } = (head ?? {}) as Partial<Record<string, unknown>>
  return typeof created_at === 'string' && typeof mac === 'string'
    ? { created_at, mac: Buffer.from(mac, 'base64') }
    : {}
}

// The id is signed; the policy version is not, so it only decides the epoch.
function isLater(line: Parsed, than: Parsed | undefined): boolean {
  if (!than) return true
  if (line.epoch !== than.epoch) return line.epoch > than.epoch
  return line.statement.last_id > than.statement.last_id
}

// A line from before an accepted rollback shows no loss.
function isBesides(line: Parsed, latest: Parsed | undefined): boolean {
  if (!latest || line.epoch !== latest.epoch) return false
  const [{ last_id, hash }, { statement }] = [line.statement, latest]
  return last_id < statement.last_id || (last_id === statement.last_id && !equalBytes(hash, statement.hash))
}

function isSigned({ checkpoint }: Parsed, publicKey: PublicKeys): boolean {
  return isSignedCheckpoint(checkpoint, publicKey)
}
