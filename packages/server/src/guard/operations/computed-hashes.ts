// Computes the hashes of a log's entries in order, from its beginning or newest purge on. A stored hash proves nothing:
// whoever writes to the database can show another one, or another genuine entry, for a moment.
import { type ChainedEntry, entryHash, genesisHash } from '@eaas/audit/formats'
import { type AuditKey, entryMac, equalBytes } from '../../core/audit/formats/chain.js'
import { findAuthenticMark } from '../../core/audit/read-entry.js'
import type { Fault } from '../../core/audit/verify/verify.js'
import { createStretches } from '../../core/event-loop.js'
import { readChain } from '../../core/store/audit.js'
import type { Queryable } from '../../core/store/db.js'

const PAGE_ENTRIES = 1_000
const PROGRESS_ENTRIES = 10_000

export interface EntryFault {
  entry_id: number // the first entry that is missing, or does not follow from the one before it
  reason: Fault // the reason by which a verification names it
  detail: string // the same in words
}

/** It leads to a head only if the hash of the head's entry is that of the head. */
export class ComputedHashes {
  /** the first fault; from there on, hashes are as stored, and only of entries whose MAC is the server's */
  fault: EntryFault | undefined
  /** the last entry that a purge took; 0 if none did */
  purged_through = 0
  /** the hashes of the entries `noted` that were read, by their ids */
  readonly noted = new Map<number, Uint8Array>()
  #last: { id: number; hash: Uint8Array }
  #read = 0
  readonly #pause = createStretches()

  constructor(
    private readonly sql: Queryable,
    private readonly log: {
      tenant_id: string
      auditKey: AuditKey
      noted: ReadonlySet<number> // the entries whose hashes are kept
      onProgress?: ((entries: number) => void) | undefined
    },
  ) {
    this.#last = { id: 0, hash: genesisHash(log.tenant_id) }
  }

  /** To an entry, or to the end of the log. Returns the hashes of the entries `ids` that it read. */
  async readThrough(through_id: number, ids: readonly number[] = []): Promise<ReadonlyMap<number, Uint8Array>> {
    const wanted = new Set(ids)
    const found = new Map<number, Uint8Array>()
    const note = ({ id, hash }: { id: number; hash: Uint8Array }) => {
      if (wanted.has(id)) found.set(id, hash)
      if (this.log.noted.has(id)) this.noted.set(id, hash)
    }
    while (this.#last.id < through_id) {
      const where = { tenant_id: this.log.tenant_id, after_id: this.#last.id, through_id, limit: PAGE_ENTRIES }
      const page = await readChain(this.sql, where)
      if (page[0]?.id !== this.#last.id + 1 && (await this.#followPurge())) note(this.#last)
      else if (page.length === 0) break
      else await this.#readPage(page, note)
    }
    return found
  }

  /** Continues after the newest purge, if that took the entry that would come next. */
  async #followPurge(): Promise<boolean> {
    const mark = await findAuthenticMark(this.sql, this.log)
    if (!mark || mark.purged_through <= this.#last.id) return false
    this.purged_through = mark.purged_through
    this.#last = { id: mark.purged_through, hash: mark.hash }
    return true
  }

  async #readPage(page: readonly ChainedEntry[], note: (entry: ChainedEntry) => void): Promise<void> {
    for (const entry of page) {
      this.fault ??= findFault(this.#last, entry)
      if (!this.fault || this.#isGenuine(entry)) note(entry)
      this.#last = entry
      this.#read += 1
      if (this.#read % PROGRESS_ENTRIES === 0) this.log.onProgress?.(this.#read)
      const due = this.#pause()
      if (due) await due
    }
  }

  #isGenuine({ id, hash, mac }: ChainedEntry): boolean {
    return equalBytes(mac, entryMac(this.log.auditKey, id, hash))
  }
}

function findFault(last: { id: number; hash: Uint8Array }, entry: ChainedEntry): EntryFault | undefined {
  const next = last.id + 1
  if (entry.id === last.id)
    return { entry_id: entry.id, reason: 'entry_repeated', detail: `entry ${entry.id} is there more than once` }
  if (entry.id !== next) return { entry_id: next, reason: 'entry_missing', detail: `entry ${next} is missing` }
  if (equalBytes(entry.hash, entryHash(last.hash, entry))) return undefined
  return { entry_id: next, reason: 'entry_altered', detail: `entry ${next} does not follow from the entry before it` }
}
