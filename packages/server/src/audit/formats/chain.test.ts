// The audit chain, see chain.md: its bytes, hashes and MACs, and what must never be taken for the server's.
import { createSecretKey } from 'node:crypto'
import { decodeHex, decodeUtf8, encodeHex } from '@eaas/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ANY_CHARACTER } from '../../../../../test/support/any-text.js'
import { columnsOf } from '../../../../../test/support/migrations.js'
import {
  type AuditEntry,
  type EntryDraft,
  entryBytes,
  entryHash,
  entryMac,
  equalBytes,
  extendChain,
  genesisHash,
  genesisHead,
  type Head,
  headMac,
  isHeadAuthentic,
  purgeMarkMac,
} from './chain.js'
import vectors from './chain.vectors.json' with { type: 'json' }

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
  return equalBytes(decodeHex(hash), computed) && equalBytes(decodeHex(mac), entryMac(auditKey, computed))
}

async function sha256(bytes: Uint8Array): Promise<string> {
  return encodeHex(new Uint8Array(await crypto.subtle.digest('SHA-256', bytes.slice())))
}

const text = fc.string({ unit: ANY_CHARACTER })
const instant = fc
  .integer({ min: 0, max: Date.parse('9999-12-31T23:59:59.999Z') })
  .map((time) => new Date(time).toISOString())
const anyEntry: fc.Arbitrary<AuditEntry> = fc.record({
  tenant_id: text,
  id: fc.nat(),
  action: text.map((name) => name as AuditEntry['action']),
  key_id: fc.option(text),
  key_version: fc.option(fc.nat()),
  actor: text,
  ip_address: fc.option(text),
  metadata: fc.option(text),
  created_at: text,
})
const anyDraft: fc.Arbitrary<EntryDraft> = anyEntry.map(({ tenant_id: _, id: __, created_at: ___, ...draft }) => draft)

describe('the published chain', () => {
  it.each(vectors.entries)('has these bytes, this hash and this MAC: $name', async (vector) => {
    const at = vector.entry.id - 1
    const previous = at === 0 ? vectors.genesis : (vectors.entries[at - 1]?.hash ?? '')
    const bytes = entryBytes(entryOf(vector.entry))
    if (vector.bytes !== undefined) expect(encodeHex(bytes)).toBe(vector.bytes)
    else expect(await sha256(bytes)).toBe(vector.bytes_sha256)
    const hash = entryHash(decodeHex(previous), entryOf(vector.entry))
    expect(encodeHex(hash)).toBe(vector.hash)
    expect(encodeHex(entryMac(auditKey, hash))).toBe(vector.mac)
  })

  it('starts from a hash that binds the tenant', () => {
    expect(encodeHex(genesisHash(tenant_id))).toBe(vectors.genesis)
  })

  it.each(vectors.genesis_refuse)('does not start from a hash $name', ({ hash }) => {
    expect(encodeHex(genesisHash(tenant_id))).not.toBe(hash)
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

  it('has more vectors to refuse than to take, each with a name of its own', () => {
    expect(vectors.refuse.length).toBeGreaterThan(vectors.entries.length)
    expect(vectors.refuse_heads.length).toBeGreaterThan(vectors.heads.length)
    for (const list of [vectors.refuse, vectors.refuse_heads]) {
      expect(new Set(list.map(({ name }) => name)).size).toBe(list.length)
    }
  })

  it('takes each of its own entries', () => {
    for (const [at, { entry, hash, mac }] of vectors.entries.entries()) {
      const previous = vectors.entries[at - 1]?.hash ?? vectors.genesis
      expect(isTaken({ name: '', previous, entry, hash, mac } as (typeof vectors.refuse)[number])).toBe(true)
    }
  })
})

// What audit_log has, as the migrations say; hash and mac are what is computed.
const COLUMNS = auditLogColumns().filter((column) => column !== 'hash' && column !== 'mac')

describe('the hash of an entry', () => {
  it.each([0, 1, 1_000, 1_250, 1_300, 5_000])(
    'is that of chain.md 2 with %i characters of metadata',
    async (length) => {
      for (const [character, previous] of [
        ['x', 32],
        ['é', 32],
        ['\u{1f510}', 32],
        ['x', 0],
        ['x', 5_000],
      ] as const) {
        const entry = entryOf({ ...vectors.entries[0]?.entry, metadata: character.repeat(length) })
        const before = new Uint8Array(previous).fill(7)
        const label = new TextEncoder().encode('eaas/audit/hash/v1')
        const hashed = Buffer.concat([label, before, entryBytes(entry)])
        expect(encodeHex(entryHash(before, entry))).toBe(await sha256(hashed))
      }
    },
  )
})

describe('the bytes of an entry', () => {
  const entry = entryOf({
    tenant_id,
    id: 2,
    action: 'key.create',
    key_id: '0b54f9a4-6f0e-4c1c-9d2a-5e7a1c3b8f60',
    key_version: 1,
    actor: '6f1b6c1e-3a5e-4f0e-8f57-2f6a0f6f3f10',
    ip_address: '10.0.0.1',
    metadata: '{"name":"users"}',
    created_at: '2026-08-11T09:30:00.001Z',
  })

  it('are of every column that the log has, and of nothing else', () => {
    expect(Object.keys(entry).sort()).toEqual([...COLUMNS].sort())
    expect(JSON.parse(decodeUtf8(entryBytes(entry)))).toHaveLength(COLUMNS.length + 1)
  })

  it.each(COLUMNS)('change with %s, in one place, which without it would be the same', (column) => {
    for (const value of [null, '', 'x', 0, 7]) {
      const other = { ...entry, [column]: value }
      const [one, two] = [entry, other].map((either) => JSON.parse(decodeUtf8(entryBytes(either))) as unknown[])
      const places = one?.flatMap((item, at) => (item === two?.[at] ? [] : [at])) ?? []
      expect(places).toHaveLength(1)
      const without = [one, two].map((items) => JSON.stringify(items?.filter((_, at) => at !== places[0])))
      expect(without[0]).toBe(without[1])
      expect(entryHash(new Uint8Array(32), entry)).not.toEqual(entryHash(new Uint8Array(32), other))
    }
  })

  it('are the same for the same entry only', () => {
    fc.assert(
      fc.property(anyEntry, anyEntry, (one, other) => {
        const same = COLUMNS.every((column) => one[column] === other[column])
        expect(equalBytes(entryBytes(one), entryBytes(other))).toBe(same)
        expect(entryBytes({ ...one })).toEqual(entryBytes(one))
      }),
    )
  })

  it('differ wherever a border between columns slides', () => {
    const border = fc.tuple(text, text, fc.nat({ max: 20 }))
    const pairs = [
      ['tenant_id', 'action'],
      ['actor', 'ip_address'],
      ['ip_address', 'metadata'],
      ['metadata', 'created_at'],
    ] as const
    fc.assert(
      fc.property(anyEntry, border, fc.constantFrom(...pairs), (base, [left, right, at], [first, second]) => {
        const joined = [...(left + right)]
        const slid = [joined.slice(0, at).join(''), joined.slice(at).join('')]
        fc.pre(slid[0] !== left)
        const one = { ...base, [first]: left, [second]: right }
        const other = { ...base, [first]: slid[0], [second]: slid[1] }
        expect(entryBytes(one)).not.toEqual(entryBytes(other))
      }),
    )
  })

  it('read back as the columns, in the order of the format', () => {
    fc.assert(
      fc.property(anyEntry, (entry) => {
        const { tenant_id, id, action, key_id, key_version, actor, ip_address, metadata, created_at } = entry
        const columns = [tenant_id, id, action, key_id, key_version, actor, ip_address, metadata, created_at]
        expect(JSON.parse(decodeUtf8(entryBytes(entry)))).toEqual(['eaas/audit/entry/v1', ...columns])
      }),
    )
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

function auditLogColumns(): (keyof AuditEntry | 'hash' | 'mac')[] {
  return columnsOf('audit_log') as (keyof AuditEntry | 'hash' | 'mac')[]
}

function headColumns(): string[] {
  return columnsOf('heads').sort()
}
