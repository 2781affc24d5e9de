// The entries of the audit chain, see chain.md: their bytes and hashes.
import { decodeHex, encodeHex, encodeUtf8 } from '@eaas/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { columnsOf } from '../../../../test/support/database/migrations.js'
import { ANY_ENTRY, ANY_TEXT } from '../../../../test/support/vectors/any-text.js'
import { type AuditEntry, entryHash, entryText, genesisHash } from './chain.js'
import vectors from './chain.vectors.json' with { type: 'json' }

const { tenant_id } = vectors

/** Vectors know no types: an altered entry may name an action that there is none of. */
function entryOf(entry: object): AuditEntry {
  return entry as AuditEntry
}

async function sha256(bytes: Uint8Array): Promise<string> {
  return encodeHex(new Uint8Array(await crypto.subtle.digest('SHA-256', bytes.slice())))
}

describe('the published chain', () => {
  it.each(vectors.entries)('has these bytes and this hash: $name', async (vector) => {
    const at = vector.entry.id - 1
    const previous = at === 0 ? vectors.genesis : (vectors.entries[at - 1]?.hash ?? '')
    const bytes = encodeUtf8(entryText(entryOf(vector.entry)))
    if (vector.bytes !== undefined) expect(encodeHex(bytes)).toBe(vector.bytes)
    else expect(await sha256(bytes)).toBe(vector.bytes_sha256)
    expect(encodeHex(entryHash(decodeHex(previous), entryOf(vector.entry)))).toBe(vector.hash)
  })

  it('starts from a hash that binds the tenant', () => {
    expect(encodeHex(genesisHash(tenant_id))).toBe(vectors.genesis)
  })

  it.each(vectors.genesis_refuse)('does not start from a hash $name', ({ hash }) => {
    expect(encodeHex(genesisHash(tenant_id))).not.toBe(hash)
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
        const hashed = Buffer.concat([label, before, encodeUtf8(entryText(entry))])
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
    expect(JSON.parse(entryText(entry))).toHaveLength(COLUMNS.length + 1)
  })

  it.each(COLUMNS)('change with %s, in one place, which without it would be the same', (column) => {
    for (const value of [null, '', 'x', 0, 7]) {
      const other = { ...entry, [column]: value }
      const [one, two] = [entry, other].map((either) => JSON.parse(entryText(either)) as unknown[])
      const places = one?.flatMap((item, at) => (item === two?.[at] ? [] : [at])) ?? []
      expect(places).toHaveLength(1)
      const without = [one, two].map((items) => JSON.stringify(items?.filter((_, at) => at !== places[0])))
      expect(without[0]).toBe(without[1])
      expect(entryHash(new Uint8Array(32), entry)).not.toEqual(entryHash(new Uint8Array(32), other))
    }
  })

  it('are the same for the same entry only', () => {
    fc.assert(
      fc.property(ANY_ENTRY, ANY_ENTRY, (one, other) => {
        const same = COLUMNS.every((column) => one[column] === other[column])
        expect(entryText(one) === entryText(other)).toBe(same)
        expect(entryText({ ...one })).toBe(entryText(one))
      }),
    )
  })

  it('differ wherever a border between columns slides', () => {
    const border = fc.tuple(ANY_TEXT, ANY_TEXT, fc.nat({ max: 20 }))
    const pairs = [
      ['tenant_id', 'action'],
      ['actor', 'ip_address'],
      ['ip_address', 'metadata'],
      ['metadata', 'created_at'],
    ] as const
    fc.assert(
      fc.property(ANY_ENTRY, border, fc.constantFrom(...pairs), (base, [left, right, at], [first, second]) => {
        const joined = [...(left + right)]
        const slid = [joined.slice(0, at).join(''), joined.slice(at).join('')]
        fc.pre(slid[0] !== left)
        const one = { ...base, [first]: left, [second]: right }
        const other = { ...base, [first]: slid[0], [second]: slid[1] }
        expect(entryText(one)).not.toBe(entryText(other))
      }),
    )
  })

  it('read back as the columns, in the order of the format', () => {
    fc.assert(
      fc.property(ANY_ENTRY, (entry) => {
        const { tenant_id, id, action, key_id, key_version, actor, ip_address, metadata, created_at } = entry
        const columns = [tenant_id, id, action, key_id, key_version, actor, ip_address, metadata, created_at]
        expect(JSON.parse(entryText(entry))).toEqual(['eaas/audit/entry/v1', ...columns])
      }),
    )
  })
})

function auditLogColumns(): (keyof AuditEntry | 'hash' | 'mac')[] {
  return columnsOf('audit_log') as (keyof AuditEntry | 'hash' | 'mac')[]
}
