/**
 * Sends the operations of one turn of the event loop as one `POST /v1/batch`, and a single one to its own route. Where requests
 * are isolated, sends those of one run of microtasks together.
 */
import { onAbort } from '../async/on-abort.js'
import { AbortedError, isEaasError } from '../errors.js'
import { assertNotAborted } from '../input.js'
import type { Answers, Call, Http, Outcome } from './calls.js'
import { asTampering } from './tampering.js'

/** The most operations in one batch of the API. */
const MAX_OPERATIONS = 1_000
/**
 * The most UTF-16 code units of JSON in one batch: at most 768 KiB of UTF-8, less than the 1 MiB that proxies commonly allow.
 * The service takes 8 MiB.
 */
const MAX_UNITS = 256 * 1_024
/** How many requests of one turn are in flight at once: as many as browsers allow for one origin. */
const CONCURRENCY = 6

type Operation = 'wrap' | 'unwrap' | 'rewrap' | 'hash'
export type OperationAnswer = 'wrapped' | 'unwrapped' | 'hashed'

interface Queued {
  call: Call<OperationAnswer>
  /** The operation in the form that a batch has. */
  operation: object
  units: number
  settle(outcome: Outcome): void
}

export interface OperationRequest<A extends OperationAnswer> {
  op: Operation
  key_id: string
  body: object
  answer: A
  secrets?: readonly string[]
  signal?: AbortSignal | undefined
}

export type RunOperation = <A extends OperationAnswer>(request: OperationRequest<A>) => Promise<Answers[A]>

/** Makes the queue over one client's HTTP. */
export function createQueue(http: Http, untilAllQueued: () => Promise<void>): RunOperation {
  let queue = new Set<Queued>()
  /** Reduced after something in front of the service refused a batch as too large; 0 where the service has no batches. */
  let maxUnits = MAX_UNITS

  const flush = async () => {
    await untilAllQueued()
    const parts = split([...queue], maxUnits)
    queue = new Set()
    let idle = CONCURRENCY
    const sendNext = () => {
      for (; idle > 0 && parts.length > 0; idle--) void send(parts.shift() ?? [], parts).then(sent)
    }
    const sent = () => {
      idle++
      sendNext()
    }
    sendNext()
  }

  /** Sends one part. Settles each operation of it, or adds it to the parts still to send. Never rejects. */
  const send = async (queued: readonly Queued[], parts: Queued[][]): Promise<void> => {
    const [first] = queued
    if (!first) return
    if (queued.length === 1) return first.settle(await toOutcome(http(first.call)))
    const outcome = await toOutcome(http(createBatchCall(queued)))
    if ('value' in outcome) {
      for (const [at, one] of queued.entries()) one.settle((outcome.value as Outcome[])[at] as Outcome)
    } else if (isTooLarge(outcome.error)) {
      maxUnits = Math.min(maxUnits, queued.reduce((sum, { units }) => sum + units, 0) / 2)
      parts.push(...split(queued, maxUnits))
    } else if (isNoSuchRoute(outcome.error)) {
      maxUnits = 0
      parts.push(...split(queued, maxUnits))
    } else for (const one of queued) one.settle(outcome)
  }

  return (request) => {
    assertNotAborted(request.signal)
    return new Promise((resolve, reject) => {
      const call = createCall(request)
      const operation = { op: request.op, key_id: request.key_id, ...request.body }
      const leave = () => {
        queue.delete(queued)
        reject(new AbortedError(request.signal))
      }
      const ignoreSignal = onAbort(request.signal, leave)
      const settle = (outcome: Outcome) => {
        ignoreSignal()
        if ('error' in outcome) return reject(isOpening(request.op) ? asTampering(outcome.error) : outcome.error)
        resolve(outcome.value as Answers[typeof request.answer]) // what `call.answer` names: http.ts parsed it
      }
      const queued: Queued = { call, operation, units: JSON.stringify(operation).length, settle }
      queue.add(queued)
      if (queue.size === 1) void flush()
    })
  }
}

function isOpening(op: Operation): boolean {
  return op === 'unwrap' || op === 'rewrap'
}

function createCall<A extends OperationAnswer>({
  op,
  key_id,
  body,
  answer,
  secrets = [],
  signal,
}: OperationRequest<A>): Call<A> {
  const alone =
    op === 'hash' ? { path: 'v1/hash', body: { ...body, key_id } } : { path: `v1/keys/${key_id}/${op}`, body }
  return { ...alone, method: 'POST', answer, about: key_id, secrets, signal, repeatable: true }
}

function createBatchCall(queued: readonly Queued[]): Call<'batch'> {
  return {
    method: 'POST',
    path: 'v1/batch',
    body: { operations: queued.map(({ operation }) => operation) },
    parts: queued.map(({ call }) => call),
    answer: 'batch',
    repeatable: true, // as each of its operations
    secrets: queued.flatMap(({ call }) => call.secrets ?? []),
    long: true,
    signal: undefined,
  }
}

/** Splits operations into parts within the limits. An operation that is too long by itself becomes its own part. */
function split(queued: readonly Queued[], maxUnits: number): Queued[][] {
  const parts: Queued[][] = []
  let part: Queued[] = []
  let units = 0
  for (const one of queued) {
    if (part.length === MAX_OPERATIONS || (part.length > 0 && units + one.units > maxUnits)) {
      parts.push(part)
      part = []
      units = 0
    }
    part.push(one)
    units += one.units
  }
  return [...parts, part]
}

async function toOutcome(answer: Promise<unknown>): Promise<Outcome> {
  try {
    return { value: await answer }
  } catch (error) {
    return { error } // of the SDK, or of the function passed as `apiKey`
  }
}

// The service refuses with E_API; a proxy with a page, which is E_PROTOCOL.
function isTooLarge(error: unknown): boolean {
  return isEaasError(error) && (error.code === 'E_API' || error.code === 'E_PROTOCOL') && error.status === 413
}

// A service older than batches. A proxy's page does not count, since other routes would not answer either.
function isNoSuchRoute(error: unknown): boolean {
  return isEaasError(error) && error.code === 'E_API' && (error.status === 404 || error.status === 405)
}
