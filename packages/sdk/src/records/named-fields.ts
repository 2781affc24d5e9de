/**
 * The fields that callers of `encryptMany` and `decryptMany` name: checks the names, and that the records have them,
 * and finds what each is bound to.
 */
import type { Context } from '@eaas/protocol'

import { InvalidInputError, isEaasError, type RecordPlace } from '../errors.js'
import { assertArray, isName, isObject, kindOf, type Row } from '../input.js'
import type { Pace } from '../waiting.js'
import type { Path } from './paths.js'
import { copyRows, createPresence, type PresenceOptions, type RecordField } from './plain-rows.js'

export interface CheckOptions {
  fields: readonly RecordField[]
  optional: readonly string[]
  pace: Pace
  signal: AbortSignal | undefined
}

/** Refuses names that are invalid or repeated. @throws InvalidInputError */
export function assertFields(fields: unknown, optional: unknown): asserts fields is readonly string[] {
  if (!Array.isArray(fields) || fields.length === 0) {
    throw new InvalidInputError('fields must name at least one field', "Pass a list of names: ['email'].")
  }
  if (!fields.every(isName)) throw new InvalidInputError('fields must contain names of fields')
  if (new Set(fields).size < fields.length) throw new InvalidInputError('fields must name each field once')
  assertArray('optional', optional)
  const unknown = optional.find((name) => !fields.includes(name as string))
  if (unknown !== undefined) {
    throw new InvalidInputError(`optional names ${JSON.stringify(unknown)}, which is not in fields`)
  }
}

/** Copies all records, and in them the objects that hold the fields. @throws InvalidInputError */
export function copyNamed(records: unknown, fields: readonly string[], toStore: boolean): Row[] {
  return copyRows(records, { paths: pathsOf(fields), toStore })
}

/** Returns the paths that the names may stand for: a name with dots may also be a column. */
function pathsOf(names: readonly string[]): Path[] {
  return names.flatMap((name) => (name.includes('.') ? [[name], name.split('.')] : [[name]]))
}

/** Checks that the records have the fields, and calls the function with each value. */
export async function checkPresence(
  rows: readonly Row[],
  { pace, signal, ...options }: CheckOptions & PresenceOptions,
  check?: (row: Row, value: unknown, place: RecordPlace) => void,
): Promise<void> {
  const presence = createPresence(options)
  for (const [index, row] of rows.entries()) {
    if (pace.due()) await pace.rest(signal)
    for (const field of options.fields) {
      const value = presence.read(row, field, index)
      check?.(row, value, { index, field: field.name })
    }
  }
  presence.end()
}

/**
 * What the fields of records are bound to: one context for all, or a function that is called with a record
 * and the name of a field. The function must return the same for the same record when it is decrypted, so use
 * members that do not change and are not encrypted.
 */
export type ContextOf<R, F> = Context | ((record: R, field: F) => Context)

/** Refuses anything but a context or a function. @throws InvalidInputError */
export function assertContextOf(context: unknown): void {
  if (context === undefined || typeof context === 'function' || isObject(context)) return
  throw new InvalidInputError(`context must be an object or a function that returns one, got ${kindOf(context)}`)
}

/**
 * Returns the context of one field of a record. @throws InvalidInputError with `place` when the function
 * throws
 */
export function contextAt<R>(
  context: ContextOf<R, string> | undefined,
  record: R,
  place: RecordPlace,
): Context | undefined {
  if (typeof context !== 'function') return context
  let found: Context | undefined
  try {
    found = context(record, place.field)
  } catch (error) {
    if (isEaasError(error)) throw error
    // The application's error may quote a value.
    throw new InvalidInputError('the function `context` threw an error', undefined, place)
  }
  if (found !== undefined) return found
  throw new InvalidInputError('the function `context` returned undefined', undefined, place)
}
