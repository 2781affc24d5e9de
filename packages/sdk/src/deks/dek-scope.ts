/** Which DEK a call seals with. */
import { InvalidInputError } from '../errors.js'

/**
 * Which DEK seals: `shared` uses the key's DEK within its limits; `call` makes one for the call; `record` makes one for each
 * record, so that a leaked DEK opens one record only. Each new DEK is a wrap and an audit entry.
 */
export type DekScope = 'shared' | 'call' | 'record'

const SCOPES: readonly unknown[] = ['shared', 'call', 'record'] satisfies DekScope[]

/** Refuses anything but a scope. @throws InvalidInputError */
export function assertScope(scope: unknown): void {
  if (!SCOPES.includes(scope)) throw new InvalidInputError('dek must be "shared", "call" or "record"')
}
