// The values of index columns (index-texts.md), by the published vectors.
import { createHmac } from 'node:crypto'
import { decodeHex } from '@eaas/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { InvalidInputError } from '../errors.js'
import { type FieldCode, text } from './fields.js'
import { type IndexColumn, makeFieldText, type Normalizer } from './index-columns.js'
import { makeColumnTexts, makeColumnValue } from './index-texts.js'
import vectors from './index-texts.vectors.json' with { type: 'json' }

interface Vector {
  hash_key: string
  model: string
  column: string
  shared: boolean
  texts: string[]
  bits: number
}

const columnOf = ({ column, shared, bits }: Omit<Vector, 'hash_key' | 'model' | 'texts'>): IndexColumn => ({
  ...{ column, shared, bits },
  ...{ fields: [], kind: 'exact', length: 0 },
  source: {
    secret: undefined,
    oblivious: false,
    publicKey: undefined,
    isFormer: false,
    keyId: undefined,
    named: undefined,
  },
})
const textOf = (vector: Vector) => makeColumnTexts(vector.model, columnOf(vector), vector.texts).toString()

/** The value as a model stores it; the hash is the one that the server answers (blind-index.md 1). */
function storedValue(vector: Vector): string {
  const hash = createHmac('sha256', decodeHex(vector.hash_key)).update(textOf(vector)).digest('hex')
  return makeColumnValue(columnOf(vector), hash)
}

describe('an index column', () => {
  it.each(vectors.column)('has the text and the value as published: $name', (vector) => {
    expect(textOf(vector)).toBe(vector.text)
    expect(storedValue(vector)).toBe(vector.value)
  })

  it.each(vectors.normalize)('is made of normalised text: $name', ({ normalize, result, ...vector }) => {
    const spec = text({ normalize: normalize as Normalizer[] })['~spec'] as FieldCode
    const make = () => makeFieldText({ name: 'value', path: ['value'], spec }, vector.text)
    if (result === null) expect(make).toThrow(InvalidInputError)
    else expect(make()).toBe(result)
  })

  it.each(vectors.refuse)('has no other value: $name', (vector) => {
    expect(storedValue(vector)).not.toBe(vector.value)
  })

  it.each(vectors.refuse_text)(
    'that is shared takes no text that another column hashes: $name',
    ({ text: refused }) => {
      const shared = columnOf({ column: 'email_index', shared: true, bits: 256 })
      const place = { index: 3, field: 'nick' }
      expect(() => makeColumnTexts('users', shared, [refused], place)).toThrow(expect.objectContaining({ place }))
      expect(makeColumnTexts('users', { ...shared, shared: false }, [refused])).toContain(refused)
    },
  )

  it('has another text for each model, column and list of texts', () => {
    const part = fc.oneof(fc.string({ unit: 'grapheme' }), fc.stringMatching(/^[0-9:a]{0,6}$/))
    const parts = fc.array(part, { minLength: 3, maxLength: 5 })
    const make = ([model = '', column = '', ...texts]: string[]) =>
      makeColumnTexts(model, columnOf({ column, shared: false, bits: 256 }), texts)
    fc.assert(
      fc.property(parts, parts, (one, other) => {
        expect(make(one) === make(other)).toBe(JSON.stringify(one) === JSON.stringify(other))
      }),
    )
  })

  it('has more vectors to refuse than to hold', () => {
    expect(vectors.refuse.length + vectors.refuse_text.length).toBeGreaterThan(
      vectors.column.length + vectors.normalize.length,
    )
  })
})
