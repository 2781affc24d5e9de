// What entries say of the names and the rights of API keys: chain.md 12.
import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { type Grant, recordGrant, recordGrantBefore } from './recorded-grant.js'

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
const grant: Grant = {
  name: 'till',
  permissions: ['keys:read', 'encrypt'],
  expires_at: null,
  allowed_ips: [],
  keys: null,
  budgets: null,
}
const recorded = (allowed_ips: string[]) => recordGrant({ ...grant, allowed_ips }, sha256)

describe('the grant of an API key', () => {
  it('has its lists sorted, and null where any address is allowed', () => {
    expect(recorded([])).toEqual({
      name: 'till',
      permissions: 'encrypt keys:read',
      expires_at: null,
      allowed_ips: null,
    })
    expect(recorded(['10.0.0.2', '10.0.0.1'])).toMatchObject({ allowed_ips: '10.0.0.1 10.0.0.2' })
  })

  it('has a list of 1,024 characters as it is, and a longer one as its number and its SHA-256', () => {
    const of127 = Array.from({ length: 127 }, () => '1.2.3.4')
    const [most, more] = [
      ['11.2.3.4', ...of127],
      ['111.2.3.4', ...of127],
    ]
    const list = [...most].sort().join(' ')
    expect(list.length).toBe(1_024)
    expect(recorded(most)).toMatchObject({ allowed_ips: list })
    expect(recorded(more)).toEqual({
      name: 'till',
      permissions: 'encrypt keys:read',
      expires_at: null,
      allowed_ips_count: 128,
      allowed_ips_sha256: sha256([...more].sort().join(' ')),
    })
  })

  it('has its keys sorted, as JSON, and none of them if it is not limited', () => {
    expect(recordGrant({ ...grant, keys: ['customers/*', 'a b/*'] }, sha256)).toMatchObject({
      keys: '["a b/*","customers/*"]',
    })
    expect(recordGrant({ ...grant, keys: [] }, sha256)).toMatchObject({ keys: '[]' })
    expect(recorded([])).not.toHaveProperty('keys')
  })

  it('of before a change has only what the change made different, in whatever order', () => {
    const before: Grant = { ...grant, allowed_ips: ['10.0.0.1', '10.0.0.2'] }
    const reordered = { ...grant, permissions: [...grant.permissions].reverse(), allowed_ips: ['10.0.0.2', '10.0.0.1'] }
    expect(recordGrantBefore(before, reordered, sha256)).toEqual({})
    const after: Grant = {
      name: 'shop',
      permissions: ['encrypt'],
      expires_at: '2030-01-01T00:00:00.000Z',
      allowed_ips: [],
      keys: ['b', 'a'],
      budgets: '{"hash":{"per_day":9}}',
    }
    expect(recordGrantBefore(before, after, sha256)).toEqual({
      name_before: 'till',
      permissions_before: 'encrypt keys:read',
      expires_at_before: null,
      allowed_ips_before: '10.0.0.1 10.0.0.2',
      keys_before: null,
      budgets_before: null,
    })
    expect(recordGrantBefore(after, before, sha256)).toMatchObject({
      allowed_ips_before: null,
      keys_before: '["a","b"]',
      budgets_before: '{"hash":{"per_day":9}}',
    })
    expect(recordGrant(after, sha256)).toMatchObject({ budgets: '{"hash":{"per_day":9}}' })
    expect(recorded([])).not.toHaveProperty('budgets')
  })
})
