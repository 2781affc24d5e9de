/**
 * What DEKs are wrapped for (bindings.md 5, local-index.md 1, stream.md 3), and for which of these a stored wrapped
 * key opens (wrapped-key-v2.md 3).
 */
import {
  type Context,
  compareBytes,
  encodeUtf8,
  isBoundWrappedKey,
  isWellFormed,
  MAX_CONTEXT_VALUE_BYTES,
  MAX_USE_VALUE_CHARACTERS,
  type WrappedKey,
  type WrapUse,
} from '@eaas/protocol'
import { InvalidInputError, isEaasError, type RecordPlace } from './errors.js'
import { type AuditContext, kindOf } from './input.js'
import { isPromise, type Soon } from './waiting.js'

/** What a call that states a use says of its entry. */
export function recordedAs(auditContext: AuditContext | undefined): { record?: 'digests' } {
  return auditContext === 'digests' ? { record: auditContext } : {}
}

/** A use, with the name by which caches tell it from others. */
export interface NamedUse extends WrapUse {
  name: string
}

/** What a wrapped key may be for: nothing stored tells which of the two. */
export interface Uses {
  use: NamedUse
  orUse?: (() => NamedUse | undefined) | undefined
}

/** A wrapped key, with what unwrapping it states; nothing where it has format 1. */
export interface WrappedFor extends WrappedKey {
  use?: NamedUse | undefined
  orUse?: Uses['orUse']
}

const STREAM = /* @__PURE__ */ nameUse('stream', {})

/** The use of an index key; '' is one that each model may use. */
export function useOfIndex(model: string): NamedUse {
  return nameUse('index', model === '' ? {} : { model: fit(model) })
}

/** The use of a stream's DEK. */
export function useOfStream(): Uses {
  return { use: STREAM }
}

/**
 * The uses of the DEK of a model's values, one of which seals many rows or, with `ofRow`, one alone. `pairs` returns
 * what these are bound to; of a row's there may be none.
 */
export function usesOfModel(model: string, pairs: () => Context, ofRow = false): Uses {
  const many = nameUse('data', { model: fit(model) })
  const findOne = () => {
    const row = findRowText(Object.entries(pairs()).filter(([name]) => name.startsWith('row.')))
    return row ? nameUse('data', { ...many.context, row }) : undefined
  }
  const one = ofRow ? findOne() : undefined
  return one ? { use: one, orUse: () => many } : { use: many, orUse: findOne }
}

/** What the context of a value says of its uses: that a model sealed it. */
export function usesIn(context: Context | undefined): Uses | undefined {
  const { model } = context ?? {}
  return model === undefined ? undefined : usesOfModel(model, () => context ?? {})
}

/** Adds to a stored wrapped key what it is for. One of format 1 is for nothing. */
export function wrappedFor<K extends WrappedKey>(wrapped: K, find: () => Uses | undefined): K & WrappedFor {
  return isBoundWrappedKey(wrapped.wrapped_key) ? Object.assign(wrapped, find()) : wrapped
}

/** Runs with a wrapped key for its use, and for its other one where the service refuses the first. */
export function inEitherUse<K extends WrappedFor, T>(wrapped: K, run: (wrapped: K) => Soon<T>): Soon<T> {
  const ran = run(wrapped)
  if (!wrapped.orUse || !isPromise(ran)) return ran
  return ran.catch((error: unknown) => {
    const cause = isEaasError(error) && (error.cause as { problem?: unknown } | undefined)
    const use = cause && cause.problem === 'E_WRAPPED_KEY' && wrapped.orUse?.()
    if (!use) throw error
    return run({ ...wrapped, use, orUse: undefined })
  })
}

/**
 * Returns the `context.row` for which a model with `dek: 'record'` has the DEK of a row wrapped (bindings.md 5), for
 * the `allow` of a broker. Uses no network.
 *
 * @param columns the columns that the model binds to, by name, with their values in the row: text or whole numbers
 * @throws InvalidInputError when there is no column; when one holds something else; when the text would be longer than
 * 128 characters: the DEK of such a row is wrapped for its model alone, and has no `context.row`
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
export function readBound(value: unknown, place: RecordPlace): string {
  if (Number.isSafeInteger(value) || typeof value === 'bigint') return `${value}`
  if (value !== '' && isWellFormed(value) && encodeUtf8(value).length <= MAX_CONTEXT_VALUE_BYTES) return value
  throw new InvalidInputError(
    `a column of bind must hold text or a whole number, got ${kindOfUnbound(value)}`,
    'Give the row its id before it is encrypted or changed, and select its column when it is read.',
    place,
  )
}

/** Names what is no text, too long a text or no whole number, without any of its content. */
function kindOfUnbound(value: unknown): string {
  if (value === '') return 'no text'
  if (typeof value === 'string') return isWellFormed(value) ? 'text of more than 4,096 bytes' : 'a lone surrogate'
  if (typeof value !== 'number' || !Number.isFinite(value)) return kindOf(value)
  return Number.isInteger(value) ? 'a whole number that is too large to be exact' : 'a number with a fraction'
}

/** bindings.md 5: no two rows have one text. Empty where there is no column, undefined where it would be too long. */
function findRowText(columns: (readonly [name: string, text: string])[]): string | undefined {
  const row = columns
    .sort(([one], [other]) => compareUtf8(one, other))
    .map(([, text]) => text.replace(/[%/\0]/g, encodeURIComponent)) // %25, %2F and %00
    .join('/')
  return [...row].length <= MAX_USE_VALUE_CHARACTERS ? row : undefined
}

function nameUse(purpose: WrapUse['purpose'], context: WrapUse['context']): NamedUse {
  return { purpose, context, name: JSON.stringify([purpose, context]) } // equal contexts are written in one order
}

/** Makes any text a value of a context: its first 128 characters, without NUL. */
function fit(text: string): string {
  return [...text.replaceAll('\0', '')].slice(0, MAX_USE_VALUE_CHARACTERS).join('')
}

function compareUtf8(one: string, other: string): number {
  return compareBytes(encodeUtf8(one), encodeUtf8(other))
}
