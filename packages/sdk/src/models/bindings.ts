/** What a model binds its values to (bindings.md): the AAD of each field. Its columns also name a row in errors. */
import { type Context, concatBytes, contextAad, encodeContext } from '@eaas/protocol'
import { isEaasError, nameRecord } from '../errors.js'
import type { Row } from '../input.js'
import { readingContext } from '../records/bound-envelopes.js'
import { getAt } from '../records/paths.js'
import { readBound, type Uses, usesOfModel } from '../uses.js'
import type { Definition, Rare } from './definition.js'

/** One for each key and field, and a model may have a key for each row. */
const MAX_HEADS = 2_000
/** The AAD of a field without the row's pairs, by key and field: the same for all rows. */
const heads = new WeakMap<Definition, Map<string, Uint8Array>>()

/** Encodes the row's pairs that its values are bound to; undefined for format v1. @throws InvalidInputError */
export function bindRow(definition: Definition, row: Row, index: number): Uint8Array | undefined {
  if (definition.envelope === 1) return undefined
  const pairs = pairsOf(definition, row, index)
  return readingContext(() => encodeContext(pairs), { index, field: 'bind' })
}

function pairsOf({ bind }: Definition, row: Row, index: number): Context {
  return Object.fromEntries(
    bind.map(({ name, path }) => [`row.${name}`, readBound(getAt(row, path), { index, field: name })] as const),
  )
}

/** Returns what a row's DEK is wrapped for (bindings.md 5); undefined in a model of format v1. */
export function findUses(definition: Definition, row: Row, index: number): Uses | undefined {
  const { name, dek, envelope } = definition
  return envelope === 1 ? undefined : usesOfModel(name, () => pairsOf(definition, row, index), dek === 'record')
}

/** The AAD of a field under a key (bindings.md 1); `row` is from `bindRow`. @throws InvalidInputError */
export function bindField(definition: Definition, keyId: string, field: string, row: Uint8Array): Uint8Array {
  const { whole = definition } = definition // a definition of some fields may be made for each call
  const known = heads.get(whole) ?? new Map<string, Uint8Array>()
  heads.set(whole, known)
  const name = `${keyId}/${field}`
  let head = known.get(name)
  if (!head) {
    // `field` and `model` come before every `row.…`, so the pairs can be encoded separately.
    head = readingContext(() => contextAad(keyId, { model: definition.name, field }))
    if (known.size >= MAX_HEADS) known.clear()
    known.set(name, head)
  }
  return concatBytes(head, row)
}

const MAX_SHOWN = 64

/** Adds to an error about a value the model's name, and the row if given. Returns the same error. */
export function named<E>(error: E, definition: Definition, row?: Row): E {
  return isEaasError(error)
    ? nameRecord(error, { model: definition.name, row: row && tellRow(definition, row) })
    : error
}

export function naming<T>(definition: Definition, row: Row | undefined, run: () => T): T {
  try {
    return run()
  } catch (error) {
    throw named(error, definition, row)
  }
}

function tellRow({ bind, names }: Definition, row: Row): Readonly<Record<string, string>> | undefined {
  const columns = bind.length > 0 ? bind : names.has('id') ? [] : [{ name: 'id', path: ['id'] }]
  const told = columns.flatMap(({ name, path }) => {
    const value = getAt(row, path)
    if (value === '' || !['string', 'number', 'bigint'].includes(typeof value)) return []
    const text = String(value)
    return [[name, text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text]]
  })
  return told.length > 0 ? (Object.fromEntries(told) as Record<string, string>) : undefined
}

/** Returns the code for rare rows, which was loaded before any row that needs it. */
export function rareOf({ late }: Definition): Rare {
  return late.rare as Rare
}
