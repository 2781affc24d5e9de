/** Turns refusals of the service that mean tampering into the error that this process throws for it. */
import { DecryptionError, isEaasError } from '../errors.js'

/**
 * Returns a DecryptionError for a refusal that says that an envelope is not authentic, and any other error
 * unchanged.
 */
export function asTampering(error: unknown): unknown {
  if (!isEaasError(error) || error.code !== 'E_API') return error
  if (error.problem === 'E_WRAPPED_KEY' || error.problem === 'E_DECRYPTION_FAILED') {
    return new DecryptionError(undefined, { cause: error })
  }
  if (error.problem !== 'E_NOT_FOUND') return error
  return new DecryptionError(undefined, {
    message: 'could not decrypt: the service has no key with this key_id',
    hint: 'Check its key_id, and that the API key belongs to the same tenant.',
    cause: error,
  })
}
