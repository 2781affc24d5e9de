// The compact form of rows (compact-rows.md), by the published vectors.
import { describe, expect, it } from 'vitest'
import { InvalidInputError } from '../errors.js'
import { packRow, unpackRow } from './compact-rows.js'
import vectors from './compact-rows.vectors.json' with { type: 'json' }

const published = [
  ...vectors.pack.map((one) => ({ ...one, format: 'compact' as const })),
  ...vectors.pack_text.map((one) => ({ ...one, format: 'compact-text' as const })),
]

describe('a compact row', () => {
  it.each(published)(
    'is packed and expanded as published: $format, $name',
    ({ format, row, compact, paths, header }) => {
      expect(packRow(row, paths, { format, header })).toEqual(compact)
      expect(unpackRow(compact, paths, header)).toEqual(row)
    },
  )

  it.each(published)('is the same when it is packed again: $format, $name', ({ format, compact, paths, header }) => {
    expect(packRow(compact, paths, { format, header })).toEqual(compact)
  })

  it.each(vectors.expand)('is expanded as published: $name', ({ compact, row, paths, header }) => {
    expect(unpackRow(compact, paths, header)).toEqual(row)
  })

  it.each(vectors.refuse_pack)('is not made of $name', ({ row, paths, header }) => {
    for (const format of ['compact', 'compact-text'] as const)
      expect(() => packRow(row, paths, { format, header })).toThrow(InvalidInputError)
  })

  it.each(vectors.refuse_expand)('is not expanded with $name', ({ row, paths, header }) => {
    expect(() => unpackRow(row, paths, header)).toThrow(InvalidInputError)
  })

  it('has more vectors to refuse than to take', () => {
    const refused = vectors.refuse_pack.length + vectors.refuse_expand.length
    expect(refused).toBeGreaterThan(published.length + vectors.expand.length)
  })
})
