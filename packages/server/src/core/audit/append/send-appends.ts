/**
 * Sends appends to the database, and compares the clock that dated them with the database's. Appends of tenants that
 * wait at the same time go in one statement, since a statement for each would cost each of their calls a whole commit.
 * While one such statement runs, the next one gathers.
 */
import type { ChainedEntry } from '@eaas/audit/formats'
import { appendInTransaction } from '../../store/append-in-transaction.js'
import { appendToMany } from '../../store/append-many.js'
import { type Append, type Appended, appendEntries } from '../../store/audit.js'
import { isRolledBack, isSpread, type Queryable, type Sql, type Transaction } from '../../store/db.js'
import { AuditWriteError } from '../append-errors.js'
import type { Head } from '../formats/chain.js'
import type { Clock } from './clock.js'

/** A longer append has a statement of its own: it gains nothing from the others, and they would wait for it. */
const SHARED_ENTRIES = 64
/** Entries in one statement for many tenants. */
const STATEMENT_ENTRIES = 512
/**
 * The next statement waits for the one before it no longer than this, in milliseconds: the connection of that one may
 * be dead.
 */
const MOST_WAIT_MS = 250

/** Whether one statement appends for many tenants, or each for one. */
export type TenantsPerStatement = 'many' | 'one'

export interface Appends {
  /**
   * Waits until the next statement gathers. A group that is taken then goes into it; one taken earlier would grow no
   * more.
   */
  gathering(): Promise<void> | undefined
  /**
   * Appends entries if the head in the database is still the previous one, and not locked; returns whether it was.
   *
   * @throws WrongClockError, or the database's own error
   */
  append(chained: Chained): Promise<boolean>
}

export interface Chained {
  previous: Head
  next: Head
  entries: readonly ChainedEntry[]
  /** what `clock.read` returned for them */
  time: number
}

interface Waiting {
  chained: Chained
  resolve: (isMoved: boolean) => void
  reject: (error: unknown) => void
}

/** Sends each tenant's appends separately; to a database that spans machines in transactions. */
export function createSeparateAppends({ sql, clock }: { sql: Sql; clock: Clock }): Appends {
  return {
    gathering: () => undefined,
    append: (chained) => appendChained(sql, clock, chained, isSpread(sql) ? appendInTransaction : appendEntries),
  }
}

/** Sends the appends of many tenants together. */
export function createSharedAppends({ sql, clock }: { sql: Sql; clock: Clock }): Appends {
  const waiting: Waiting[] = []
  let running: Promise<void> | undefined
  let isScheduled = false

  // Runs after all that the last commit set in motion, so that it gathers the tenants that waited for that commit.
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
    try {
      const appends = taken.map(({ chained }) => chained)
      const moved = await appendChainedToMany(sql, clock, appends)
      for (const [at, { resolve }] of taken.entries()) resolve(moved.has(at))
    } catch (error) {
      // One tenant's rows can make the whole statement fail, and then nothing is written: so each tenant is
      // tried by itself.
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

/** Waits for work that never rejects, but not longer than this. */
function atMost(ms: number, work: Promise<void>): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    void work.then(() => {
      clearTimeout(timer)
      resolve()
    })
  })
}

/**
 * Appends entries if the head in the database is still the previous one, and not locked; returns whether it was. The
 * statement itself compares the clocks, so that nothing is written under a clock that has just become wrong.
 *
 * @throws WrongClockError if nothing was written because the clocks differ too much
 */
async function appendChained<Store extends Queryable>(
  sql: Store,
  clock: Clock,
  { time, ...chained }: Chained,
  append: (sql: Store, append: Append) => Promise<Appended> = appendEntries,
): Promise<boolean> {
  const { isMoved, database_time } = await append(sql, {
    ...chained,
    clock: { time, toleranceMs: clock.toleranceMs },
  })
  clock.assertAgreement(time, isMoved ? clampTo(database_time, time, clock.toleranceMs) : database_time)
  return isMoved
}

/**
 * Appends entries after a head that this transaction has locked or inserted. @throws AuditWriteError, WrongClockError
 */
export async function appendToLocked(sql: Transaction, clock: Clock, chained: Chained): Promise<void> {
  if (await appendChained(sql, clock, chained)) return
  throw new AuditWriteError(`the head of the audit chain of ${chained.previous.tenant_id} changed while it was locked`)
}

/**
 * Appends for many tenants in one statement, as `appendChained` does for one. Returns the positions of those whose head
 * was the previous one, and was not locked. A single tenant gets the statement of one, which costs less.
 *
 * @throws WrongClockError if nothing was written because the clocks differ too much
 */
async function appendChainedToMany(
  sql: Queryable,
  clock: Clock,
  appends: readonly Chained[],
): Promise<ReadonlySet<number>> {
  const [first, second] = appends
  if (first && !second) return new Set((await appendChained(sql, clock, first)) ? [0] : [])
  const time = Math.max(...appends.map((append) => append.time))
  const { moved, database_time } = await appendToMany(sql, appends, { time, toleranceMs: clock.toleranceMs })
  clock.assertAgreement(time, moved.length > 0 ? clampTo(database_time, time, clock.toleranceMs) : database_time)
  return new Set(moved)
}

// The statement has already compared the clocks; the time that it returns is slightly later and must not
// decide again.
function clampTo(databaseTime: number, time: number, toleranceMs: number): number {
  return Math.min(Math.max(databaseTime, time - toleranceMs), time + toleranceMs)
}
