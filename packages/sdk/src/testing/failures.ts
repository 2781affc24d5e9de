/** Failures that a test requested: the next calls get them in place of an answer. */
import { type OperationId, PROBLEMS, type ProblemCode, problemDocument } from '@eaas/protocol'
import { InvalidInputError } from '../errors.js'
import { assertOptions, assertWhole, kindOf } from '../input.js'
import type { TestOperation } from './serve.js'
import type { Result } from './state.js'

/** Which calls fail, and how. Give one of `status`, `code`, `network` and `timeout`. */
export interface TestFailure {
  /** The call's name, also within a batch: `wrap`, `unwrap`, `hash`, `createKey`, …; by default, the next request of any kind. */
  operation?: TestOperation | undefined
  /** The HTTP status, 400 to 599, with a problem document if the service has one for it, otherwise with a proxy's page. */
  status?: number | undefined
  code?: ProblemCode | undefined
  network?: boolean | undefined
  /** No answer arrives until the caller gives up. */
  timeout?: boolean | undefined
  /** How many calls fail, 1 by default. The SDK repeats some calls, and fails only if every attempt does. */
  times?: number | undefined
}

export type Failing = 'network' | 'timeout' | Result

export interface Failures {
  add(failure: TestFailure): void
  /** Returns the failure of the next call of this name, if any. Part of a batch only fails if its name was given. */
  take(operation: OperationId, options?: { isPart?: boolean }): Failing | undefined
  clear(): void
}

export function createFailures(): Failures {
  let waiting: { operation: TestOperation | undefined; failing: Failing; times: number }[] = []
  return {
    add(failure) {
      assertOptions('failNext()', failure, ['operation', 'status', 'code', 'network', 'timeout', 'times'])
      const { operation, times = 1, ...how } = failure
      assertWhole('times', times, 1, Number.MAX_SAFE_INTEGER)
      waiting.push({ operation, times, failing: readFailing(how) })
    },
    take(operation, { isPart = false } = {}) {
      const found = waiting.find((one) => one.operation === operation || (!isPart && one.operation === undefined))
      if (!found) return undefined
      found.times -= 1
      if (found.times === 0) waiting = waiting.filter((one) => one !== found)
      return found.failing
    },
    clear() {
      waiting = []
    },
  }
}

function readFailing({ status, code, network, timeout }: Omit<TestFailure, 'operation' | 'times'>): Failing {
  const given = [status !== undefined, code !== undefined, network === true, timeout === true]
  if (given.filter(Boolean).length !== 1)
    throw new InvalidInputError('failNext takes one of status, code, network and timeout')
  if (network) return 'network'
  if (timeout) return 'timeout'
  const problem = code ?? codeOf(status)
  if (problem === undefined) return { status: status ?? 0, body: '<html>requested with failNext</html>' }
  if (!Object.hasOwn(PROBLEMS, problem)) throw new InvalidInputError(`code must be one of the API, got ${kindOf(code)}`)
  return { status: PROBLEMS[problem].status, body: problemDocument(problem, 'requested with failNext') }
}

function codeOf(status: number | undefined): ProblemCode | undefined {
  assertWhole('status', status, 400, 599)
  return (Object.keys(PROBLEMS) as ProblemCode[]).find((code) => PROBLEMS[code].status === status)
}
