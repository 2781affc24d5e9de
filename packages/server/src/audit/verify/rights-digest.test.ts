// The digest of the rights that a purge leaves behind, see chain.md 8.
import { describe, expect, it } from 'vitest'
import vectors from '../formats/chain.vectors.json' with { type: 'json' }
import { rightsAt, rightsDigest } from './rights-digest.js'

type Row = [name: string, entry_id: number]

describe('the digest of rights', () => {
  it.each(vectors.rights)('is the published one: $name', ({ digest, rights, ...where }) => {
    expect(rightsDigest(where, new Map(rights as Row[]))).toBe(digest)
    expect(rightsDigest(where, new Map((rights as Row[]).reverse()))).toBe(digest)
  })

  it.each(vectors.refuse_rights)('is not the one $name', ({ digest }) => {
    const [{ rights, ...where } = { rights: [], tenant_id: '', purged_through: 0 }] = vectors.rights
    expect(rightsDigest(where, new Map(rights as Row[]))).not.toBe(digest)
  })
})

describe('the rights at an entry', () => {
  const log = {
    before: new Map([
      ['tenant', 1],
      ['key a', 3],
    ]),
    changes: [
      { name: 'key b', entry_id: 5 },
      { name: 'key a', entry_id: 6 },
      { name: 'key b', entry_id: 8 },
    ],
    last_id: 9,
  }

  it.each([
    [4, { tenant: 1, 'key a': 3 }],
    [5, { tenant: 1, 'key a': 3, 'key b': 5 }],
    [7, { tenant: 1, 'key a': 6, 'key b': 5 }],
    [9, { tenant: 1, 'key a': 6, 'key b': 8 }],
  ])('%i are those that the entries up to it recorded', (id, expected) => {
    expect(Object.fromEntries(rightsAt(log, id))).toEqual(expected)
  })
})
