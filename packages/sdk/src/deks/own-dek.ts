/** DEKs outside the ones that all calls share: made for one call or one record, wiped by whoever asked. */
import type { WrappedKey } from '@eaas/protocol'
import { untilAborted } from '../async/on-abort.js'
import { InvalidInputError, isEaasError, ProtocolError } from '../errors.js'
import { randomDek } from './random.js'

/**
 * Which DEK seals: `shared`, the one of the key, as long as its limits allow; `call`, one of its own for the call; `record`,
 * one of its own for each record, so that a DEK that leaks opens one record. Each new DEK is a wrap, and an audit entry.
 */
export type DekScope = 'shared' | 'call' | 'record'

const SCOPES: readonly unknown[] = ['shared', 'call', 'record'] satisfies DekScope[]

/** Refuses what is not a scope. @throws InvalidInputError */
export function assertScope(scope: unknown): void {
  if (!SCOPES.includes(scope)) throw new InvalidInputError('dek must be "shared", "call" or "record"')
}

/** A DEK that its holder made and wipes. */
export interface OwnDek {
  dek: Uint8Array
  wrapped: WrappedKey
}

/** Has a DEK wrapped under the current version of a key. */
export type Wrap = (dek: Uint8Array, keyId: string) => Promise<WrappedKey>

interface WrapCalls {
  wrap: Wrap
  unwrap(wrapped: WrappedKey): Promise<Uint8Array>
}

/**
 * Makes what wraps DEKs. With `verify`, unwraps each wrapped key once before anything is sealed: a service that answers
 * with what does not unwrap would make the data unreadable, and nobody would know before it is read.
 */
export function createWrap({ wrap, unwrap }: WrapCalls, verify: boolean): Wrap {
  if (!verify) return wrap
  return async (dek, keyId) => {
    const wrapped = await wrap(dek, keyId)
    const back = await unwrap(wrapped).catch((error: unknown) => {
      if (isEaasError(error) && error.code === 'E_DECRYPTION') return undefined
      throw error
    })
    const isSame = back !== undefined && equal(dek, back)
    back?.fill(0)
    if (!isSame) {
      throw new ProtocolError(
        `POST /v1/keys/${keyId}/wrap: the wrapped key does not unwrap to the DEK that was sent`,
        200,
      )
    }
    return wrapped
  }
}

/** Makes a DEK and has it wrapped. The caller wipes it. @throws AbortedError at once when the signal is aborted meanwhile */
export async function createOwnDek(wrap: Wrap, keyId: string, signal: AbortSignal | undefined): Promise<OwnDek> {
  const dek = randomDek()
  try {
    return { dek, wrapped: await untilAborted(wrap(dek, keyId), signal) }
  } catch (error) {
    dek.fill(0)
    throw error
  }
}

/** Whether the bytes are the same, in a time that does not tell where they differ. */
function equal(a: Uint8Array, b: Uint8Array): boolean {
  let difference = a.length ^ b.length
  for (const [at, byte] of a.entries()) difference |= byte ^ (b[at] ?? 0)
  return difference === 0
}
