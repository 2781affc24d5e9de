/**
 * Sends appends to the database, and compares the clock that dated them with the database's. Appends of tenants that
 * wait at the same time share one statement, since separate ones would cost a whole commit for each tenant.
 */
import { type Append, type Appended, appendEntries, appendInTransaction, appendToMany } from '../../store/append.js'
import { isRolledBack, isSpread, type Queryable, type Sql, type Transaction } from '../../store/db.js'
import { AuditWriteError } from '../append-errors.js'
import type { Clock } from './clock.js'

/** A longer append gets a statement of its own: sharing would gain it nothing, and the others would wait for it. */
const SHARED_ENTRIES = 64
/** In one statement for many tenants. */
const STATEMENT_ENTRIES = 512
/** In milliseconds, how long a statement waits for the one before it, whose connection may be dead. */
const MOST_WAIT_MS = 250

export type TenantsPerStatement = 'many' | 'one'

export interface Appends {
  /** Waits until the next statement gathers, since a group that is taken earlier would grow no more. */
  gathering(): Promise<void> | undefined
  /** Returns whether the head in the database was still the previous one, and not locked. @throws WrongClockError */
  append(chained: Chained): Promise<boolean>
}

export interface Chained extends Omit<Append, 'clock'> {
  /** what `clock.read` returned for the entries */
  time: number
}

type Waiting = { chained: Chained; resolve: (isMoved: boolean) => void; reject: (error: unknown) => void }

/** One statement for each tenant; a transaction where the database spans machines. */
export function createSeparateAppends({ sql, clock }: { sql: Sql; clock: Clock }): Appends {
  return {
    gathering: () => undefined,
    append: (chained) => appendChained(sql, clock, chained, isSpread(sql) ? appendInTransaction : appendEntries),
  }
}

export function createSharedAppends({ sql, clock }: { sql: Sql; clock: Clock }): Appends {
  const waiting: Waiting[] = []
  let running: Promise<void> | undefined
  let isScheduled = false

  // Runs after everything that the last commit triggered, so that it gathers the tenants that waited for that commit.
  function schedule(): void {
    if (running || isScheduled || waiting.length === 0) return
    isScheduled = true
    process.nextTick(() => {
      isScheduled = false
      const taken = take()
      running = atMost(MOST_WAIT_MS, send(taken)).then(() => {
        running = undefined
        schedule()
      })
    })
  }

  function take(): Waiting[] {
    let entries = 0
    let count = 0
    for (const { chained } of waiting) {
      entries += chained.entries.length
      if (entries > STATEMENT_ENTRIES) break
      count += 1
    }
    return waiting.splice(0, count)
  }

  async function send(taken: readonly Waiting[]): Promise<void> {
    const [first, second] = taken
    try {
      if (first && !second) return first.resolve(await appendChained(sql, clock, first.chained)) // costs less
      const appends = taken.map(({ chained }) => chained)
      const time = Math.max(...appends.map((append) => append.time))
      const { moved, database_time } = await appendToMany(sql, appends, { time, toleranceMs: clock.toleranceMs })
      assertAgreement(clock, time, { isMoved: moved.length > 0, database_time })
      const written = new Set(moved)
      for (const [at, { resolve }] of taken.entries()) resolve(written.has(at))
    } catch (error) {
      // One tenant's rows can make the whole statement fail, which then writes nothing: so each append is tried alone.
      if (taken.length > 1 && isRolledBack(error)) {
        for (const { chained, resolve, reject } of taken) appendChained(sql, clock, chained).then(resolve, reject)
      } else {
        for (const { reject } of taken) reject(error)
      }
    }
  }

  return {
    gathering: () => running,
    append(chained) {
      if (chained.entries.length > SHARED_ENTRIES) return appendChained(sql, clock, chained)
      return new Promise((resolve, reject) => {
        waiting.push({ chained, resolve, reject })
        schedule()
      })
    },
  }
}

/** Waits for work that never rejects, but at most `ms`. */
function atMost(ms: number, work: Promise<void>): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    void work.then(() => {
      clearTimeout(timer)
      resolve()
    })
  })
}

/** The statement itself compares the clocks, so nothing is written by one that has just become wrong. */
async function appendChained<Store extends Queryable>(
  sql: Store,
  clock: Clock,
  { time, ...chained }: Chained,
  append: (sql: Store, append: Append) => Promise<Appended> = appendEntries,
): Promise<boolean> {
  const appended = await append(sql, { ...chained, clock: { time, toleranceMs: clock.toleranceMs } })
  assertAgreement(clock, time, appended)
  return appended.isMoved
}

/** Call it in a transaction that has locked or inserted the head. @throws AuditWriteError, WrongClockError */
export async function appendToLocked(sql: Transaction, clock: Clock, chained: Chained): Promise<void> {
  if (await appendChained(sql, clock, chained)) return
  throw new AuditWriteError(`the head of the audit chain of ${chained.previous.tenant_id} changed while it was locked`)
}

// If something was written, the statement has compared the clocks already. It returns a slightly later time, which must
// not decide again.
function assertAgreement(clock: Clock, time: number, { isMoved, database_time }: Appended): void {
  const { toleranceMs } = clock
  const clamped = Math.min(Math.max(database_time, time - toleranceMs), time + toleranceMs)
  clock.assertAgreement(time, isMoved ? clamped : database_time)
}
