import { createSecretKey } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { type ChainedEntry, entryHash, extendChain, genesisHead, type Head } from '../formats/chain.js'
import { FOLLOWED_ENTRIES, findBreak } from './find-break.js'

const TENANT = '3f2504e0-4f89-41d3-9a0c-0305e82c3301'
const auditKey = createSecretKey(Buffer.alloc(32, 1))

/** Continues a log by so many entries, which tell which log they are of. */
function append(head: Head, count: number, log = 'the log'): { entries: ChainedEntry[]; head: Head } {
  const draft = {
    action: 'key.wrap',
    key_id: null,
    key_version: null,
    actor: log,
    ip_address: null,
    metadata: null,
  } as const
  return extendChain(
    head,
    Array.from({ length: count }, () => draft),
    { auditKey, now: Date.parse('2026-11-23T00:00:00Z') },
  )
}

const start = append(genesisHead(auditKey, TENANT, '2026-11-22T00:00:00.000Z'), 3)
const witnessed = start.head
const [, , last] = start.entries as [ChainedEntry, ChainedEntry, ChainedEntry]

/** What a process reads of a log of these entries after the witnessed one. */
const find = (entries: readonly ChainedEntry[], head: Head, shown = last) =>
  findBreak(witnessed, { head, stretch: [shown, ...entries].slice(0, FOLLOWED_ENTRIES + 1), auditKey })

describe('a log after a witnessed entry', () => {
  it.each([1, 2, FOLLOWED_ENTRIES - 1, FOLLOWED_ENTRIES, FOLLOWED_ENTRIES + 1, 3 * FOLLOWED_ENTRIES])(
    'continues by %i entries, and not without one of those that are read',
    (count) => {
      const { entries, head } = append(witnessed, count)
      expect(find(entries, head)).toBeUndefined()
      const read = Math.min(count, FOLLOWED_ENTRIES)
      for (const lost of new Set([0, Math.floor(read / 2), read - 1]))
        expect(find(entries.toSpliced(lost, 1), head)).toEqual({ id: witnessed.last_id + 1 + lost, kind: 'missing' })
    },
  )

  it('is another one where the witnessed entry is missing or differs', () => {
    const { entries, head } = append(witnessed, 2)
    expect(findBreak(witnessed, { head, stretch: entries, auditKey })).toEqual({ id: 3, kind: 'missing' })
    expect(find(entries, head, { ...last, hash: Buffer.alloc(32) })).toEqual({ id: 3, kind: 'differs' })
  })

  it.each([1, 2, FOLLOWED_ENTRIES, 3 * FOLLOWED_ENTRIES])(
    'is forked where another entry has the id of the witnessed one and %i entries follow, whatever is shown in its place',
    (count) => {
      const before = append(genesisHead(auditKey, TENANT, '2026-11-22T00:00:00.000Z'), 2).head
      const fork = append(append(before, 1, 'a fork').head, count, 'a fork')
      // Somebody who has the database can compute hashes, but no MAC.
      const hashes = new Map<number, Uint8Array>()
      let hash = witnessed.hash
      for (const entry of fork.entries) {
        hash = entryHash(hash, entry)
        hashes.set(entry.id, hash)
      }
      expect(find(fork.entries, fork.head)).toEqual({ id: 4, kind: 'forked' })
      const dressed = fork.entries.map((entry) => ({ ...entry, hash: hashes.get(entry.id) ?? entry.hash }))
      expect(find(dressed, fork.head)).toEqual({ id: 3 + Math.min(count, FOLLOWED_ENTRIES), kind: 'forked' })
    },
  )

  it('is forked where an entry was edited, or where genuine entries lead to another head', () => {
    const { entries, head } = append(witnessed, 3)
    const edited = entries.map((entry, at) => (at === 1 ? { ...entry, actor: 'somebody else' } : entry))
    expect(find(edited, head)).toEqual({ id: 5, kind: 'forked' })
    const fork = append(append(witnessed, 1, 'a fork').head, 2)
    expect(find(entries, fork.head)).toEqual({ id: 6, kind: 'forked' })
  })
})
