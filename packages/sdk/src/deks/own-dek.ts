/** DEKs for one call or one record, outside the shared ones. The caller releases them. */
import { decodeBase64, encodeBase64, equalInConstantTime, type WrappedKey } from '@eaas/protocol'
import type { Soon } from '../async/is-promise.js'
import { untilAborted } from '../async/on-abort.js'
import { isEaasError, ProtocolError } from '../errors.js'
import { assertNotAborted } from '../input.js'
import { randomDek } from './random.js'
import { createSecret, type Secret } from './secret.js'

/** A DEK with its wrapped key. Whoever made it releases it. */
export interface OwnDek {
  dek: Secret
  wrapped: WrappedKey
}

/** Has a DEK wrapped under the current version of a key. */
export type Wrap = (dek: Secret, keyId: string) => Promise<WrappedKey>

interface WrapCalls {
  /** Takes the DEK in base64. */
  wrap(dek: string, keyId: string): Promise<WrappedKey>
  unwrap(wrapped: WrappedKey): Promise<Uint8Array>
}

/**
 * Makes the function that wraps DEKs. Refuses a wrapped key that holds the DEK in clear: it would be stored
 * beside what the DEK seals. With `verify`, it unwraps each wrapped key once before anything is sealed: data
 * sealed under a wrapped key that does not unwrap would be lost, and nobody would notice before reading it.
 * It does not hold the DEK while it waits: where its owner has released it meanwhile, it rejects.
 *
 * @throws AbortedError by rejection, besides the errors of the calls
 */
export function createWrap({ wrap, unwrap }: WrapCalls, verify: boolean): Wrap {
  return async (dek, keyId) => {
    const refuse = (why: string) => new ProtocolError(`POST /v1/keys/${keyId}/wrap: the wrapped key ${why}`, 200)
    const wrapped = await wrap(dek.use(encodeBase64), keyId)
    const bytes = decodeBase64(wrapped.wrapped_key)
    const isInClear = dek.use((own) =>
      bytes.some((_, at) => equalInConstantTime(bytes.subarray(at, at + own.length), own)),
    )
    if (isInClear) throw refuse('holds the DEK in clear')
    if (!verify) return wrapped
    const back = await unwrapIfAuthentic(unwrap, wrapped)
    try {
      if (back && dek.use((own) => equalInConstantTime(own, back))) return wrapped
    } finally {
      back?.fill(0)
    }
    throw refuse('does not unwrap to the same DEK')
  }
}

/**
 * Returns the DEK, which the caller zeroes; undefined where the service says that the wrapped key is not
 * authentic.
 */
export async function unwrapIfAuthentic(
  unwrap: WrapCalls['unwrap'],
  wrapped: WrappedKey,
): Promise<Uint8Array | undefined> {
  return unwrap(wrapped).catch((error: unknown) => {
    if (isEaasError(error) && error.code === 'E_DECRYPTION') return undefined
    throw error
  })
}

/**
 * Runs a task with a DEK of its own, and then releases the DEK. @throws AbortedError as soon as the signal is
 * aborted
 */
export async function withOwnDek<T>(
  wrap: Wrap,
  { keyId, signal }: { keyId: string; signal: AbortSignal | undefined },
  task: (own: OwnDek) => Soon<T>,
): Promise<T> {
  const own = await createOwnDek(wrap, keyId, signal)
  try {
    assertNotAborted(signal)
    return await task(own)
  } finally {
    own.dek.release()
  }
}

/**
 * Makes a DEK and has it wrapped. The caller releases it. @throws AbortedError as soon as the signal is
 * aborted
 */
export async function createOwnDek(wrap: Wrap, keyId: string, signal: AbortSignal | undefined): Promise<OwnDek> {
  const dek = createSecret(randomDek())
  try {
    return { dek, wrapped: await untilAborted(wrap(dek, keyId), signal) }
  } catch (error) {
    dek.release()
    throw error
  }
}
