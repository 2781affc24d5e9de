/**
 * The appends that wait for one tenant's log, in the order in which they came. Each is answered within the database's deadline
 * from its arrival, however many stand before it, and no more are held than can be worked off in that time.
 */
import { DATABASE_DEADLINE_MS, DatabaseDeadlineError } from '../store/deadline.js'
import { type AuditWriteError, auditWriteError, OverloadError } from './append-errors.js'
import type { Append, Decided } from './committer.js'

/** Entries in one statement at most. */
const BATCH_ENTRIES = 512
/** Management changes in one transaction at most: the others wait for as long. */
const BATCH_CHANGES = 16
/** Entries that may wait for one tenant, and for all; a batch has 1,000 at most. Calls with more are refused at once. */
const TENANT_ENTRIES = 20_000
const ALL_ENTRIES = 50_000

/** Less time than this, in milliseconds, is not worth beginning with: where one is given up on, those behind it go too. */
const WORTH_BEGINNING_MS = 200

/** An append whose caller waits. */
export interface Waiting {
  append: Append
  /** what was decided last, */
  decided: Decided
  /** and on which policy version */
  policy_version: number
  resolve: () => void
  reject: (error: Error) => void
  /** when its caller is told that it took too long, by `performance.now()` */
  until: number
  /** whether its caller was told so */
  isGivenUp: boolean
}

export class AppendQueue {
  #queue: Waiting[] = []
  /** what is being committed */
  #batch: readonly Waiting[] = []
  /** entries of both whose callers wait */
  #entries = 0
  #timer: NodeJS.Timeout | undefined
  #abandonBatch: (error: Error) => void = () => undefined

  /** `all` counts the entries that wait in all queues of the process. */
  constructor(private readonly all: { entries: number }) {}

  /** Waits for a turn and its commit. @throws OverloadError, AuditWriteError, or what the last decision refused with */
  add(append: Append): Promise<void> {
    const { length } = append.entries
    if (this.#entries + length > TENANT_ENTRIES || this.all.entries + length > ALL_ENTRIES)
      return Promise.reject(new OverloadError('too many calls wait for the audit log'))
    return new Promise((resolve, reject) => {
      const until = performance.now() + DATABASE_DEADLINE_MS
      const { policy_version } = append
      this.#queue.push({ append, decided: append, policy_version, resolve, reject, until, isGivenUp: false })
      this.#count(length)
      if (!this.#timer) this.#setTimer(DATABASE_DEADLINE_MS)
    })
  }

  /**
   * Takes what is committed together: all management changes that wait, or all plain appends, up to the size of a batch.
   * Whichever came first goes first, so no more than one batch of the other kind passes a call. Returns none when none wait.
   */
  take(): readonly Waiting[] {
    const { taken, left } = splitBatch(this.#queue)
    this.#batch = taken
    this.#queue = left
    return taken
  }

  /** The outcome of the batch that was taken, for as long as anybody waits for it. @throws DatabaseDeadlineError */
  whileAwaited<T>(commit: Promise<T>): Promise<T> {
    const abandoned = new Promise<never>((_, reject) => {
      this.#abandonBatch = reject
    })
    return Promise.race([commit, abandoned])
  }

  /** Answers the batch: it is committed, and whatever was refused on the way is refused for good. */
  resolve(): void {
    for (const waiting of this.#batch) {
      const { refused } = waiting.decided
      this.#settle(waiting, () => (refused ? waiting.reject(refused) : waiting.resolve()))
    }
    this.#batch = []
  }

  /** Answers the batch with an error. */
  reject(error: AuditWriteError): void {
    for (const waiting of this.#batch) this.#settle(waiting, () => waiting.reject(error))
    this.#batch = []
  }

  #settle(waiting: Waiting, answer: () => void): void {
    if (waiting.isGivenUp) return
    this.#count(-waiting.append.entries.length)
    answer()
  }

  // What is being committed may still come to be; what waits for its turn never begins.
  #giveUp(): void {
    const now = performance.now()
    const isLate = (by: number) => (waiting: Waiting) => waiting.until <= by && !waiting.isGivenUp
    const error = new DatabaseDeadlineError(`the entry was not committed within ${DATABASE_DEADLINE_MS} ms`)
    const tell = (late: readonly Waiting[], mayBeWritten: boolean) => {
      for (const waiting of late) {
        this.#settle(waiting, () => waiting.reject(auditWriteError(error, { mayBeWritten })))
        waiting.isGivenUp = true
      }
    }
    tell(this.#batch.filter(isLate(now)), true)
    tell(this.#queue.filter(isLate(now + WORTH_BEGINNING_MS)), false)
    this.#queue = this.#queue.filter(({ isGivenUp }) => !isGivenUp)
    if (this.#batch.every(({ isGivenUp }) => isGivenUp)) this.#abandonBatch(error)
    const oldest = this.#batch.find(({ isGivenUp }) => !isGivenUp) ?? this.#queue[0]
    this.#timer = undefined
    if (oldest) this.#setTimer(oldest.until - now)
  }

  // One timer for all, which is not set anew with each of them: it looks again who is the oldest by then.
  #setTimer(ms: number): void {
    this.#timer = setTimeout(() => this.#giveUp(), ms)
    this.#timer.unref()
  }

  #count(entries: number): void {
    this.#entries += entries
    this.all.entries += entries
  }
}

/** Whether it has to be decided and committed under the lock of the head: a change, and what has no entry to be compared and swapped with. */
export function isInTurn({ decided }: Waiting): boolean {
  return decided.change !== undefined || decided.entries.length === 0
}

function splitBatch(queue: Waiting[]): { taken: Waiting[]; left: Waiting[] } {
  const [first] = queue
  if (!first) return { taken: [], left: [] }
  const kind = isInTurn(first)
  const taken: Waiting[] = []
  const left: Waiting[] = []
  let entries = 0
  let isFull = false
  for (const waiting of queue) {
    if (isFull || isInTurn(waiting) !== kind) {
      left.push(waiting)
      continue
    }
    entries += waiting.append.entries.length
    isFull = taken.length > 0 && (entries > BATCH_ENTRIES || (kind && taken.length === BATCH_CHANGES))
    ;(isFull ? left : taken).push(waiting)
  }
  return { taken, left }
}
