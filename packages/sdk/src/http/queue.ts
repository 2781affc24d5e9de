/**
 * Sends operations together: those of one turn of the event loop go out as one `POST /v1/batch`; one that is alone goes to its
 * own route. Where requests are isolated, those of one run of microtasks go together.
 */
import { onAbort } from '../async/on-abort.js'
import { AbortedError, isEaasError } from '../errors.js'
import { assertNotAborted } from '../input.js'
import type { Answers, Call, Http, Outcome } from './calls.js'
import { asTampering } from './tampering.js'

/** What the API takes in one batch. */
const MAX_OPERATIONS = 1_000
/**
 * Code units of JSON that one batch holds at most: never more than 768 KiB of UTF-8, and so below the 1 MiB that proxies
 * commonly let through. The service takes 8 MiB.
 */
const MAX_UNITS = 256 * 1_024
/** How many requests of one turn are in flight at once: what a browser allows one origin anyway. */
const CONCURRENCY = 6

type Operation = 'wrap' | 'unwrap' | 'rewrap' | 'hash'
export type OperationAnswer = 'wrapped' | 'unwrapped' | 'hashed'

interface Queued {
  call: Call<OperationAnswer>
  /** The operation as a batch takes it. */
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
  /** Less once something in front of the service has taken no more; 0 where the service takes no batch at all. */
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

  /** Sends what goes together, and settles each of them or adds it to the parts that are still to be sent; never fails itself. */
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
    repeatable: true, // each of its operations is
    secrets: queued.flatMap(({ call }) => call.secrets ?? []),
    long: true,
    signal: undefined,
  }
}

/** Parts of at most so many operations and so much text; what is longer by itself goes alone. */
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
    return { error } // the SDK's own, or what the function passed as `apiKey` threw: passed on as it is
  }
}

// From the service, or as a page from a proxy that takes less.
function isTooLarge(error: unknown): boolean {
  return isEaasError(error) && (error.code === 'E_API' || error.code === 'E_PROTOCOL') && error.status === 413
}

// A service from before there was a batch. A proxy's page does not count: no other route would answer either.
function isNoSuchRoute(error: unknown): boolean {
  return isEaasError(error) && error.code === 'E_API' && (error.status === 404 || error.status === 405)
}
