// The MACs of the audit chain, see chain.md, and what must never be taken for the server's.
import { createSecretKey } from 'node:crypto'
import { type AuditEntry, entryHash } from '@eaas/audit/formats'
import { decodeHex, encodeHex } from '@eaas/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { columnsOf } from '../../../../../../test/support/database/migrations.js'
import { ANY_ENTRY } from '../../../../../../test/support/vectors/any-text.js'
import vectors from '../../../../../audit/src/formats/chain.vectors.json' with { type: 'json' }
import {
  type EntryDraft,
  entryMac,
  equalBytes,
  extendChain,
  genesisHead,
  type Head,
  headMac,
  isHeadAuthentic,
  purgeMarkMac,
} from './chain.js'

const auditKey = createSecretKey(decodeHex(vectors.audit_key))
const { tenant_id } = vectors

/** Vectors know no types: an altered entry may name an action that there is none of. */
function entryOf(entry: object): AuditEntry {
  return entry as AuditEntry
}

function headOf({ hash, ...head }: (typeof vectors.heads)[number]['head'], mac = ''): Head {
  return { ...head, hash: decodeHex(hash), mac: decodeHex(mac) }
}

/** What verification asks of an entry. */
function isTaken({ previous, entry, hash, mac }: (typeof vectors.refuse)[number]): boolean {
  const computed = entryHash(decodeHex(previous), entryOf(entry))
  return equalBytes(decodeHex(hash), computed) && equalBytes(decodeHex(mac), entryMac(auditKey, 1, computed))
}

const instant = fc
  .integer({ min: 0, max: Date.parse('9999-12-31T23:59:59.999Z') })
  .map((time) => new Date(time).toISOString())
const anyDraft: fc.Arbitrary<EntryDraft> = ANY_ENTRY.map(({ tenant_id: _, id: __, created_at: ___, ...draft }) => draft)

describe('the published chain', () => {
  it.each(vectors.entries)('has this hash and this MAC: $name', (vector) => {
    const at = vector.entry.id - 1
    const previous = at === 0 ? vectors.genesis : (vectors.entries[at - 1]?.hash ?? '')
    const hash = entryHash(decodeHex(previous), entryOf(vector.entry))
    expect(encodeHex(hash)).toBe(vector.hash)
    expect(encodeHex(entryMac(auditKey, 1, hash))).toBe(vector.mac)
  })

  it.each(vectors.heads)('has this head: $name', ({ head, mac }) => {
    expect(encodeHex(headMac(auditKey, headOf(head)))).toBe(mac)
    expect(isHeadAuthentic(auditKey, headOf(head, mac))).toBe(true)
  })

  it.each(vectors.refuse)('does not have this entry: $name', (vector) => {
    expect(isTaken(vector)).toBe(false)
  })

  it.each(vectors.refuse_heads)('does not have this head: $name', ({ head, mac }) => {
    expect(isHeadAuthentic(auditKey, headOf(head, mac))).toBe(false)
  })

  it('takes each of its own entries', () => {
    for (const [at, { entry, hash, mac }] of vectors.entries.entries()) {
      const previous = vectors.entries[at - 1]?.hash ?? vectors.genesis
      expect(isTaken({ name: '', previous, entry, hash, mac } as (typeof vectors.refuse)[number])).toBe(true)
    }
  })
})

describe('extending a chain', () => {
  const genesis = genesisHead(auditKey, tenant_id, '2026-08-11T09:30:00.000Z')
  const now = Date.parse('2026-08-11T09:30:01.000Z')
  const draft: EntryDraft = {
    action: 'key.wrap',
    key_id: null,
    key_version: null,
    actor: 'system',
    ip_address: null,
    metadata: null,
  }

  it('starts with the published head', () => {
    const [first] = vectors.heads
    expect(encodeHex(genesisHead(auditKey, tenant_id, first?.head.created_at ?? '').mac)).toBe(first?.mac)
    expect(genesis).toMatchObject({ tenant_id, last_id: 0, policy_version: 1 })
  })

  it('gives the same chain in one batch as entry by entry, and a head that is authentic', () => {
    fc.assert(
      fc.property(fc.array(anyDraft, { maxLength: 6 }), (drafts) => {
        const batch = extendChain(genesis, drafts, { auditKey, now })
        let head = genesis
        const single = drafts.flatMap((draft) => {
          const extended = extendChain(head, [draft], { auditKey, now })
          head = extended.head
          return extended.entries
        })
        expect(batch.entries).toEqual(single)
        if (drafts.length > 0) expect(batch.head).toEqual(head)
        expect(batch.entries.map(({ id }) => id)).toEqual(drafts.map((_, at) => at + 1))
        expect(isHeadAuthentic(auditKey, batch.head)).toBe(true)
        expect(batch.head.hash).toEqual(batch.entries.at(-1)?.hash ?? genesis.hash)
      }),
    )
  })

  it.each(['action', 'key_id', 'key_version', 'actor', 'ip_address', 'metadata'] as const)(
    'hashes each entry by its own fields, also where only its %s differs from that of the one before',
    (column) => {
      const other = { ...draft, [column]: column === 'key_version' ? 99 : 'other' }
      const { entries } = extendChain(genesis, [draft, draft, other, draft], { auditKey, now })
      let previous = genesis.hash
      for (const entry of entries) {
        expect(entry.hash).toEqual(entryHash(previous, entry))
        previous = entry.hash
      }
    },
  )

  it('puts the tenant of the head in every entry', () => {
    const { entries } = extendChain(genesis, [draft, draft], { auditKey, now })
    expect(entries.map((entry) => entry.tenant_id)).toEqual([tenant_id, tenant_id])
  })

  it('changes every hash that follows an entry which is changed', () => {
    const drafts = [draft, draft, draft]
    const { entries } = extendChain(genesis, drafts, { auditKey, now })
    for (let at = 0; at < drafts.length; at++) {
      const changed = drafts.map((either, index) => (index === at ? { ...either, ip_address: '' } : either))
      const other = extendChain(genesis, changed, { auditKey, now })
      const same = other.entries.map(({ hash }, index) => equalBytes(hash, entries[index]?.hash ?? hash))
      expect(same).toEqual(drafts.map((_, index) => index < at))
    }
  })

  it('never lets time go back, however far the clock does', () => {
    const later = extendChain(genesis, [draft], { auditKey, now })
    for (const earlier of [now - 1, now - 86_400_000, 0, -1]) {
      const { entries, head } = extendChain(later.head, [draft], { auditKey, now: earlier })
      expect(entries[0]?.created_at).toBe('2026-08-11T09:30:01.000Z')
      expect(head.created_at).toBe('2026-08-11T09:30:01.000Z')
    }
    expect(extendChain(later.head, [draft], { auditKey, now: now + 1 }).head.created_at).toBe(
      '2026-08-11T09:30:01.001Z',
    )
  })

  it('never lets time go back beyond the year 9999 either', () => {
    const beyond = Date.parse('+010000-01-01T00:00:00.000Z')
    expect(extendChain(genesis, [draft], { auditKey, now: beyond }).head.created_at).toBe(genesis.created_at)
  })

  it('keeps the policy version unless it is told another one', () => {
    expect(extendChain(genesis, [draft], { auditKey, now }).head.policy_version).toBe(1)
    expect(extendChain(genesis, [draft], { auditKey, now, policy_version: 2 }).head.policy_version).toBe(2)
  })

  it('changes the MAC of the head with each of its columns', () => {
    const head = extendChain(genesis, [draft], { auditKey, now }).head
    const other: Omit<Head, 'mac'> = {
      tenant_id: '7c9e6679-7425-40de-944b-e07fc1f90ae8',
      last_id: 2,
      hash: new Uint8Array(32),
      policy_version: 2,
      created_at: instantAfter(head.created_at),
    }
    expect([...Object.keys(other), 'mac'].sort()).toEqual(headColumns())
    for (const column of Object.keys(other) as (keyof typeof other)[]) {
      expect(isHeadAuthentic(auditKey, { ...head, [column]: other[column] }), column).toBe(false)
    }
    fc.assert(
      fc.property(fc.nat(), fc.nat(), instant, (last_id, policy_version, created_at) => {
        const same =
          last_id === head.last_id && policy_version === head.policy_version && created_at === head.created_at
        expect(isHeadAuthentic(auditKey, { ...head, last_id, policy_version, created_at })).toBe(same)
      }),
    )
  })
})

describe('a purge mark', () => {
  type Mark = (typeof vectors.purge_marks)[number]['mark']
  const macOf = ({ hash, previous_mac, ...mark }: Mark) =>
    purgeMarkMac(auditKey, { ...mark, hash: decodeHex(hash), previous_mac: decodeHex(previous_mac) })

  it.each(vectors.purge_marks)('has the published MAC', ({ mark, mac }) => {
    expect(encodeHex(macOf(mark))).toBe(mac)
  })

  it.each(vectors.refuse_purge_marks)('is not this one: $name', ({ mark, mac }) => {
    expect(equalBytes(macOf(mark), decodeHex(mac))).toBe(false)
  })

  it('is of every column that its table has', () => {
    const [first] = vectors.purge_marks
    expect([...Object.keys(first?.mark ?? {}), 'mac'].sort()).toEqual(columnsOf('purge_marks').sort())
  })
})

describe('comparing', () => {
  it('tells byte strings apart, also by length', () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.uint8Array(), (a, b) => {
        expect(equalBytes(a, b)).toBe(Buffer.compare(a, b) === 0)
        expect(equalBytes(a, a.slice())).toBe(true)
      }),
    )
    expect(equalBytes(new Uint8Array(0), new Uint8Array(1))).toBe(false)
  })
})

function instantAfter(time: string): string {
  return new Date(Date.parse(time) + 1).toISOString()
}

function headColumns(): string[] {
  return columnsOf('heads').sort()
}
