/**
 * The operations that calls on many values run: wrap, unwrap, rewrap, hash. `queue.ts` sends them together.
 */
import { decodeBase64, isZero, type WrappedKey } from '@eaas/protocol'
import { turn } from '../async/event-loop.js'
import type { Soon } from '../async/is-promise.js'
import { microtasks, requestsAreIsolated } from '../async/isolated-requests.js'
import { rememberCaller } from '../caller-stack.js'
import { DecryptionError } from '../errors.js'
import type { Http } from './calls.js'
import type { Emit } from './events.js'
import type { BatchedOperation, createQueue, OperationRequest, RunOperation } from './queue.js'

export interface Batcher {
  /** Has a DEK, in base64, wrapped under a key's current version. */
  wrap(dek: string, keyId: string): Promise<WrappedKey>
  /** Has a DEK unwrapped. The caller owns and zeroes the 32 bytes. */
  unwrap(wrapped: WrappedKey): Promise<Uint8Array>
  /** Has a DEK wrapped again, under its key's current version, without receiving it. */
  rewrap(wrapped: WrappedKey, signal?: AbortSignal | undefined): Promise<WrappedKey>
  /** Has a text hashed: 64 lower-case hexadecimal digits. */
  hash(value: string, keyId: string, signal: AbortSignal | undefined): Promise<string>
}

/**
 * Makes the operations over one client's HTTP.
 *
 * @param loadQueue loads `queue.ts` once, at the first operation: a page that is only opened does not pay for
 * it
 */
export function createBatcher(
  http: Http,
  loadQueue: () => Soon<{ createQueue: typeof createQueue }>,
  emit?: Emit | undefined,
): Batcher {
  let queue: RunOperation | undefined
  const load = async () => {
    const { createQueue } = await loadQueue()
    queue ??= createQueue(http, requestsAreIsolated() ? microtasks : turn, emit)
    return queue
  }
  const run = async <Id extends BatchedOperation>(request: OperationRequest<Id>) => {
    const atCaller = rememberCaller()
    try {
      return await (queue ?? (await load()))(request)
    } catch (error) {
      throw atCaller(error)
    }
  }
  return {
    async wrap(dek, key_id) {
      return run({ op: 'wrap', key_id, body: { dek }, secrets: [dek] })
    },
    async unwrap({ wrapped_key, key_id }) {
      const { dek } = await run({ op: 'unwrap', key_id, body: { wrapped_key } })
      const bytes = decodeBase64(dek)
      if (!isZero(bytes)) return bytes
      throw new DecryptionError(undefined, { message: 'could not decrypt: the DEK of the wrapped key is all zeros' })
    },
    async rewrap({ wrapped_key, key_id }, signal) {
      return run({ op: 'rewrap', key_id, body: { wrapped_key }, signal })
    },
    async hash(value, key_id, signal) {
      const { hash } = await run({ op: 'hash', key_id, body: { value, key_id }, secrets: [value], signal })
      return hash
    },
  }
}
