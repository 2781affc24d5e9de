// The bytes of values (codecs.md), by the published vectors.
import { decodeHex, encodeHex } from '@eaas/protocol'
import { describe, expect, it } from 'vitest'
import { ContentError } from '../errors.js'
import * as Json from '../json.js'
import { encodeField } from './codecs.js'
import vectors from './codecs.vectors.json' with { type: 'json' }
import { boolean, bytes, date, type FieldCode, type FieldKind, json, number, text } from './fields.js'
import { decodeField } from './open-rows.js'

interface Vector {
  kind: string
  name: string
  value: unknown
  bytes: string
  pad?: number
}

const PLACE = { index: 0, field: 'value' }
const encode: Vector[] = vectors.encode
const read: Vector[] = vectors.read

const FIELDS = { boolean: boolean(), bytes: bytes(), date: date(), json: json(), number: number(), text: text() }
const KINDS = Object.keys(FIELDS) as FieldKind[]
const specOf = (kind: string, pad?: number) => ({ ...(FIELDS[kind as FieldKind]['~spec'] as FieldCode), pad })

/** A vector's value as an application has it. */
function fieldValue({ kind, value }: Vector): unknown {
  if (kind === 'bytes') return decodeHex(String(value))
  if (kind === 'number') return new DataView(decodeHex(String(value)).buffer).getFloat64(0)
  if (kind === 'date') return new Date(Number(value))
  return kind === 'json' ? JSON.parse(String(value)) : value
}

describe('the value of a field', () => {
  it.each(encode)('is sealed as published: $kind, $name', (vector) => {
    expect(encodeHex(encodeField(specOf(vector.kind, vector.pad), fieldValue(vector), PLACE, Json))).toBe(vector.bytes)
  })

  it.each([...encode, ...read])('is read as published: $kind, $name', (vector) => {
    expect(decodeField(specOf(vector.kind), decodeHex(vector.bytes), PLACE)).toEqual(fieldValue(vector))
  })

  it.each(vectors.refuse)('is not read from anything else: $kind, $name', ({ kind, bytes }) => {
    expect(() => decodeField(specOf(kind), decodeHex(bytes), PLACE)).toThrow(ContentError)
  })

  it('has more vectors to refuse than to read, and some of each kind', () => {
    expect(vectors.refuse.length).toBeGreaterThan(encode.length + read.length)
    expect([...new Set(encode.map(({ kind }) => kind))].sort()).toEqual(KINDS)
  })
})
