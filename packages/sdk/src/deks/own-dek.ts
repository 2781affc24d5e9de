/** DEKs that a call makes for itself, instead of the shared one of the key. */
import { assertNotAborted } from '../input.js'
import type { NamedUse, WrappedFor } from '../uses.js'
import { type Soon, untilAborted } from '../waiting.js'
import type { Wrap } from './encrypt-deks.js'
import { randomDek } from './random.js'
import { createSecret, type Secret } from './secret.js'

/** The code that made it releases it. */
export interface OwnDek {
  dek: Secret
  wrapped: WrappedFor
}

/** Releases the DEK after the task. @throws AbortedError as soon as the signal is aborted */
export async function withOwnDek<T>(
  wrap: Wrap,
  { keyId, signal, use }: { keyId: string; signal: AbortSignal | undefined; use?: NamedUse | undefined },
  task: (own: OwnDek) => Soon<T>,
): Promise<T> {
  const own = await createOwnDek(wrap, keyId, signal, use)
  try {
    assertNotAborted(signal)
    return await task(own)
  } finally {
    own.dek.release()
  }
}

/** The caller releases it. @throws AbortedError as soon as the signal is aborted */
export async function createOwnDek(
  wrap: Wrap,
  keyId: string,
  signal: AbortSignal | undefined,
  use?: NamedUse | undefined,
): Promise<OwnDek> {
  const dek = createSecret(randomDek())
  try {
    return { dek, wrapped: await untilAborted(wrap(dek, keyId, use), signal) }
  } catch (error) {
    dek.release()
    throw error
  }
}
