/**
 * The appends that wait for one tenant's log, in the order in which they came. Each is answered within the database's deadline
 * from its arrival, however many stand before it, and no more are held than can be worked off in that time.
 */
import { DATABASE_DEADLINE_MS, DatabaseDeadlineError } from '../store/deadline.js'
import { type AuditWriteError, auditWriteError, OverloadError } from './append-errors.js'
import type { Append, Outcome } from './committer.js'

/** Entries in one statement at most. */
const BATCH_ENTRIES = 512
/** Entries that may wait for one tenant, and for all; a batch has 1,000 at most. Calls with more are refused at once. */
const TENANT_ENTRIES = 20_000
const ALL_ENTRIES = 50_000

/** Less time than this, in milliseconds, is not worth beginning with: where one is given up on, those behind it go too. */
const WORTH_BEGINNING_MS = 200

/** An append whose caller waits. */
export interface Waiting {
  append: Append
  resolve: (outcome: Outcome) => void
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

  /** Waits for a turn and its outcome. @throws OverloadError, AuditWriteError */
  add(append: Append): Promise<Outcome> {
    const { length } = append.entries
    if (this.#entries + length > TENANT_ENTRIES || this.all.entries + length > ALL_ENTRIES)
      return Promise.reject(new OverloadError('too many calls wait for the audit log'))
    return new Promise((resolve, reject) => {
      const until = performance.now() + DATABASE_DEADLINE_MS
      this.#queue.push({ append, resolve, reject, until, isGivenUp: false })
      this.#count(length)
      if (!this.#timer) this.#setTimer(DATABASE_DEADLINE_MS)
    })
  }

  /** Takes a management change alone, or all plain appends up to the next change or the size limit; nothing is left: none. */
  take(): readonly Waiting[] {
    this.#batch = this.#queue.splice(0, batchSize(this.#queue))
    return this.#batch
  }

  /** The outcome of the batch that was taken, for as long as anybody waits for it. @throws DatabaseDeadlineError */
  whileAwaited<T>(commit: Promise<T>): Promise<T> {
    const abandoned = new Promise<never>((_, reject) => {
      this.#abandonBatch = reject
    })
    return Promise.race([commit, abandoned])
  }

  /** Answers the batch. */
  resolve(outcomes: readonly Outcome[]): void {
    this.#batch.forEach((waiting, at) => {
      this.#settle(waiting, () => waiting.resolve(outcomes[at] ?? 'stale'))
    })
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

function batchSize(queue: readonly Waiting[]): number {
  if (queue[0]?.append.change) return 1
  let entries = 0
  let size = 0
  for (const { append } of queue) {
    entries += append.entries.length
    if (append.change || (entries > BATCH_ENTRIES && size > 0)) break
    size += 1
  }
  return size
}
