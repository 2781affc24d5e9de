/**
 * Admits batches before any of their operations is decided: some are worked on at once, the others wait by tenants in turn, and
 * what the server can't work off in time is refused at once. Without it, batches take the processor from each other until all are
 * too late.
 */
import { OverloadError } from '../audit/append-errors.js'

/** Operations that are worked on at once: enough that one batch is decided while another one is committed. */
const RUNNING_OPERATIONS = 4_000
/** How long a batch may wait to be begun, in milliseconds; its commit has a deadline of its own after that. */
const MOST_WAIT_MS = 3_000
/** Operations a second, until it is known how many this server does; and the fewest that a stalled database makes of it. */
const FIRST_RATE = 5_000
const LEAST_RATE = 500
/** How long work is counted before the rate is reckoned anew, in milliseconds. */
const RATE_WINDOW_MS = 200

export interface WorkGate {
  /**
   * Waits for a turn; the caller leaves by what this resolves to, whatever comes of its work.
   * @throws OverloadError at once where the operations can't be begun in time
   */
  enter(tenant_id: string, operations: number): Promise<() => void>
  /** @throws OverloadError where not even a small batch would be admitted: to be asked before a body is read */
  assertRoom(): void
}

interface Waiter {
  operations: number
  begin: () => void
}

/** Makes the gate; one a process. `now` is in milliseconds. */
export function createWorkGate({
  runningOperations = RUNNING_OPERATIONS,
  mostWaitMs = MOST_WAIT_MS,
  now = () => performance.now(),
} = {}): WorkGate {
  /** of each tenant, in the order in which they take turns */
  const waiters = new Map<string, Waiter[]>()
  let running = 0
  let waiting = 0
  let rate = FIRST_RATE
  let done = 0
  let countedFrom = 0

  function assertRoom(operations = 1): void {
    const msToBegin = ((waiting + operations) * 1_000) / rate
    if (waiting > 0 && msToBegin > mostWaitMs) throw overload(msToBegin)
  }

  function overload(ms: number): OverloadError {
    return new OverloadError('too many operations wait', Math.max(1, Math.ceil(ms / 1_000)))
  }

  function hasRoom(operations: number): boolean {
    return running === 0 || running + operations <= runningOperations
  }

  function begin(operations: number): () => void {
    if (running === 0) countedFrom = now() - (done * 1_000) / rate // what was counted goes on as if it had just been done
    running += operations
    let hasLeft = false
    return () => {
      if (hasLeft) return
      hasLeft = true
      running -= operations
      count(operations)
      beginNext()
    }
  }

  function count(operations: number): void {
    done += operations
    const ms = now() - countedFrom
    if (ms < RATE_WINDOW_MS) return
    rate = Math.max(LEAST_RATE, (rate + (done * 1_000) / ms) / 2)
    done = 0
    countedFrom = now()
  }

  // A large batch that has no room yet holds up the others: passed by small ones, it would never have any.
  function beginNext(): void {
    for (;;) {
      const [next] = waiters
      const [tenant_id, [waiter] = []] = next ?? []
      if (tenant_id === undefined || !waiter || !hasRoom(waiter.operations)) return
      remove(tenant_id, waiter)
      const others = waiters.get(tenant_id)
      if (others) {
        waiters.delete(tenant_id)
        waiters.set(tenant_id, others) // to the end: the next turn is another tenant's
      }
      waiter.begin()
    }
  }

  function remove(tenant_id: string, waiter: Waiter): void {
    const left = (waiters.get(tenant_id) ?? []).filter((other) => other !== waiter)
    waiting -= waiter.operations
    if (left.length > 0) waiters.set(tenant_id, left)
    else waiters.delete(tenant_id)
  }

  return {
    assertRoom: () => assertRoom(),
    async enter(tenant_id, operations) {
      if (waiters.size === 0 && hasRoom(operations)) return begin(operations)
      if (waiting > 0) assertRoom(operations)
      return new Promise((resolve, reject) => {
        const timer = setTimeout(() => {
          remove(tenant_id, waiter)
          reject(overload(mostWaitMs))
        }, mostWaitMs)
        const waiter: Waiter = {
          operations,
          begin() {
            clearTimeout(timer)
            resolve(begin(operations))
          },
        }
        waiting += operations
        waiters.set(tenant_id, [...(waiters.get(tenant_id) ?? []), waiter])
      })
    },
  }
}
