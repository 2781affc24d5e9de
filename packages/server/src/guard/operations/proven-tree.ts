// Makes the tree of the installation's log (formats/tree.md) from computed hashes, since stored ones prove nothing.
import {
  type ChainedEntry,
  entryHash,
  followKeyChanges,
  GrowingLeaves,
  genesisHash,
  type HashedLeaves,
  listKeys,
} from '@eaas/audit/formats'
import { INSTALLATION_ID, readJson } from '@eaas/protocol'
import { isHeadGenuine } from '../../core/audit/audit-key.js'
import { type AuditKey, equalBytes, type Head } from '../../core/audit/formats/chain.js'
import { createStretches } from '../../core/event-loop.js'
import { readChain } from '../../core/store/audit.js'
import type { Queryable } from '../../core/store/db.js'
import { assertFormats } from '../../core/store/text-formats.js'

const PAGE_ENTRIES = 1_000

/** `changes` are the statements about new signing keys that the entries have. */
type Proven = { leaves: GrowingLeaves; hash: Uint8Array; changes: readonly string[] }

interface TreeOptions {
  auditKey: AuditKey // of the installation's log
  publicKeys: readonly string[] // all that signed for the installation: the log must state them, since the first names the tree
  signal?: AbortSignal | undefined // ends the reading between two pages
  /** called with each entry and its `h`; ignore the entries unless the tree is returned */
  onEntry?: ((entry: ChainedEntry) => void) | undefined
}

export class UnprovenTreeError extends Error {
  override readonly name = 'UnprovenTreeError'
  constructor(what: string) {
    super(`${what}: run eaas audit verify --installation`)
  }
}

/**
 * Later calls read only new entries, unless the log does not continue from the earlier ones. The function throws
 * UnprovenTreeError, or the signal's reason.
 */
export function createTreeReader(): (sql: Queryable, head: Head, options: TreeOptions) => Promise<HashedLeaves> {
  let known = nothingProven()
  return async (sql, head, options) => {
    if (!(await isHeadGenuine(sql, options.auditKey, head)))
      throw new UnprovenTreeError("the head of the installation's log was not written by a server")
    // Another call in the meantime begins anew, since two must not add to the same leaves.
    const before = known
    known = nothingProven()
    let after: Proven
    try {
      after = await extend(sql, before, { head, ...options }).catch((error: unknown) => {
        if (before.leaves.length === 0 || !(error instanceof UnprovenTreeError)) throw error
        return extend(sql, nothingProven(), { head, ...options })
      })
    } catch (error) {
      known = before
      if (error instanceof UnprovenTreeError) await assertFormats(sql)
      throw error
    }
    known = after
    assertStated(options.publicKeys, after.changes)
    return after.leaves.now()
  }
}

function nothingProven(): Proven {
  return { leaves: new GrowingLeaves(), hash: genesisHash(INSTALLATION_ID), changes: [] }
}

/** Whoever writes to the database and has an earlier key could add a statement, whose key would name the tree. */
function assertStated(publicKeys: readonly string[], changes: readonly string[]): void {
  const keys = changes.length === 0 ? publicKeys.slice(-1) : listKeys(followKeyChanges(changes))
  const stated = keys.slice(0, keys.indexOf(publicKeys.at(-1) ?? '') + 1)
  if (stated.join() !== publicKeys.join())
    throw new UnprovenTreeError("the installation's log states other signing keys than this process read of it")
}

// Adds nothing until it has reached the head, since it does not check the MACs of the entries.
async function extend(
  sql: Queryable,
  { leaves, hash: from, changes: before }: Proven,
  { head, signal, onEntry }: Pick<TreeOptions, 'signal' | 'onEntry'> & { head: Head },
): Promise<Proven> {
  const pause = createStretches()
  const hashes: Uint8Array[] = []
  const changes = [...before]
  let hash = from
  let last_id = leaves.length
  while (last_id < head.last_id) {
    signal?.throwIfAborted()
    const where = { tenant_id: INSTALLATION_ID, after_id: last_id, through_id: head.last_id, limit: PAGE_ENTRIES }
    const page = await readChain(sql, where)
    if (page.length === 0) throw faultOf(last_id + 1, 'is missing')
    for (const entry of page) {
      if (entry.id === last_id) throw faultOf(last_id, 'is there several times')
      if (entry.id !== last_id + 1) throw faultOf(last_id + 1, 'is missing')
      hash = entryHash(hash, entry)
      if (!equalBytes(entry.hash, hash)) throw faultOf(entry.id, 'was altered')
      hashes.push(hash)
      if (entry.action === 'installation.secrets_rotate')
        changes.push(String(Object(readJson(entry.metadata ?? 'null')).key_change))
      onEntry?.(entry)
      last_id = entry.id
      const due = pause()
      if (due) await due
    }
  }
  if (last_id !== head.last_id || !equalBytes(hash, head.hash))
    throw new UnprovenTreeError("the entries of the installation's log do not end with its head")
  for (const leaf of hashes) {
    leaves.add(leaf)
    const due = pause()
    if (due) await due
  }
  return { leaves, hash, changes }
}

function faultOf(id: number, what: string): UnprovenTreeError {
  return new UnprovenTreeError(`entry ${id} of the installation's log ${what}`)
}
