/**
 * Reads the application's secrets from options. Separate from the code that uses them, which clients load at their
 * first call.
 */
import { APPLICATION_SECRET_BYTES, isZero } from '@eaas/protocol'
import { InvalidInputError } from '../errors.js'
import { assertFlag, assertGiven, readBinary } from '../input.js'

/** The options by which secrets are passed. */
export interface SecretOptions {
  /**
   * 32 random bytes that only the application holds, mixed into every key that is derived from a DEK: values sealed
   * with it do not open without it, whatever the service, a proxy and the database know together. Pass a list while
   * you change it: the first one seals, each of them opens. If it is lost, so is the data. An explicit `undefined` is
   * refused, since it is usually a forgotten variable.
   */
  secret?: Uint8Array | readonly Uint8Array[]
  /**
   * `true` also opens values that were sealed without a secret, format v1 included: for a migration, since the
   * service could have sealed them.
   */
  acceptWithoutSecret?: boolean | undefined
}

/** Copies of the secrets that were passed, the first of which seals. */
export interface GivenSecrets {
  list: readonly Uint8Array[]
  /** Like `acceptWithout` of `Secrets`. */
  acceptWithout: boolean
}

/** Copies the secrets, which the caller zeroes. @throws InvalidInputError when one is not 32 bytes, or zero */
export function readSecrets(options: SecretOptions): GivenSecrets {
  assertGiven(options, ['secret'])
  const { secret, acceptWithoutSecret } = options
  assertFlag('acceptWithoutSecret', acceptWithoutSecret)
  if (secret === undefined) return { list: [], acceptWithout: false }
  const list = [secret].flat().map((one) => {
    const bytes = readBinary(one)
    if (bytes?.length === APPLICATION_SECRET_BYTES && !isZero(bytes)) return bytes
    const hint = 'Make it once with crypto.getRandomValues(new Uint8Array(32)), and store it beside no data.'
    throw new InvalidInputError('secret must be 32 random bytes, or a list of such', hint)
  })
  if (list.length === 0) throw new InvalidInputError('secret must not be an empty list', 'Leave out the option.')
  return { list: list.map((bytes) => new Uint8Array(bytes)), acceptWithout: acceptWithoutSecret ?? false }
}
