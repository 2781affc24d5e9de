// The values of index columns (index-texts.md), by the published vectors.
import { createHmac } from 'node:crypto'
import { decodeHex } from '@eaas/protocol'
import { describe, expect, it } from 'vitest'
import { InvalidInputError } from '../errors.js'
import { makeFieldText, type Normalizer } from './field-texts.js'
import { text } from './fields.js'
import type { IndexColumn } from './index-columns.js'
import { joinTexts, makeColumnTexts } from './index-texts.js'
import vectors from './index-texts.vectors.json' with { type: 'json' }
import { makeColumnValue } from './index-values.js'

interface Vector {
  hash_key: string
  compound: boolean
  texts: string[]
  bits: number
}

const columnOf = ({ bits }: Vector): IndexColumn => ({ column: 'index', fields: [], bits, kind: 'exact', length: 0 })
/** The format knows an index of several fields that has one; a model refuses it. */
const textOf = (vector: Vector) =>
  vector.compound ? joinTexts(vector.texts) : makeColumnTexts(columnOf(vector), vector.texts).toString()

/** The value as a model stores it; the hash is the one that the server answers (blind-index.md 1). */
function storedValue(vector: Vector): string {
  const hash = createHmac('sha256', decodeHex(vector.hash_key)).update(textOf(vector)).digest('hex')
  return makeColumnValue(columnOf(vector), hash)
}

describe('an index column', () => {
  it.each(vectors.column)('has the text and the value as published: $name', (vector) => {
    expect(textOf(vector)).toBe(vector.text)
    if (vector.texts.length > 1) expect(makeColumnTexts(columnOf(vector), vector.texts)).toBe(vector.text)
    expect(storedValue(vector)).toBe(vector.value)
  })

  it.each(vectors.normalize)('is made of normalised text: $name', ({ normalize, result, ...vector }) => {
    const { '~spec': spec } = text({ normalize: normalize as Normalizer[] })
    const make = () => makeFieldText({ name: 'value', path: ['value'], spec }, vector.text)
    if (result === null) expect(make).toThrow(InvalidInputError)
    else expect(make()).toBe(result)
  })

  it.each(vectors.refuse)('has no other value: $name', (vector) => {
    expect(storedValue(vector)).not.toBe(vector.value)
  })

  it('has more vectors to refuse than to hold', () => {
    expect(vectors.refuse.length).toBeGreaterThan(vectors.column.length + vectors.normalize.length)
  })
})
