/** Sends the operations of one turn as one `POST /v1/batch`; where requests are isolated, those of one run of microtasks. */
import type { OperationId, WrappedKey, WrapUse } from '@eaas/protocol'
import { decodeBase64, isUnboundWrappedKey, isZero, MAX_BATCH_OPERATIONS } from '@eaas/protocol'
import { AbortedError, DecryptionError, ProtocolError } from '../errors.js'
import { type AuditContext, assertNotAborted } from '../input.js'
import { recordedAs, type WrappedFor } from '../uses.js'
import { microtasks, onAbort, requestsAreIsolated, type Soon, traced, turn } from '../waiting.js'
import { type Answer, type Call, type Http, type Outcome, toCall } from './calls.js'
import type { Observer } from './events.js'
import type { settleRefused } from './failures.js'

/** The most JSON in a batch, in UTF-16 units: at most 768 KiB of UTF-8, below the 1 MiB that proxies allow. */
const MAX_UNITS = 256 * 1_024
/** How many requests of one turn are open at once: as many as browsers allow for one origin. */
const CONCURRENCY = 6

export interface Batcher {
  /** Has a DEK, in base64, wrapped: in format 2 if it has a use. @throws ProtocolError if the wrapped key opens without it */
  wrap(dek: string, keyId: string, use?: WrapUse): Promise<WrappedKey>
  /** Has a DEK unwrapped for the use it was wrapped for. The caller owns and zeroes the 32 bytes. */
  unwrap(wrapped: WrappedFor): Promise<Uint8Array>
  /** Has a DEK rewrapped for the same use under its key's current version, without receiving it. Throws as `wrap` does. */
  rewrap(wrapped: WrappedFor, signal?: AbortSignal | undefined): Promise<WrappedKey>
  /** Has a name's index secret derived. The caller owns and zeroes the 32 bytes. */
  indexSecret(name: string, keyId: string): Promise<Uint8Array>
  /** Returns 64 lower-case hexadecimal digits. `values` are those that `value` was made from: no error may show them. */
  hash(value: string, keyId: string, signal: AbortSignal | undefined, values?: readonly string[]): Promise<string>
  run: RunOperation
}

interface BatcherOptions {
  observer?: Observer | undefined
  loadFailures: () => Soon<{ settleRefused: typeof settleRefused }>
  auditContext?: AuditContext | undefined
}

export function createBatcher(http: Http, { auditContext, ...options }: BatcherOptions): Batcher {
  const run = traced(createQueue(http, requestsAreIsolated() ? microtasks : turn, options)) as RunOperation
  const stated = (use: WrapUse | undefined) =>
    use && { purpose: use.purpose, context: use.context, ...recordedAs(auditContext) }
  const boundTo = (use: WrapUse | undefined, wrapped: WrappedKey) => {
    if (!use || !isUnboundWrappedKey(wrapped.wrapped_key)) return wrapped
    throw new ProtocolError(`key ${wrapped.key_id}: the wrapped key opens without the use that was stated`, 200)
  }
  return {
    async wrap(dek, key_id, use) {
      return boundTo(use, await run({ op: 'wrap', key_id, body: { dek, ...stated(use) }, secrets: [dek] }))
    },
    async unwrap({ wrapped_key, key_id, use }) {
      const { dek } = await run({ op: 'unwrap', key_id, body: { wrapped_key, ...stated(use) } })
      const bytes = decodeBase64(dek)
      if (!isZero(bytes)) return bytes
      throw new DecryptionError(undefined, { message: 'could not decrypt: the DEK of the wrapped key is all zeros' })
    },
    async rewrap({ wrapped_key, key_id, use }, signal) {
      return boundTo(use, await run({ op: 'rewrap', key_id, body: { wrapped_key, ...stated(use) }, signal }))
    },
    async indexSecret(name, key_id) {
      const { secret } = await run({ op: 'indexSecret', key_id, body: { name } })
      const bytes = decodeBase64(secret)
      if (!isZero(bytes)) return bytes
      throw new ProtocolError(`key ${key_id}: the index secret is all zeros`, 200)
    },
    async hash(value, key_id, signal, values = []) {
      const secrets = [value, ...values]
      const { hash } = await run({ op: 'hash', key_id, body: { value, key_id }, secrets, signal })
      return hash
    },
    run,
  }
}

type BatchedOperation = Extract<OperationId, 'wrap' | 'unwrap' | 'rewrap' | 'hash' | 'indexSecret' | 'blindHash'>

export interface Queued {
  call: Call<BatchedOperation>
  operation: object
  units: number
  settle(outcome: Outcome): void
}

interface OperationRequest<Id extends BatchedOperation> {
  op: Id
  name?: string
  /** Its size in a batch; by default its length. */
  units?: number
  key_id: string
  body: object
  secrets?: readonly string[]
  signal?: AbortSignal | undefined
}

type RunOperation = <Id extends BatchedOperation>(request: OperationRequest<Id>) => Promise<Answer<Id>>

function createQueue(
  http: Http,
  untilAllQueued: () => Promise<void>,
  { observer, loadFailures }: BatcherOptions,
): RunOperation {
  let queue = new Set<Queued>()
  /** Reduced after a batch was refused as too large; 0 if the service has no batches. */
  let maxUnits = MAX_UNITS

  const flush = async () => {
    await untilAllQueued()
    const waiting = queue
    queue = new Set()
    let idle = CONCURRENCY
    const sendNext = () => {
      while (idle > 0) {
        const part = takePart(waiting, maxUnits)
        if (part.length === 0) return
        idle--
        void send(part, waiting).then(sent)
      }
    }
    const sent = () => {
      idle++
      sendNext()
    }
    sendNext()
  }

  /** Sends one part. Settles each of its operations, or queues it again. Never rejects. */
  const send = async (part: readonly Queued[], waiting: Set<Queued>): Promise<void> => {
    const [first] = part
    const isAlone = part.length === 1 && first
    const outcome = await toOutcome(http(isAlone ? first.call : createBatchCall(part)))
    const settle = (one: Queued, at: number) =>
      one.settle('error' in outcome || isAlone ? outcome : ((outcome.value as Outcome[])[at] as Outcome))
    if ('value' in outcome) return part.forEach(settle)
    // Without an answer, nothing must be loaded, since callers would wait for it.
    const isFinal = isAlone ? waiting.size === 0 : Object(outcome.error).httpStatus === undefined
    if (isFinal) return part.forEach(settle)
    try {
      const { settleRefused } = await loadFailures()
      maxUnits = settleRefused(part, waiting, { error: outcome.error, maxUnits })
    } catch {
      part.forEach(settle)
    }
  }

  return (request) => {
    assertNotAborted(request.signal)
    const { op, name = op, units, key_id, ...sent } = request
    const call = toCall<BatchedOperation>(op, { id: key_id, ...sent })
    const run = () =>
      new Promise<Answer<typeof op>>((resolve, reject) => {
        const operation = { op: name, key_id, ...sent.body }
        const ignoreSignal = onAbort(request.signal, () => reject(new AbortedError(request.signal)))
        const settle = (outcome: Outcome) => {
          ignoreSignal()
          if ('error' in outcome) return reject(outcome.error)
          resolve(outcome.value as Answer<typeof op>) // send.ts parsed it with the schema of this operation
        }
        const queued: Queued = { call, operation, units: units ?? JSON.stringify(operation).length, settle }
        queue.add(queued)
        if (queue.size === 1) void flush()
      })
    return observer ? observer.observe(call, run) : run()
  }
}

function createBatchCall(queued: readonly Queued[]): Call<'batch'> {
  return toCall('batch', {
    body: { operations: queued.map(({ operation }) => operation) },
    parts: queued.map(({ call }) => call),
    secrets: queued.flatMap(({ call }) => call.secrets ?? []),
  })
}

/** Takes what fits one request, without aborted operations. An operation that is too long is sent alone. */
function takePart(waiting: Set<Queued>, maxUnits: number): Queued[] {
  const part: Queued[] = []
  let units = 0
  for (const one of waiting) {
    if (!one.call.signal?.aborted) {
      units += one.units
      if (part.length === MAX_BATCH_OPERATIONS || (part.length > 0 && units > maxUnits)) break
      part.push(one)
    }
    waiting.delete(one)
  }
  return part
}

async function toOutcome(answer: Promise<unknown>): Promise<Outcome> {
  try {
    return { value: await answer }
  } catch (error) {
    return { error } // of the SDK, or of the function passed as `apiKey`
  }
}
