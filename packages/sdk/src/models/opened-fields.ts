/** Reads what was opened as the value of a field (codecs.md). */
import type { RecordPlace } from '../errors.js'
import { PADDING } from './definition.js'
import type { FieldCode } from './fields.js'

/** Reads opened bytes as a value of the field's kind, padded or not. @throws ContentError */
export function decodeField(spec: FieldCode, opened: Uint8Array, place: RecordPlace): unknown {
  return spec.decode(spec.kind === 'bytes' ? opened : withoutPadding(opened), place)
}

function withoutPadding(opened: Uint8Array): Uint8Array {
  let end = opened.length
  while (opened[end - 1] === 0) end--
  return opened[end - 1] === PADDING ? opened.subarray(0, end - 1) : opened
}
