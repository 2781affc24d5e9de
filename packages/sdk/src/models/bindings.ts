/** What a model binds its values to (bindings.md): the AAD of each field of a row. */
import { concatBytes, contextAad, encodeContext } from '@eaas/protocol'
import { InvalidInputError } from '../errors.js'
import { kindOf, type Row } from '../input.js'
import { readingContext } from '../records/bound-envelopes.js'
import { getAt } from '../records/paths.js'
import type { Definition } from './definition.js'

/** How many of them a model keeps: it has several for each key, and may have a key for each row. */
const MAX_HEADS = 2_000

/** The AAD of a field without the pairs of the row, by key and field: the same for all rows. */
const heads = new WeakMap<Definition, Map<string, Uint8Array>>()

/**
 * Encodes the pairs of a row that all its values are bound to; undefined in a model of format v1.
 *
 * @throws InvalidInputError when the row has no value, or one that is not text or a whole number, in a column
 * that the model binds to
 */
export function bindRow({ envelope, bind }: Definition, row: Row, index: number): Uint8Array | undefined {
  if (envelope === 1) return undefined
  const pairs = bind.map(({ name, path }) => [`row.${name}`, boundText(getAt(row, path), name, index)] as const)
  return readingContext(() => encodeContext(Object.fromEntries(pairs)), { index, field: 'bind' })
}

/**
 * Returns the AAD of a field in the row of `bindRow` (bindings.md 1), under a key. @throws InvalidInputError
 * when the names are too long
 */
export function bindField(definition: Definition, keyId: string, field: string, row: Uint8Array): Uint8Array {
  const { whole = definition } = definition // one of some fields may be made for each call
  const known = heads.get(whole) ?? new Map<string, Uint8Array>()
  heads.set(whole, known)
  const name = `${keyId}/${field}`
  // `field` and `model` come before every `row.…`, so the pairs can be encoded apart.
  const head = known.get(name) ?? readingContext(() => contextAad(keyId, { model: definition.name, field }))
  if (known.size >= MAX_HEADS) known.clear()
  known.set(name, head)
  return concatBytes(head, row)
}

/** Names what is no text and no whole number, without any of its content. */
function kindOfUnbound(value: unknown): string {
  if (value === '') return 'no text'
  if (typeof value !== 'number' || !Number.isFinite(value)) return kindOf(value)
  return Number.isInteger(value) ? 'a whole number that is too large to be exact' : 'a number with a fraction'
}

/** bindings.md 2. */
function boundText(value: unknown, field: string, index: number): string {
  if (Number.isSafeInteger(value) || typeof value === 'bigint' || (typeof value === 'string' && value !== ''))
    return `${value}`
  throw new InvalidInputError(
    `a column of bind must hold text or a whole number, got ${kindOfUnbound(value)}`,
    'Give the row its id before it is encrypted or changed, and select its column when it is read.',
    { index, field },
  )
}
