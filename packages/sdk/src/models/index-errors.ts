/** Errors of indexes, loaded for the first of them. */
import { InvalidInputError, ProtocolError } from '../errors.js'

export function otherIndexSecret(keyId: string, name: string): ProtocolError {
  const message = `key ${keyId}: the service derived another index secret for ${JSON.stringify(name)} than before`
  const hint =
    'The secret of a key never changes: check that the base URL is of the same service, and that it was not restored with other keys.'
  return Object.assign(new ProtocolError(message, 200), { hint })
}

/** Hashing would show the service the value, which a secret is there to prevent. */
export function hashDespiteSecret(): InvalidInputError {
  const hint = 'Let a model make the index, or leave it out.'
  return new InvalidInputError('a client with a secret sends no value to be hashed', hint)
}
