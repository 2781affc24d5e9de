/** One error for what was tampered with, whether this process noticed or the service. */
import { DecryptionError, isEaasError } from '../errors.js'

/** Makes an E_DECRYPTION of a refusal that says that an envelope is not authentic; returns any other error as it is. */
export function asTampering(error: unknown): unknown {
  if (!isEaasError(error) || error.code !== 'E_API') return error
  if (error.problem === 'E_WRAPPED_KEY' || error.problem === 'E_DECRYPTION_FAILED') {
    return new DecryptionError(undefined, { cause: error })
  }
  if (error.problem !== 'E_NOT_FOUND') return error
  return new DecryptionError(undefined, {
    message: 'could not decrypt: the service knows no key of this key_id',
    hint: 'Check that key_id was not changed, and that the API key is of the tenant that sealed it.',
    cause: error,
  })
}
