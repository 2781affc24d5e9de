/**
 * Verification in place: recomputes a tenant's chain from its beginning, or from the last purge, to the head as it was when the
 * verification began, and holds the rows that grant rights against it. Streams in pages, so memory stays flat and other calls go
 * on; entries appended meanwhile are left for next time.
 */
import type { KeyObject } from 'node:crypto'
import { encodeHex, type wire } from '@eaas/protocol'
import { readChain } from '../store/audit.js'
import { readEvidence } from '../store/audit-evidence.js'
import { findLastMark } from '../store/audit-retention.js'
import type { Sql } from '../store/db.js'
import { turn } from '../turn.js'
import {
  type ChainedEntry,
  entryHash,
  entryMac,
  equalBytes,
  genesisHash,
  isHeadAuthentic,
  type PurgeMark,
  purgeMarkMac,
  type Witness,
} from './chain.js'
import type { Checkpoint } from './checkpoint.js'
import { createRowAudit } from './row-audit.js'

/**
 * Entries read at a time, and then computed: each query costs as much as dozens of them. Reading ahead would be faster by a third, but
 * keep two processors busy, the database's and the server's, while other calls wait for either.
 */
const PAGE_ENTRIES = 250
/** Entries computed between two turns of the event loop: an eighth of a millisecond of work. */
const TURN_ENTRIES = 25
const PROGRESS_ENTRIES = 10_000

/** What makes a log invalid. */
export type Fault =
  | 'head_missing'
  | 'head_forged'
  | 'head_mismatch'
  | 'entry_missing'
  | 'entry_altered'
  | 'entry_forged'
  | 'entry_beyond_head'
  | 'time_went_back'
  | 'mark_forged'
  | 'mark_mismatch'
  | 'row_forged'
  | 'row_missing'
  | 'row_replaced'
  | 'checkpoint_mismatch'
  | 'behind_checkpoint'

export interface VerifyOptions {
  tenant_id: string
  auditKey: KeyObject
  rowKey: KeyObject
  /** what was signed earlier, and has to be true still */
  checkpoint?: Checkpoint | undefined
  /** the head that an alarm says was witnessed, which the log has to go on from too */
  witnessed?: Pick<Witness, 'last_id' | 'hash'> | undefined
  /** only the entries after this id; the one with the id is taken as it stands */
  after_id?: number | undefined
  /** only the entries up to this id */
  through_id?: number | undefined
  /** told now and then how many entries were verified */
  onProgress?: ((entries: number) => void) | undefined
  /** ends it between two pages */
  signal?: AbortSignal | undefined
}

/** A place in the chain that is verified. */
interface Place {
  id: number
  hash: Uint8Array
  created_at: string
}

/**
 * Verifies a tenant's log (chain.md 9). `broken_at` is the id of the first entry that is missing or not as the server wrote it.
 *
 * @throws the signal's reason once it is aborted
 */
export async function verifyLog(sql: Sql, options: VerifyOptions): Promise<wire.Verification> {
  const evidence = await readEvidence(sql, options.tenant_id)
  const { head } = evidence
  const { checkpoint: kept, witnessed } = options
  let compared = false
  const isMarkGood = !evidence.mark || equalBytes(evidence.mark.mac, purgeMarkMac(options.auditKey, evidence.mark))
  // What a forged mark says counts for nothing: with no mark, the entries from the first one on are missing.
  const mark = isMarkGood ? evidence.mark : undefined
  let place = startOf(options.tenant_id, mark)
  let verified = 0
  const purged_through = place.id

  const answer = (fault?: Fault, broken_at = place.id + 1): wire.Verification => ({
    valid: fault === undefined,
    total_entries: Math.max(0, (head?.last_id ?? 0) - purged_through),
    verified_entries: verified,
    ...(fault === undefined ? {} : { broken_at, reason: fault }),
    head: head ? { id: head.last_id, hash: encodeHex(head.hash), created_at: head.created_at } : null,
    purged_through,
    ...(kept === undefined ? {} : { checkpoint: { id: kept.last_id, compared } }),
  })
  const contradicts = (): boolean => {
    if (witnessed?.last_id === place.id && !equalBytes(witnessed.hash, place.hash)) return true
    if (kept?.last_id !== place.id) return false
    compared = true
    return !equalBytes(kept.hash, place.hash)
  }

  if (!isMarkGood) return answer('mark_forged')
  const isHeadGood = head !== undefined && isHeadAuthentic(options.auditKey, head)
  // A head that is not the server's can't say where the log ends: the last entry that is there does.
  const end = isHeadGood ? head.last_id : evidence.last_id
  const through_id = Math.min(options.through_id ?? end, end)

  if (options.after_id !== undefined && options.after_id > place.id) {
    const [entry] = await readChain(sql, {
      ...options,
      after_id: options.after_id - 1,
      through_id: options.after_id,
      limit: 1,
    })
    if (!entry) {
      if (await isPurgedBeyond(sql, options.tenant_id, place.id)) return verifyLog(sql, options)
      return answer('entry_missing', options.after_id)
    }
    place = entry
  }
  const rows = createRowAudit(options.rowKey)
  if (contradicts()) return answer('checkpoint_mismatch', place.id)
  while (place.id < through_id) {
    options.signal?.throwIfAborted()
    const page = await readChain(sql, { ...options, after_id: place.id, through_id, limit: PAGE_ENTRIES })
    if (page[0]?.id !== place.id + 1 && (await isPurgedBeyond(sql, options.tenant_id, place.id))) {
      return verifyLog(sql, options) // a purge took what was being read: from its mark once more
    }
    if (page.length === 0) return answer('entry_missing')
    for (const [at, entry] of page.entries()) {
      if (at % TURN_ENTRIES === 0) await turn() // calls that came meanwhile go first
      const fault = findFault(place, entry, options.auditKey)
      if (fault) return answer(fault)
      rows.note(entry)
      place = entry
      verified += 1
      if (contradicts()) return answer('checkpoint_mismatch', place.id)
    }
    if (verified % PROGRESS_ENTRIES === 0) options.onProgress?.(verified)
  }
  if (options.through_id !== undefined) return answer()
  if (!head) return answer('head_missing')
  if (!isHeadGood) return answer('head_forged')
  if (!equalBytes(place.hash, head.hash)) return answer('head_mismatch')
  if (evidence.last_id > head.last_id) return answer('entry_beyond_head')
  if (Math.max(kept?.last_id ?? 0, witnessed?.last_id ?? 0) > head.last_id) return answer('behind_checkpoint')
  if (options.after_id !== undefined) return answer() // marks and rows are held against all entries
  const told = rows.purgedThrough()
  if (purged_through !== told) return answer('mark_mismatch', Math.min(purged_through, told) + 1)
  const rowFault = rows.findFault(evidence.rows, purged_through)
  return rowFault ? answer(rowFault.fault, Math.min(rowFault.entry_id, place.id + 1)) : answer()
}

function startOf(tenant_id: string, mark: PurgeMark | undefined): Place {
  return mark
    ? { id: mark.purged_through, hash: mark.hash, created_at: '' }
    : { id: 0, hash: genesisHash(tenant_id), created_at: '' }
}

async function isPurgedBeyond(sql: Sql, tenant_id: string, id: number): Promise<boolean> {
  const mark = await findLastMark(sql, tenant_id)
  return mark !== undefined && mark.purged_through > id
}

function findFault(last: Place, entry: ChainedEntry, auditKey: KeyObject): Fault | undefined {
  if (entry.id !== last.id + 1) return 'entry_missing'
  const hash = entryHash(last.hash, entry)
  if (!equalBytes(entry.hash, hash)) return 'entry_altered'
  if (!equalBytes(entry.mac, entryMac(auditKey, hash))) return 'entry_forged'
  if (entry.created_at < last.created_at) return 'time_went_back'
  return undefined
}
