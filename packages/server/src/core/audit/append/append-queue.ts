/**
 * The appends that wait for one tenant's log. Each is answered within the database's deadline from its arrival, however
 * many are ahead of it, and the queue holds no more than can be committed in that time.
 */
import { DATABASE_DEADLINE_MS, DatabaseDeadlineError } from '../../store/deadline.js'
import { type AuditWriteError, auditWriteError, OverloadError } from '../append-errors.js'
import type { Append, Decided } from './tenant-log.js'

/** In one statement. */
const GROUP_ENTRIES = 512
/** In one transaction, for which all other appends wait. */
const GROUP_CHANGES = 16
/** How many may wait for one tenant, and for all; a call of /v1/batch has 1,000 at most. */
const TENANT_ENTRIES = 20_000
const ALL_ENTRIES = 50_000
/** In milliseconds; an append with less time left is not begun. */
const WORTH_BEGINNING_MS = 200

export interface Waiting {
  append: Append
  decided: Decided
  /** the version of the state on which the decision was made */
  policy_version: number
  resolve: () => void
  reject: (error: Error) => void
  /** the moment, by `performance.now()`, when its caller gets a timeout error */
  until: number
  isGivenUp: boolean
}

export class AppendQueue {
  readonly #queue: Waiting[] = []
  #group: readonly Waiting[] = []
  /** entries in the queue and the group whose callers still wait */
  #entries = 0
  #timer: NodeJS.Timeout | undefined
  #abandonGroup: (error: Error) => void = () => undefined

  /** `all` counts the entries that wait in all queues of the process. */
  constructor(private readonly all: { entries: number }) {}

  /** @throws OverloadError, AuditWriteError, or the refusal of the last decision */
  add(append: Append): Promise<void> {
    const { length } = append.entries
    if (this.#entries + length > TENANT_ENTRIES || this.all.entries + length > ALL_ENTRIES)
      return Promise.reject(new OverloadError('too many calls are waiting for the audit log'))
    return new Promise((resolve, reject) => {
      const until = performance.now() + DATABASE_DEADLINE_MS
      const { policy_version } = append
      this.#queue.push({ append, decided: append, policy_version, resolve, reject, until, isGivenUp: false })
      this.#count(length)
      if (!this.#timer) this.#setTimer(DATABASE_DEADLINE_MS)
    })
  }

  /**
   * Takes the appends to commit together: management changes, or plain appends, or nothing. Of both kinds, that of the
   * oldest append goes first, so at most one group of the other kind overtakes a call.
   */
  take(): readonly Waiting[] {
    const { taken, left } = splitGroup(this.#queue)
    this.#group = taken
    this.#keep(left)
    return taken
  }

  /** Waits for the outcome of the group until all its callers have timed out. @throws DatabaseDeadlineError */
  whileAwaited<T>(commit: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#abandonGroup = reject
      commit.then(resolve, reject)
    })
  }

  /** Answers the group after its commit, or with the error that failed it: refused decisions reject, all others resolve. */
  answer(error?: AuditWriteError): void {
    for (const waiting of this.#group) this.#settle(waiting, error ?? waiting.decided.refused)
    this.#group = []
  }

  // Empties the array instead of replacing it: V8 keeps the contents of a dropped array of the old generation until a
  // full garbage collection. With many tenants, that would keep every call.
  #keep(left: readonly Waiting[]): void {
    this.#queue.length = 0
    for (const waiting of left) this.#queue.push(waiting)
  }

  #settle(waiting: Waiting, error: Error | undefined): void {
    if (waiting.isGivenUp) return
    this.#count(-waiting.append.entries.length)
    if (error) waiting.reject(error)
    else waiting.resolve()
  }

  // The group in the current commit may still be written; an append in the queue is never begun.
  #giveUp(): void {
    const now = performance.now()
    const isLate = (by: number) => (waiting: Waiting) => waiting.until <= by && !waiting.isGivenUp
    const error = new DatabaseDeadlineError(`the entry was not committed within ${DATABASE_DEADLINE_MS} ms`)
    const rejectLate = (late: readonly Waiting[], mayBeWritten: boolean) => {
      for (const waiting of late) {
        this.#settle(waiting, auditWriteError(error, { mayBeWritten }))
        waiting.isGivenUp = true
      }
    }
    rejectLate(this.#group.filter(isLate(now)), true)
    rejectLate(this.#queue.filter(isLate(now + WORTH_BEGINNING_MS)), false)
    this.#keep(this.#queue.filter(({ isGivenUp }) => !isGivenUp))
    if (this.#group.every(({ isGivenUp }) => isGivenUp)) this.#abandonGroup(error)
    // Each list is in order of time, but a group of one kind may have begun before older appends of the other.
    const oldest = [this.#group.find(({ isGivenUp }) => !isGivenUp), this.#queue[0]]
    const until = Math.min(...oldest.map((each) => each?.until ?? Number.POSITIVE_INFINITY))
    this.#timer = undefined
    if (until < Number.POSITIVE_INFINITY) this.#setTimer(until - now)
  }

  // One timer for all, which appends do not restart: when it fires, it is set for the oldest remaining one.
  #setTimer(ms: number): void {
    this.#timer = setTimeout(() => this.#giveUp(), Math.max(0, ms)) // Node warns of a negative time
    this.#timer.unref()
  }

  #count(entries: number): void {
    this.#entries += entries
    this.all.entries += entries
  }
}

/** A change needs the lock of the head, and so does a call without entries, since compare-and-swap needs entries. */
export function isUnderLock({ decided }: Waiting): boolean {
  return decided.change !== undefined || decided.entries.length === 0
}

function splitGroup(queue: Waiting[]): { taken: Waiting[]; left: Waiting[] } {
  const [first] = queue
  if (!first) return { taken: [], left: [] }
  const kind = isUnderLock(first)
  const taken: Waiting[] = []
  const left: Waiting[] = []
  let entries = 0
  let isFull = false
  for (const waiting of queue) {
    if (isFull || isUnderLock(waiting) !== kind) {
      left.push(waiting)
      continue
    }
    entries += waiting.append.entries.length
    isFull = taken.length > 0 && (entries > GROUP_ENTRIES || (kind && taken.length === GROUP_CHANGES))
    ;(isFull ? left : taken).push(waiting)
  }
  return { taken, left }
}
