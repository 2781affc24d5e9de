import { createSecretKey } from 'node:crypto'
import { type ChainedEntry, entryHash } from '@eaas/audit/formats'
import { describe, expect, it } from 'vitest'
import { type EntryDraft, extendChain, genesisHead, type Head } from '../../core/audit/formats/chain.js'
import { FOLLOWED_AT_ONCE, followStretch } from './follow.js'
import { HeadWatch } from './head-watch.js'

const TENANT = '3f2504e0-4f89-41d3-9a0c-0305e82c3301'
const auditKey = createSecretKey(Buffer.alloc(32, 1))

/** Continues a log by so many entries, which tell which log they are of. */
function append(
  head: Head,
  count: number,
  { log = 'the log', ...draft }: { log?: string } & Partial<EntryDraft> = {},
): { entries: ChainedEntry[]; head: Head } {
  const other = { action: 'key.wrap', key_id: null, key_version: null, ip_address: null, metadata: null } as const
  return extendChain(
    head,
    Array.from({ length: count }, () => ({ ...other, actor: log, ...draft })),
    { auditKey, now: Date.parse('2026-11-23T00:00:00Z') },
  )
}

const fork = { log: 'a fork' }
const start = append(genesisHead(auditKey, TENANT, '2026-11-22T00:00:00.000Z'), 3)
const witnessed = start.head
const [, , last] = start.entries as [ChainedEntry, ChainedEntry, ChainedEntry]

/** What a process reads of a log of these entries after the witnessed one. */
const follow = (entries: readonly ChainedEntry[], head: Head, shown = last) =>
  followStretch(witnessed, { head, stretch: [shown, ...entries].slice(0, FOLLOWED_AT_ONCE + 1), auditKey })

describe('a log after a witnessed entry', () => {
  it.each([1, 2, FOLLOWED_AT_ONCE])('continues by %i entries to its head, and not without one of them', (count) => {
    const { entries, head } = append(witnessed, count)
    expect(follow(entries, head)).toBe(head)
    for (const lost of new Set([0, Math.floor(count / 2), count - 1]))
      expect(follow(entries.toSpliced(lost, 1), head)).toMatchObject(
        lost === count - 1 && count > 1
          ? { last_id: head.last_id - 1 }
          : { id: witnessed.last_id + 1 + lost, kind: 'missing' },
      )
  })

  it('continues as far as a stretch goes, with the policy version of the accepted rollbacks that it has', () => {
    const { entries, head } = append(witnessed, FOLLOWED_AT_ONCE + 1)
    const { last_id, policy_version } = witnessed
    const reached = {
      last_id: last_id + FOLLOWED_AT_ONCE,
      hash: entries.at(-2)?.hash,
      policy_version,
      created_at: entries.at(-2)?.created_at,
      sealed: witnessed,
    }
    expect(follow(entries, head)).toEqual(reached)
    const metadata = { witnessed_id: 9, witnessed_hash: '', agrees_through: 0, reason: '', policy_version: 2 ** 32 }
    const action = 'audit.rollback_accepted'
    const accepted = append(witnessed, 1, { action, metadata: JSON.stringify(metadata) })
    const after = append(accepted.head, FOLLOWED_AT_ONCE)
    expect(follow([...accepted.entries, ...after.entries], after.head)).toMatchObject({ policy_version: 2 ** 32 })
  })

  it('is another one where the witnessed entry is missing or differs', () => {
    const { entries, head } = append(witnessed, 2)
    expect(followStretch(witnessed, { head, stretch: entries, auditKey })).toEqual({ id: 3, kind: 'missing' })
    expect(follow(entries, head, { ...last, hash: Buffer.alloc(32) })).toEqual({ id: 3, kind: 'differs' })
  })

  it('is another one where an entry is there several times', () => {
    const { entries, head } = append(witnessed, 2)
    const shown = [last, ...entries]
    for (const [at, entry] of shown.entries()) {
      const broken = followStretch(witnessed, { head, stretch: shown.toSpliced(at, 0, entry), auditKey })
      expect(broken).toEqual({ id: entry.id, kind: 'repeated' })
    }
  })

  it.each([1, 2, FOLLOWED_AT_ONCE, FOLLOWED_AT_ONCE + 1])(
    'is forked where another entry has the id of the witnessed one and %i entries follow, whatever is shown in its place',
    (count) => {
      const before = append(genesisHead(auditKey, TENANT, '2026-11-22T00:00:00.000Z'), 2).head
      const forked = append(append(before, 1, fork).head, count, fork)
      // Somebody who has the database can compute hashes, but no MAC.
      const hashes = new Map<number, Uint8Array>()
      let hash = witnessed.hash
      for (const entry of forked.entries) {
        hash = entryHash(hash, entry)
        hashes.set(entry.id, hash)
      }
      expect(follow(forked.entries, forked.head)).toEqual({ id: 4, kind: 'forked' })
      const dressed = forked.entries.map((entry) => ({ ...entry, hash: hashes.get(entry.id) ?? entry.hash }))
      expect(follow(dressed, forked.head)).toEqual({ id: 3 + Math.min(count, FOLLOWED_AT_ONCE), kind: 'forked' })
    },
  )

  it('is forked where an entry was edited, or where genuine entries lead to another head', () => {
    const { entries, head } = append(witnessed, 3)
    const edited = entries.map((entry, at) => (at === 1 ? { ...entry, actor: 'somebody else' } : entry))
    expect(follow(edited, head)).toEqual({ id: 5, kind: 'forked' })
    const forked = append(append(witnessed, 1, fork).head, 2)
    expect(follow(entries, forked.head)).toEqual({ id: 6, kind: 'forked' })
  })
})

describe('a copy of a head under a newer audit key', () => {
  const former = [{ through: witnessed.last_id, key: auditKey }]
  const renewed = { current: createSecretKey(Buffer.alloc(32, 2)), former }
  const draft = {
    action: 'audit.key_renew',
    key_id: null,
    key_version: null,
    ip_address: null,
    metadata: null,
  } as const
  const later = extendChain(witnessed, [{ ...draft, actor: 'system' }], {
    auditKey: renewed,
    now: Date.parse('2026-11-24T00:00:00Z'),
  })

  it.each([
    ['the head of before', witnessed, []],
    ['the newer head', later.head, later.entries],
  ])('is not taken for a changed one where %s is followed by the key of before', (_, head, entries) => {
    const watch = new HeadWatch(TENANT, () => undefined)
    watch.commit(witnessed)
    watch.held.rememberAnchored(later.head)
    expect(watch.follow({ head, stretch: [last, ...entries] }, auditKey)).toBe('broken')
    expect(watch.follow({ head: later.head, stretch: [last, ...later.entries] }, renewed)).toBe('wholly')
    expect(watch.held.all).toEqual([later.head])
  })
})
