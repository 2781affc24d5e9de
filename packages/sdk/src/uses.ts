/** What DEKs are wrapped for (bindings.md 5, stream.md 3), and the uses to state when opening (wrapped-key-v2.md 3). */
import type { Context, WrappedKey, WrapUse } from '@eaas/protocol'
import {
  compareUtf8,
  encodeUtf8,
  isBoundWrappedKey,
  isWellFormed,
  MAX_CONTEXT_VALUE_BYTES,
  MAX_USE_VALUE_CHARACTERS,
} from '@eaas/protocol'
import { InvalidInputError, type RecordPlace } from './errors.js'
import { type AuditContext, kindOf } from './input.js'

export function recordedAs(auditContext: AuditContext | undefined): { record?: 'digests' } {
  return auditContext === 'digests' ? { record: auditContext } : {}
}

export interface NamedUse extends WrapUse {
  name: string
}

/** The one or two uses that a wrapped key may have: stored data does not tell which. */
export type Uses = { use: NamedUse; orUse?: (() => NamedUse | undefined) | undefined }

/** A wrapped key, with the uses to state when it is unwrapped. Format 1 has none. */
export interface WrappedFor extends WrappedKey {
  use?: NamedUse | undefined
  orUse?: Uses['orUse']
}

const STREAM = /* @__PURE__ */ nameUse('stream', {})

export function useOfStream(): Uses {
  return { use: STREAM }
}

/** The last model's use of many rows, which each of its rows has. */
let last: { model: string; many: NamedUse } | undefined

/** Returns the use of many rows first or, with `ofRow`, that of one row. `pairs` may include no column of a row. */
export function usesOfModel(model: string, pairs: () => Context, ofRow = false): Uses {
  if (last?.model !== model) {
    // Any name becomes a context value: its first 128 characters, without NUL.
    const fitting = [...model.replaceAll('\0', '')].slice(0, MAX_USE_VALUE_CHARACTERS).join('')
    last = { model, many: nameUse('data', { model: fitting }) }
  }
  const { many } = last
  const findOne = () => {
    const row = findRowText(Object.entries(pairs()).filter(([name]) => name.startsWith('row.')))
    return row ? nameUse('data', { ...many.context, row }) : undefined
  }
  const one = ofRow ? findOne() : undefined
  return one ? { use: one, orUse: () => many } : { use: many, orUse: findOne }
}

/** Adds the uses to a stored wrapped key, unless it has format 1. */
export function wrappedFor<K extends WrappedKey>(wrapped: K, find: () => Uses | undefined): K & WrappedFor {
  return isBoundWrappedKey(wrapped.wrapped_key) ? Object.assign(wrapped, find()) : wrapped
}

/**
 * Returns the `context.row` that a model with `dek: 'record'` has a row's DEK wrapped for (bindings.md 5). For a
 * broker's `allow`. Does not use the network.
 * @param columns the columns that the model binds to, by name, with their values in the row: text or whole numbers
 * @throws InvalidInputError when there is no column, one holds another type, or the text would be longer than 128
 * characters: then the row's DEK is wrapped for its model alone, and has no `context.row`
 * @example
 * ```ts
 * console.log(contextRow({ id: 7, tenant: 'acme/eu' })) // → 7/acme%2Feu
 * ```
 */
export function contextRow(columns: Readonly<Record<string, string | number | bigint>>): string {
  const texts = Object.entries(columns).map(
    ([name, value]) => [name, readBound(value, { index: 0, field: name })] as const,
  )
  const row = findRowText(texts)
  if (row) return row
  throw new InvalidInputError(
    texts.length === 0
      ? 'a row needs a column'
      : `the text of the row is longer than ${MAX_USE_VALUE_CHARACTERS} characters`,
    'Pass the columns that the model binds to, and refuse rows whose ids are so long.',
  )
}

/** Returns the text of a column that a row is bound to (bindings.md 2). @throws InvalidInputError */
export function readBound(given: unknown, place: RecordPlace): string {
  const id = given as { toHexString?: unknown } | null | undefined // MongoDB's ObjectId has it
  const value: unknown = typeof id?.toHexString === 'function' ? id.toHexString() : given
  if (Number.isSafeInteger(value) || typeof value === 'bigint') return `${value}`
  if (value !== '' && isWellFormed(value) && encodeUtf8(value).length <= MAX_CONTEXT_VALUE_BYTES) return value
  throw new InvalidInputError(
    `a column of bind must hold text or a whole number, got ${kindOfUnbound(value)}`,
    'Give the row its id before it is encrypted, and select its column when it is read.',
    place,
  )
}

function kindOfUnbound(value: unknown): string {
  if (value === '') return 'no text'
  if (typeof value === 'string') return isWellFormed(value) ? 'text of more than 4,096 bytes' : 'a lone surrogate'
  if (typeof value !== 'number' || !Number.isFinite(value)) return kindOf(value)
  return Number.isInteger(value) ? 'a whole number beyond 2^53' : 'a number with a fraction'
}

/** Makes a text that is unique to the row (bindings.md 5). Empty if there is no column, undefined if it would be too long. */
function findRowText(columns: (readonly [name: string, text: string])[]): string | undefined {
  const row = columns
    .sort(([one], [other]) => compareUtf8(one, other))
    .map(([, text]) => text.replace(/[%/\0]/g, encodeURIComponent)) // %25, %2F and %00
    .join('/')
  return [...row].length <= MAX_USE_VALUE_CHARACTERS ? row : undefined
}

function nameUse(purpose: WrapUse['purpose'], context: WrapUse['context']): NamedUse {
  return { purpose, context, name: JSON.stringify([purpose, context]) } // equal contexts have one order of members
}
