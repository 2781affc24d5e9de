/**
 * Limits the work that runs at once. Without the gate, concurrent batches would slow each other down until all are too
 * late. So only some run, in turn between tenants, and a batch that cannot begin in time is refused at once.
 */
import { createHeldBytes, type Holding } from '@eaas/protocol'
import { OverloadError } from '../audit/append-errors.js'
import { Refusal } from './refusal.js'

/** Operations that run at once: enough to decide one batch while another one is committed. */
const RUNNING_OPERATIONS = 4_000
/** How long a batch may wait, in milliseconds; its commit has a separate deadline. */
const MOST_WAIT_MS = 3_000
/** Operations per second: the estimate before any measurement, and the lowest estimate while the database stalls. */
const FIRST_RATE = 5_000
const LEAST_RATE = 500
/** In milliseconds, how long operations are counted before the rate is computed again. */
const RATE_WINDOW_MS = 200

export type WorkGate = ReturnType<typeof createWorkGate>

type Waiter = { operations: number; begin: () => void }

export async function whenAdmitted<T>(
  gate: WorkGate,
  { tenant_id, operations = 1 }: { tenant_id: string; operations?: number },
  work: () => Promise<T>,
): Promise<T> {
  const leave = await gate.enter(tenant_id, operations)
  try {
    return await work()
  } finally {
    leave()
  }
}

/** The longest delay of a timer. */
const MAX_TIMER_MS = 2_147_483_647

/** For reads or verifications of logs, which wait without a limit, so that the database stays free for other calls. */
export function createPatientGate(runningOperations: number): WorkGate {
  return createWorkGate({ runningOperations, mostWaitMs: MAX_TIMER_MS })
}

export function createWorkGate({
  runningOperations = RUNNING_OPERATIONS,
  mostWaitMs = MOST_WAIT_MS,
  now = () => performance.now(),
} = {}) {
  /** by tenant, in the order in which they arrived */
  const waiters = new Map<string, Waiter[]>()
  /** when each tenant last began, in turns of the gate; cleared when nothing runs or waits */
  const lastBegan = new Map<string, number>()
  let turns = 0
  let running = 0
  let rate = FIRST_RATE
  let done = 0
  let countedFrom = 0

  function assertRoom(tenant_id: string, operations = 1): void {
    const ahead = countAhead(tenant_id)
    const msToBegin = ((ahead + operations) * 1_000) / rate
    if (ahead > 0 && msToBegin > mostWaitMs) throw overload(msToBegin)
  }

  // Before the next batch of a tenant, at most as many of each other tenant begin as this tenant has up to that batch.
  function countAhead(tenant_id: string): number {
    const batchesUntilThen = (waiters.get(tenant_id)?.length ?? 0) + 1
    let count = 0
    for (const [other, batches] of waiters) {
      const end = other === tenant_id ? batches.length : Math.min(batchesUntilThen, batches.length)
      for (let at = 0; at < end; at++) count += batches[at]?.operations ?? 0
    }
    return count
  }

  function overload(ms: number): OverloadError {
    return new OverloadError('too many operations are waiting', Math.max(1, Math.ceil(ms / 1_000)))
  }

  function hasRoom(operations: number): boolean {
    return running === 0 || running + operations <= runningOperations
  }

  function begin(tenant_id: string, operations: number): () => void {
    if (running === 0 && waiters.size === 0) lastBegan.clear()
    lastBegan.set(tenant_id, ++turns)
    if (running === 0) countedFrom = now() - (done * 1_000) / rate // so that time without work does not lower the rate
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

  // A large batch without room holds up the others: if small ones could pass it, it would never get room.
  function beginNext(): void {
    for (;;) {
      const tenant_id = findNext()
      const waiter = tenant_id === undefined ? undefined : waiters.get(tenant_id)?.[0]
      if (tenant_id === undefined || !waiter || !hasRoom(waiter.operations)) return
      remove(tenant_id, waiter)
      waiter.begin()
    }
  }

  // The waiting tenant that has not begun for the longest time, even if it has only just arrived.
  function findNext(): string | undefined {
    let next: string | undefined
    let least = Number.POSITIVE_INFINITY
    for (const tenant_id of waiters.keys()) {
      const began = lastBegan.get(tenant_id) ?? 0
      if (began >= least) continue
      next = tenant_id
      least = began
    }
    return next
  }

  function remove(tenant_id: string, waiter: Waiter): void {
    const left = (waiters.get(tenant_id) ?? []).filter((other) => other !== waiter)
    if (left.length > 0) waiters.set(tenant_id, left)
    else waiters.delete(tenant_id)
  }

  return {
    /** Call it before a body is read. @throws OverloadError if not even a small batch of the tenant would be admitted */
    assertRoom: (tenant_id: string): void => assertRoom(tenant_id),
    /** The caller calls the returned function at the end of its work. @throws OverloadError if it cannot begin in time */
    async enter(tenant_id: string, operations: number): Promise<() => void> {
      if (waiters.size === 0 && hasRoom(operations)) return begin(tenant_id, operations)
      assertRoom(tenant_id, operations)
      return new Promise((resolve, reject) => {
        const timer = setTimeout(() => {
          remove(tenant_id, waiter)
          reject(overload(mostWaitMs))
          beginNext() // smaller work behind it may have room
        }, mostWaitMs)
        const waiter: Waiter = {
          operations,
          begin() {
            clearTimeout(timer)
            resolve(begin(tenant_id, operations))
          },
        }
        waiters.set(tenant_id, [...(waiters.get(tenant_id) ?? []), waiter])
      })
    },
  }
}

/** How many searches of one tenant may wait in a process; more are refused. */
const WAITING_OF_TENANT = 7

export type InSearchPlace = ReturnType<typeof createSearchPlaces>

/** Runs one search of a tenant at a time. @throws OverloadError if too many wait, Refusal once the signal is aborted */
export function createSearchPlaces() {
  const places = new Map<string, (() => void)[]>()
  return async <Result>(
    { tenant_id, signal }: { tenant_id: string; signal: AbortSignal | undefined },
    search: () => Promise<Result>,
  ): Promise<Result> => {
    assertWaitedFor(signal)
    const waiting = places.get(tenant_id)
    if (waiting) await waitForPlace(waiting, signal)
    else places.set(tenant_id, [])
    try {
      return await search()
    } finally {
      const next = places.get(tenant_id)?.shift()
      if (next) next()
      else places.delete(tenant_id)
    }
  }
}

const stoppedWaiting = () => new Refusal('E_UNAVAILABLE', 'the caller stopped waiting for the search')

export function assertWaitedFor(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw stoppedWaiting()
}

async function waitForPlace(waiting: (() => void)[], signal: AbortSignal | undefined): Promise<void> {
  if (waiting.length >= WAITING_OF_TENANT) throw new OverloadError('other searches of the log are waiting')
  await new Promise<void>((resolve, reject) => {
    const begin = () => {
      signal?.removeEventListener('abort', leave)
      resolve()
    }
    const leave = () => {
      waiting.splice(waiting.indexOf(begin), 1)
      reject(stoppedWaiting())
    }
    waiting.push(begin)
    signal?.addEventListener('abort', leave, { once: true })
  })
}

/**
 * The memory that calls hold: their bodies from the first byte on, and their long answers until they are read. There is
 * room for 16 of the largest batches, even in a container of 512 MB. One tenant leaves room for the others, and a
 * stolen API key leaves room for the rest of its tenant.
 */
const PROCESS_BYTES = 134_217_728
const TENANT_BYTES = PROCESS_BYTES / 4
const API_KEY_BYTES = (TENANT_BYTES * 3) / 4

/** Starts the holding of one call; the holding refuses with E_UNAVAILABLE. */
export type HeldBytes = (tenant_id: string, api_key_id: string) => Holding

export function createCallHoldings(): HeldBytes {
  const detail = 'bodies and answers under way hold all the memory that there is for them; try again later'
  const refuse = () => new Refusal('E_UNAVAILABLE', detail)
  return createHeldBytes<[string, string]>([PROCESS_BYTES, TENANT_BYTES, API_KEY_BYTES], refuse)
}
