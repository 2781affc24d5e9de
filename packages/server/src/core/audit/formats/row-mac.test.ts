// The MACs of the rows that grant rights: no column of them can be changed unseen, and no row passed off as
// another's.
import { createHmac, createSecretKey } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { decodeHex, encodeHex } from '@eaas/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { columnsOf } from '../../../../../../test/support/database/migrations.js'
import { ANY_CHARACTER } from '../../../../../../test/support/vectors/any-text.js'
import type { ApiKeyRow } from '../../store/api-keys.js'
import type { KeyRow, KeyVersionRow } from '../../store/keys.js'
import { TamperedRowError } from '../../store/tampered-row.js'
import type { TenantRow } from '../../store/tenants.js'
import { apiKeyMac, authentic, keyMac, keyVersionMac, tenantMac, withMac } from './row-mac.js'
import vectors from './row-mac.vectors.json' with { type: 'json' }

const SPEC = readFileSync(new URL('row-mac.md', import.meta.url), 'utf8')

const SECRET = new Uint8Array(32).fill(9)
const rowKey = createSecretKey(SECRET)
const otherRowKey = createSecretKey(new Uint8Array(32).fill(8))

const TENANT = '7c9e6679-7425-40de-944b-e07fc1f90ae7'
const KEY = '0b54f9a4-6f0e-4c1c-9d2a-5e7a1c3b8f60'
const TIME = '2026-08-11T09:30:00.000Z'

/** Columns that no MAC covers, each with the reason. */
const NOT_COVERED: Record<string, string> = {
  mac: 'is the MAC itself',
  last_used_at: 'is told to people, and decides nothing',
  pepper: 'only says which digests are still to be made again',
  store_key: 'is computed by the database from the secret',
}

/** Bytes that no row goes without: the MAC can't be computed of nothing. */
const NEVER_NULL = ['wrapped_audit_key']

type Row = Record<string, unknown> & { tenant_id: string }
type Mac = (key: typeof rowKey, row: Row) => Uint8Array

const tenant: Omit<TenantRow, 'mac'> = {
  tenant_id: TENANT,
  name: 'first',
  envelope_only: true,
  monthly_encrypt_quota: 1_000,
  plaintext_encoding: 'base64',
  status: 'suspended',
  wrapped_audit_key: new Uint8Array([1, 2]),
  created_at: TIME,
  entry_id: 1,
}
const key: Omit<KeyRow, 'mac'> = {
  tenant_id: TENANT,
  key_id: KEY,
  name: 'users',
  algorithm: 'AES-256-GCM',
  status: 'active',
  current_version: 1,
  min_unwrap_version: 3,
  min_unwrap_since: TIME,
  destroyed_through: 2,
  rotation_interval_days: 90,
  next_rotation_at: TIME,
  destroy_at: TIME,
  wrapped_hash_key: new Uint8Array([1, 2]),
  created_at: TIME,
  updated_at: TIME,
  entry_id: 2,
}
const keyVersion: Omit<KeyVersionRow, 'mac'> = {
  tenant_id: TENANT,
  key_id: KEY,
  version: 1,
  status: 'active',
  wrapped_kek: new Uint8Array([1, 2]),
  created_at: TIME,
  entry_id: 2,
}
const apiKey: Omit<ApiKeyRow, 'mac' | 'last_used_at' | 'pepper'> = {
  tenant_id: TENANT,
  api_key_id: KEY,
  digest: 'ab',
  name: 'first',
  prefix: 'eaas_sk_',
  permissions: ['encrypt', 'decrypt'],
  allowed_ips: ['10.0.0.1', '::1'],
  expires_at: TIME,
  revoked_at: TIME,
  created_at: TIME,
  entry_id: 1,
  keys: ['customers/*', 'shop/*'],
  budgets: '{"hash":{"per_day":9}}',
}

/** Each kind of row: a sample, its MAC, and the bytes that are under it, written out by hand. */
const KINDS: { table: string; row: Row; mac: Mac; bytes: string }[] = [
  {
    table: 'tenants',
    row: tenant as unknown as Row,
    mac: tenantMac as unknown as Mac,
    bytes: `["eaas/row/v1","tenants",["${TENANT}","first",true,1000,true,"${TIME}",1,"base64","suspended"]]`,
  },
  {
    table: 'keys',
    row: key as unknown as Row,
    mac: keyMac as unknown as Mac,
    bytes: `["eaas/row/v1","keys",["${TENANT}","${KEY}","users","AES-256-GCM","active",1,90,"${TIME}","${TIME}",true,"${TIME}","${TIME}",2,3,"${TIME}",2]]`,
  },
  {
    table: 'key_versions',
    row: keyVersion as unknown as Row,
    mac: keyVersionMac as unknown as Mac,
    bytes: `["eaas/row/v1","key_versions",["${TENANT}","${KEY}",1,"active",true,"${TIME}",2]]`,
  },
  {
    table: 'api_keys',
    row: apiKey as unknown as Row,
    mac: apiKeyMac as unknown as Mac,
    bytes: `["eaas/row/v1","api_keys",["${TENANT}","${KEY}","ab","first","eaas_sk_",["encrypt","decrypt"],["10.0.0.1","::1"],"${TIME}","${TIME}","${TIME}",1,["customers/*","shop/*"],"{\\"hash\\":{\\"per_day\\":9}}"]]`,
  },
]

/**
 * What a thief would put in place of a value: something else of its type, nothing, something that looks
 * alike.
 */
function otherValues(value: unknown): unknown[] {
  if (typeof value === 'boolean') return [!value]
  if (typeof value === 'number') return [value + 1, value - 1, value * 10, null, String(value)]
  if (value instanceof Uint8Array) return [null] // the seal itself is bound to its row, see key-hierarchy.md 3
  if (Array.isArray(value)) {
    return [[], [...value, 'admin'], value.slice(1), [...value].reverse().concat('x'), [value.join(',')], ['']]
  }
  if (typeof value === 'string') return [`${value} `, value.slice(1), '', value.toUpperCase(), null]
  if (value === undefined) throw new Error('the sample row of this test lacks this column')
  throw new Error('a column of a type that this test does not know')
}

/** The columns that row-mac.md 1 lists for a table, in its order. */
function specifiedColumns(table: string): string[] {
  const [, listed = ''] = new RegExp(`^\\| \`${table}\` \\| (.*) \\|$`, 'm').exec(SPEC) ?? []
  return listed.split(', ')
}

describe.each(KINDS)('the MAC of a row of $table', ({ table, row, mac, bytes }) => {
  it('is the HMAC of the bytes that the format says', () => {
    expect(Buffer.from(mac(rowKey, row)).toString('hex')).toBe(createHmac('sha256', SECRET).update(bytes).digest('hex'))
  })

  it('is of every column that the migrations give the table', () => {
    const covered = columnsOf(table).filter((column) => !(column in NOT_COVERED))
    expect(covered.length).toBeGreaterThan(5)
    expect(Object.keys(row).sort()).toEqual(covered.sort())
  })

  it('is of the columns that row-mac.md lists, in its order', () => {
    const columns = specifiedColumns(table)
    expect([...columns].sort(), 'row-mac.md').toEqual(Object.keys(row).sort())
    for (const one of [row, Object.fromEntries(columns.map((column) => [column, null]))] as Row[]) {
      const values = columns.map((column) => (one[column] instanceof Uint8Array ? true : one[column]))
      const text = JSON.stringify(['eaas/row/v1', table, values])
      expect(encodeHex(mac(rowKey, one)), text).toBe(createHmac('sha256', SECRET).update(text).digest('hex'))
    }
  })

  it.each(columnsOf(table).filter((column) => !(column in NOT_COVERED)))('changes with %s', (column) => {
    const before = Buffer.from(mac(rowKey, row))
    for (const value of otherValues(row[column])) {
      if (value === row[column] || (value === null && NEVER_NULL.includes(column))) continue
      expect(before.equals(mac(rowKey, { ...row, [column]: value })), `${column} = ${String(value)}`).toBe(false)
    }
  })

  it('is the same however a secret of the row is sealed', () => {
    const secrets = Object.entries(row).filter(([, value]) => value instanceof Uint8Array)
    for (const [column] of secrets) {
      expect(mac(rowKey, { ...row, [column]: new Uint8Array([3]) })).toEqual(mac(rowKey, row))
    }
  })

  it('is another one under the row key of another tenant', () => {
    expect(Buffer.from(mac(rowKey, row)).equals(mac(otherRowKey, row))).toBe(false)
  })

  it('lets the row as it was written through, and nothing else', () => {
    const sealed = withMac(row, mac, rowKey)
    expect(authentic(sealed, mac as never, rowKey)).toBe(sealed)
    for (const wrong of [new Uint8Array(32), new Uint8Array(0), sealed.mac.slice(0, 31), flipped(sealed.mac)]) {
      expect(() => authentic({ ...sealed, mac: wrong }, mac as never, rowKey)).toThrow(TamperedRowError)
    }
    expect(() => authentic(sealed, mac as never, otherRowKey)).toThrow(TamperedRowError)
    expect(() => authentic({ ...sealed, entry_id: 99 }, mac as never, rowKey)).toThrow(TamperedRowError)
  })

  it('leaves no bytes of the row in memory that others share, which a row in memory would keep', () => {
    const inPool = (value: unknown) => (value instanceof Uint8Array ? Buffer.from(value) : value)
    const sealed = withMac(row, mac, rowKey)
    const read = Object.fromEntries(Object.entries(sealed).map(([name, value]) => [name, inPool(value)]))
    expect(authentic(read as typeof sealed, mac as never, rowKey)).toBe(read)
    for (const bytes of Object.values(read)) {
      if (bytes instanceof Uint8Array) expect(bytes.buffer.byteLength).toBe(bytes.length)
    }
  })

  it('names the tenant when it refuses, and no value of the row', () => {
    const refused = () => authentic({ ...row, mac: new Uint8Array(32) }, mac as never, rowKey)
    expect(refused).toThrow(TENANT)
    expect(refused).toThrow(expect.objectContaining({ message: expect.not.stringContaining('users') }))
  })
})

interface Vector {
  row_key: string
  table: string
  row: object
}

/** A vector's row, with its bytes as the store has them; its MAC by the server. */
function macOf({ row_key, table, row }: Vector): string {
  const columns = Object.entries(row).map(([name, value]) => [
    name,
    name.startsWith('wrapped_') && value !== null ? decodeHex(value as string) : value,
  ])
  const kind = KINDS.find((one) => one.table === table)
  if (!kind) throw new Error(`a table that this test does not know: ${table}`)
  return encodeHex(kind.mac(createSecretKey(decodeHex(row_key)), Object.fromEntries(columns)))
}

describe('the published MACs of rows', () => {
  it.each(vectors.mac)('are the server’s: $name', (vector) => {
    const { bytes, mac, row_key } = vector
    expect(createHmac('sha256', decodeHex(row_key)).update(bytes).digest('hex')).toBe(mac)
    expect(macOf(vector)).toBe(mac)
  })

  it.each(vectors.refuse)('are not of another row or by a mistake: $name', (vector) => {
    expect(macOf(vector)).not.toBe(vector.mac)
  })

  it('are of every table', () => {
    expect(new Set(vectors.mac.map(({ table }) => table))).toEqual(new Set(KINDS.map(({ table }) => table)))
  })
})

describe('row MACs', () => {
  it('are the same for the same row of an API key only', () => {
    const text = fc.string({ unit: ANY_CHARACTER, maxLength: 8 })
    const rows = fc.record({
      tenant_id: text,
      api_key_id: text,
      digest: text,
      name: text,
      prefix: text,
      permissions: fc.array(text, { maxLength: 3 }) as fc.Arbitrary<ApiKeyRow['permissions']>,
      allowed_ips: fc.array(text, { maxLength: 3 }),
      keys: fc.option(fc.array(text, { maxLength: 3 })),
      budgets: fc.option(text),
      expires_at: fc.option(text),
      revoked_at: fc.option(text),
      created_at: text,
      entry_id: fc.nat({ max: 3 }),
    })
    fc.assert(
      fc.property(rows, rows, (one, other) => {
        const same = JSON.stringify(one) === JSON.stringify(other)
        expect(Buffer.from(apiKeyMac(rowKey, one)).equals(apiKeyMac(rowKey, other))).toBe(same)
        expect(apiKeyMac(rowKey, { ...one })).toEqual(apiKeyMac(rowKey, one))
      }),
    )
  })

  it('tell lists apart whose texts join to the same', () => {
    const text = fc.string({ unit: fc.constantFrom('a', ',', '"', '[', ']', '\\'), maxLength: 4 })
    fc.assert(
      fc.property(fc.array(text, { maxLength: 4 }), fc.array(text, { maxLength: 4 }), (one, other) => {
        const same = one.length === other.length && one.every((item, at) => item === other[at])
        const macs = [one, other].map((allowed_ips) => Buffer.from(apiKeyMac(rowKey, { ...apiKey, allowed_ips })))
        expect(macs[0]?.equals(macs[1] ?? Buffer.alloc(0))).toBe(same)
      }),
      { numRuns: 500 },
    )
  })

  it('tell what moved from one column to the next', () => {
    const text = fc.string({ unit: fc.constantFrom('a', '"', ',', '\\'), maxLength: 5 })
    fc.assert(
      fc.property(text, text, text, text, (name, prefix, otherName, otherPrefix) => {
        const same = name === otherName && prefix === otherPrefix
        const one = Buffer.from(apiKeyMac(rowKey, { ...apiKey, name, prefix }))
        expect(one.equals(apiKeyMac(rowKey, { ...apiKey, name: otherName, prefix: otherPrefix }))).toBe(same)
      }),
      { numRuns: 500 },
    )
  })
})

function flipped(mac: Uint8Array): Uint8Array {
  return mac.map((byte, at) => (at === 31 ? byte ^ 1 : byte))
}
