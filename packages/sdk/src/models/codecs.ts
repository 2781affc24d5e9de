/** The bytes that are sealed for a field's value (codecs.md): `fields.ts` makes them for each kind; here they are padded. */
import type { RecordPlace } from '../errors.js'
import { PADDING } from './definition.js'
import type { FieldCode, WriteJson } from './fields.js'

export function encodeField(spec: FieldCode, value: unknown, place: RecordPlace, json: WriteJson): Uint8Array {
  const { pad } = spec
  const encoded = spec.encode(value, place, json)
  if (pad === undefined) return encoded
  const padded = new Uint8Array((Math.floor(encoded.length / pad) + 1) * pad)
  padded.set(encoded)
  padded[encoded.length] = PADDING
  return padded
}
