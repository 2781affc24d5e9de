/** The contexts of fields of many records: one for all, or one for each field of each record. */
import type { Context } from '@eaas/protocol'
import { InvalidInputError, isEaasError, type RecordPlace } from '../errors.js'
import { isObject, kindOf } from '../input.js'

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
