/** Which DEK a call seals with. */
import { assertOneOf } from '../input.js'

/**
 * Which DEK seals: `shared` uses the key's DEK within its limits; `call` makes one for the call; `record`
 * makes one for each record, so that a leaked DEK opens one record only. Each new DEK is a wrap and an audit
 * entry.
 */
export type DekScope = 'shared' | 'call' | 'record'

/** Refuses anything but a scope. @throws InvalidInputError */
export function assertScope(scope: unknown): void {
  assertOneOf('dek', scope, ['shared', 'call', 'record'] satisfies DekScope[])
}
