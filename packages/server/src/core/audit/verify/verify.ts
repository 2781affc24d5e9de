/**
 * Verifies a chain in the database, from its beginning or the last purge to the head at the start of the verification,
 * and the rows that grant rights. Reads in pages, so that memory stays flat and other calls run in between. A server
 * verifies in a thread with connections of its own.
 */
import {
  type ChainedEntry,
  type Checkpoint,
  createRightsHistory,
  entryHash,
  genesisHash,
  hasTimeGoneBack,
  type RightsFault,
} from '@eaas/audit/formats'
import { encodeHex, type wire } from '@eaas/protocol'
import { deriveRowKey, type StoreKeys } from '../../crypto/key-hierarchy.js'
import { createTaskThread, reviveError, turn } from '../../event-loop.js'
import { readChain } from '../../store/audit.js'
import { readEvidence } from '../../store/audit-evidence.js'
import type { Queryable, Sql } from '../../store/db.js'
import { DatabaseDeadlineError } from '../../store/deadline.js'
import type { Login } from '../../store/login.js'
import { findLastMark } from '../../store/purge-marks.js'
import { assertFormats } from '../../store/text-formats.js'
import { followAuditKey } from '../audit-key.js'
import {
  type AuditKey,
  areMarksAuthentic,
  currentKey,
  entryMac,
  equalBytes,
  firstOfCurrent,
  type Head,
  isHeadAuthentic,
  type Witness,
} from '../formats/chain.js'
import { type NamedEntry, type RecordedTenants, recordedTenants, TENANT_ACTIONS } from '../recorded-tenants.js'
import { createRowAudit, type WrittenBy, writersOf } from './row-audit.js'

/**
 * How many are read at a time: a query costs as much as dozens of entries. Reading ahead would be a third faster, but
 * would use a processor of the database and one of the server at once.
 */
const PAGE_ENTRIES = 250
/** How many are computed between two turns of the event loop: an eighth of a millisecond of work. */
const TURN_ENTRIES = 25
const PROGRESS_ENTRIES = 10_000

export type Fault =
  | 'head_missing'
  | 'head_forged'
  | 'head_repeated'
  | 'head_mismatch'
  | 'entry_missing'
  | 'entry_repeated'
  | 'entry_altered'
  | 'entry_forged'
  | 'entry_beyond_head'
  | 'entry_before_first'
  | 'head_behind'
  | 'time_went_back'
  | 'mark_forged'
  | 'mark_mismatch'
  | RightsFault
  | 'row_repeated'
  | 'row_forged'
  | 'row_missing'
  | 'row_replaced'
  | 'checkpoint_mismatch'
  | 'behind_checkpoint'

export interface VerifyOptions {
  tenant_id: string
  auditKey: AuditKey
  /** to open the secrets in the rows */
  storeKeys: StoreKeys
  checkpoint?: Pick<Checkpoint, 'last_id' | 'hash'> | undefined
  /** the head that an alarm witnessed, which the log must also contain */
  witnessed?: Pick<Witness, 'last_id' | 'hash'> | undefined
  /** an entry that the log must have, since the installation's log names it */
  named?: NamedEntry | undefined
  /** verify up to the last entry that exists, whatever the head; for use before the head is made again */
  isHeadIgnored?: boolean | undefined
  /** only the entries after this id; the entry with the id is trusted */
  after_id?: number | undefined
  through_id?: number | undefined
  noted?: NotedEntries | undefined
  onProgress?: ((entries: number) => void) | undefined
  onValid?: ((valid: ValidLog) => void) | undefined
  /** ends the verification between two pages */
  signal?: AbortSignal | undefined
}

/** The entry with the id, and each entry whose distance from the newest mark is a multiple of `every`. */
export type NotedEntries = { id: number; every: number }

export interface ValidLog {
  last_id: number
  /** of the entry `last_id`, as is the time */
  hash: Uint8Array
  created_at: string
  /** the hashes of the entries to note, by their ids; computed, so that they lead to `hash` */
  noted: ReadonlyMap<number, Uint8Array>
  writtenBy: WrittenBy
  /** the tenants that must exist according to the log; none unless it is the installation's log */
  recorded: RecordedTenants
  /** a key or API key that is still usable according to the log; undefined if there is none */
  usable: string | undefined
}

type Position = Pick<ChainedEntry, 'id' | 'hash' | 'created_at'>

/**
 * Verifies a tenant's log (chain.md 9). @throws the signal's reason once it is aborted, WrongFormatError if the session
 * may not read rows as they were written
 */
export async function verifyLog(sql: Sql, options: VerifyOptions): Promise<wire.Verification> {
  const current = currentKey(options.auditKey)
  const answer = await verify(sql, options)
  if (answer.valid) return answer
  await followAuditKey(sql, options.auditKey)
  if (currentKey(options.auditKey) !== current) return verifyLog(sql, options) // renewed during the verification
  await assertFormats(sql)
  return answer
}

async function verify(sql: Sql, options: VerifyOptions): Promise<wire.Verification> {
  const evidence = await readEvidence(sql, options.tenant_id, { withRows: options.after_id === undefined })
  const { head } = evidence
  const { checkpoint: kept, witnessed, named, isHeadIgnored = false } = options
  let compared = false
  const areMarksGood = areMarksAuthentic(options.auditKey, evidence.marks)
  // Forged marks are ignored: without a mark, the entries from the first one on count as missing.
  const mark = areMarksGood ? evidence.marks.at(-1) : undefined
  let position: Position = mark
    ? { id: mark.purged_through, hash: mark.hash, created_at: '' }
    : { id: 0, hash: genesisHash(options.tenant_id), created_at: '' }
  let verified = 0
  const purged_through = position.id

  const answer = (fault?: Fault, broken_at = position.id + 1): wire.Verification => ({
    valid: fault === undefined,
    total_entries: Math.max(0, (head?.last_id ?? 0) - purged_through),
    verified_entries: verified,
    ...(fault === undefined ? {} : { broken_at, reason: fault }),
    head: head ? { id: head.last_id, hash: encodeHex(head.hash), created_at: head.created_at } : null,
    purged_through,
    ...(kept === undefined ? {} : { checkpoint: { id: kept.last_id, compared } }),
  })
  const contradicts = (): boolean => {
    if (witnessed?.last_id === position.id && !equalBytes(witnessed.hash, position.hash)) return true
    if (kept?.last_id !== position.id) return false
    compared = true
    return !equalBytes(kept.hash, position.hash)
  }

  if (!areMarksGood) return answer('mark_forged')
  const isHeadGood =
    head !== undefined && !isHeadIgnored && !evidence.hasSeveralHeads && isHeadAuthentic(options.auditKey, head)
  // If the head is forged, the last entry says where the log ends.
  const end = isHeadGood ? head.last_id : evidence.last_id
  // Only the first MAC under a new key proves the entries before it (chain.md 14).
  const through_id = Math.min(Math.max(options.through_id ?? end, firstOfCurrent(options.auditKey)), end)

  if (options.after_id !== undefined && options.after_id > position.id) {
    const where = { ...options, after_id: options.after_id - 1, through_id: options.after_id, limit: 1 }
    const [entry] = await readChain(sql, where)
    if (!entry) {
      if (await isPurgedBeyond(sql, options.tenant_id, position.id)) return verify(sql, options)
      return answer('entry_missing', options.after_id)
    }
    position = entry
  }
  const rows = createRowAudit(deriveRowKey(currentKey(options.auditKey)), options.storeKeys)
  const history = createRightsHistory({ after_id: position.id })
  const told: ChainedEntry[] = []
  const noted = new Map<number, Uint8Array>()
  if (contradicts()) return answer('checkpoint_mismatch', position.id)
  while (position.id < through_id) {
    options.signal?.throwIfAborted()
    const read = await readChain(sql, { ...options, after_id: position.id, through_id, limit: PAGE_ENTRIES + 1 })
    // The additional entry is kept only if it repeats the last id: the next page would begin after it.
    const page = read.slice(0, read[PAGE_ENTRIES]?.id === read[PAGE_ENTRIES - 1]?.id ? undefined : PAGE_ENTRIES)
    if (page[0]?.id !== position.id + 1 && (await isPurgedBeyond(sql, options.tenant_id, position.id))) {
      return verify(sql, options) // a purge deleted what was being read: begin again from its mark
    }
    if (page.length === 0) return answer('entry_missing')
    for (const [at, entry] of page.entries()) {
      if (at % TURN_ENTRIES === 0) await turn() // calls that arrived meanwhile run first
      const fault = findFault(position, entry, options.auditKey) ?? history.read(entry)
      if (fault) return answer(fault, entry.id === position.id ? entry.id : undefined)
      rows.note(entry)
      if (TENANT_ACTIONS.includes(entry.action)) told.push(entry)
      position = entry
      verified += 1
      if (options.noted && isNoted(entry.id, options.noted, purged_through))
        noted.set(entry.id, Uint8Array.from(entry.hash))
      const isOther = entry.id === named?.id && !equalBytes(entry.hash, named.hash)
      if (isOther || contradicts()) return answer('checkpoint_mismatch', position.id)
    }
    if (verified % PROGRESS_ENTRIES === 0) options.onProgress?.(verified)
  }
  if (options.through_id !== undefined && options.through_id < end) return answer()
  if (!isHeadIgnored) {
    if (!head) return answer('head_missing')
    if (evidence.hasSeveralHeads) return answer('head_repeated')
    if (!isHeadGood) return answer('head_forged')
    if (!equalBytes(position.hash, head.hash)) return answer('head_mismatch')
    if (evidence.last_id > head.last_id) {
      const beyond = await findBeyond(sql, options, head)
      return beyond?.isGenuine ? answer('head_behind') : answer('entry_beyond_head', beyond?.id)
    }
  }
  if (evidence.first_id < 1) return answer('entry_before_first', evidence.first_id)
  if (Math.max(kept?.last_id ?? 0, witnessed?.last_id ?? 0, named?.id ?? 0) > end) return answer('behind_checkpoint')
  const unfinished = history.end()
  if (unfinished) return answer(unfinished, position.id)
  if (options.after_id !== undefined) return answer() // marks and rows can only be compared with the whole log
  if (purged_through !== rows.purgedThrough()) {
    return answer('mark_mismatch', Math.min(purged_through, rows.purgedThrough()) + 1)
  }
  if (evidence.repeated !== undefined) return answer('row_repeated', Math.min(evidence.repeated, position.id + 1))
  const rowFault = rows.findFault(evidence.rows, purged_through)
  if (rowFault) return answer(rowFault.fault, Math.min(rowFault.entry_id, position.id + 1))
  options.onValid?.({
    last_id: position.id,
    hash: Uint8Array.from(position.hash),
    created_at: position.created_at,
    noted,
    writtenBy: writersOf(evidence.rows),
    recorded: recordedTenants(told),
    usable: history.findUsable(),
  })
  return answer()
}

function isNoted(entry_id: number, { id, every }: NotedEntries, purged_through: number): boolean {
  return entry_id === id || (entry_id - purged_through) % every === 0
}

async function isPurgedBeyond(sql: Sql, tenant_id: string, id: number): Promise<boolean> {
  const mark = await findLastMark(sql, tenant_id)
  return mark !== undefined && mark.purged_through > id
}

function findFault(last: Position, entry: ChainedEntry, auditKey: AuditKey): Fault | undefined {
  if (entry.id === last.id) return 'entry_repeated'
  if (entry.id !== last.id + 1) return 'entry_missing'
  const hash = entryHash(last.hash, entry)
  if (!equalBytes(entry.hash, hash)) return 'entry_altered'
  if (!equalBytes(entry.mac, entryMac(auditKey, entry.id, hash))) return 'entry_forged'
  if (hasTimeGoneBack(last, entry)) return 'time_went_back'
  return undefined
}

/**
 * The first entry beyond the head, if there is one. `isGenuine` if the server wrote one of the entries there as the
 * successor of the entry before: then an older head was restored.
 */
export async function findBeyond(
  sql: Queryable,
  { tenant_id, auditKey }: { tenant_id: string; auditKey: AuditKey },
  { last_id, hash }: Pick<Head, 'last_id' | 'hash'>,
): Promise<{ id: number; isGenuine: boolean } | undefined> {
  let first: number | undefined
  let previous = { id: last_id, hash }
  while (true) {
    const where = { tenant_id, after_id: previous.id, through_id: Number.MAX_SAFE_INTEGER, limit: PAGE_ENTRIES }
    const page = await readChain(sql, where)
    for (const entry of page) {
      first ??= entry.id
      const mac = entryMac(auditKey, entry.id, entryHash(previous.hash, entry))
      if (equalBytes(entry.mac, mac)) return { id: first, isGenuine: true }
      previous = entry
    }
    if (page.length < PAGE_ENTRIES) return first === undefined ? undefined : { id: first, isGenuine: false }
  }
}

export interface ThreadDatabase extends Login {
  isPooled: boolean
  isSpread: boolean
  searchPath: string | undefined
}

/** `VerifyOptions` without functions and signal, which messages between threads can't carry. */
export type ThreadTask = Omit<VerifyOptions, 'onProgress' | 'onValid' | 'signal'>

export type ThreadNote = { entries: number } | { valid: ValidLog }

export type VerifyLog = (options: Omit<VerifyOptions, 'storeKeys'>) => Promise<wire.Verification>

export interface Verifier {
  verify: (options: VerifyOptions) => Promise<wire.Verification>
  close(): Promise<void>
}

/** `program` is the compiled `verification-thread-program.ts`. */
export function createVerificationThread(database: ThreadDatabase, program: URL): Verifier {
  const { run, close } = createTaskThread<ThreadTask, wire.Verification, ThreadNote>(program, {
    data: database,
    revive: (failure) => {
      const { name, message } = failure
      return reviveError(failure, name === 'DatabaseDeadlineError' ? new DatabaseDeadlineError(message) : undefined)
    },
  })
  return {
    verify: ({ onProgress, onValid, signal, ...task }) => {
      const onNote = (note: ThreadNote) => ('valid' in note ? onValid?.(note.valid) : onProgress?.(note.entries))
      return run(task, { signal, onNote })
    },
    close,
  }
}

/** For work that relies on a wholly valid log. @throws the signal's reason once it is aborted */
export async function readValidLog(
  { verifyLog }: { verifyLog: VerifyLog },
  { tenant: { tenant_id }, auditKey }: { tenant: { tenant_id: string }; auditKey: AuditKey },
  options: Pick<VerifyOptions, 'isHeadIgnored' | 'noted' | 'onProgress' | 'signal'> = {},
): Promise<{ valid: ValidLog | undefined; reason: string | undefined; broken_at: number | undefined }> {
  let valid: ValidLog | undefined
  const onValid = (found: ValidLog) => {
    valid = found
  }
  const { reason, broken_at } = await verifyLog({ tenant_id, auditKey, onValid, ...options })
  return { valid, reason, broken_at }
}
