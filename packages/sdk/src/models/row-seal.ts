/** A row's seal (bindings.md 4): an envelope without plaintext, bound to the fields with a value, their ciphertexts and indexes. */
import { compareUtf8, concatBytes, encodeUtf8, isWellFormed, lengthPrefixed } from '@eaas/protocol'
import { DecryptionError, InvalidInputError, type RecordPlace } from '../errors.js'
import { isMissing, type Row, valueIn } from '../input.js'
import { getAt } from '../records/paths.js'
import type { Plaintext } from '../records/seal-envelopes.js'
import { bindField } from './bindings.js'
import { type Definition, type PlacedField, ROW_SEAL, SEAL_FIELD } from './definition.js'
import { looksSealed } from './plain-texts.js'

const LABEL = encodeUtf8('eaas/row/v1')
const NONE = new Uint8Array(0)

export type Cell = { iv: Uint8Array; sealed: Uint8Array }

/** Returns the AAD of a row's seal. `row` has its stored index columns; `cellOf` returns undefined for no value. */
export function sealAad(
  definition: Definition,
  keyId: string,
  { row, binding, cellOf }: { row: Row; binding: Uint8Array; cellOf: (field: PlacedField) => Cell | undefined },
): Uint8Array {
  const { fields, columns } = definition.whole ?? definition
  const cells = inOrder(fields, ({ name }) => name).flatMap((field) => {
    const cell = cellOf(field)
    return cell ? [encodeUtf8(field.name), cell.iv, cell.sealed] : []
  })
  const indexes = inOrder(columns, ({ column }) => column).flatMap(({ column }) => {
    const value = valueIn(row, column)
    return isMissing(value) ? [] : [encodeUtf8(column), indexBytes(value)]
  })
  const head = bindField(definition, keyId, ROW_SEAL, binding)
  return concatBytes(head, lengthPrefixed([LABEL, lengthPrefixed(cells), lengthPrefixed(indexes)]))
}

export function sealPlaintext(...parts: Parameters<typeof sealAad>): Plaintext {
  return { bytes: NONE, aad: sealAad(...parts) }
}

export function assertSealColumn(row: Row, index: number): void {
  const value = valueIn(row, ROW_SEAL)
  if (isMissing(value) || looksSealed(value)) return
  const hint = 'Rename that column.'
  throw new InvalidInputError(`record ${index}: the seal would overwrite the column "${ROW_SEAL}"`, hint)
}

/** False for an empty row, as from an outer join. @throws InvalidInputError if a column was not read; DecryptionError */
export function hasSeal({ acceptUnbound, bind, ...definition }: Definition, row: Row, place: RecordPlace): boolean {
  const value = valueIn(row, ROW_SEAL)
  const { fields, columns } = definition.whole ?? definition
  const unread =
    columns.find(({ column }) => valueIn(row, column) === undefined)?.column ??
    fields.find(({ path, spec }) => getAt(row, path) === undefined && !spec.missing.includes(undefined))?.name
  if (!isMissing(value) && unread === undefined) return true
  const isEmpty =
    [SEAL_FIELD, ...bind].every(({ path }) => getAt(row, path) === null) &&
    fields.every(({ path }) => isMissing(getAt(row, path)))
  if (acceptUnbound || isEmpty) return false
  if (value === undefined || unread !== undefined) {
    const hint = 'Read its column too.'
    throw new InvalidInputError(`the column ${JSON.stringify(unread ?? ROW_SEAL)} is missing`, hint, place)
  }
  const hint =
    'The row has no seal. If you know who sealed it, pass `acceptUnbound: true`; else restore it from a backup.'
  throw new DecryptionError(place, { hint })
}

function inOrder<T>(list: readonly T[], nameOf: (one: T) => string): T[] {
  return [...list].sort((a, b) => compareUtf8(nameOf(a), nameOf(b)))
}

/** bindings.md 4: byte 1 and a text, or 2 and a list. Anything else gives no bytes, so that the seal does not open. */
function indexBytes(value: unknown): Uint8Array {
  if (isWellFormed(value)) return concatBytes(Uint8Array.of(1), encodeUtf8(value))
  if (!Array.isArray(value) || !value.every(isWellFormed)) return NONE
  return concatBytes(Uint8Array.of(2), lengthPrefixed(value.map((part) => encodeUtf8(part))))
}
