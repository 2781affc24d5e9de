/**
 * Verifies logs in a thread of its own, which `verification-thread-program.ts` runs, so that other calls do
 * not wait for it. The thread has connections of its own. It starts with the first verification, and ends
 * when there has been none for a minute.
 */
import { Worker } from 'node:worker_threads'
import type { wire } from '@eaas/protocol'
import { DatabaseDeadlineError } from '../store/deadline.js'
import type { AuditKey } from './formats/chain.js'
import type { ValidLog, VerifyOptions } from './verify/verify.js'

/**
 * How long the thread waits for another verification before it ends: it holds some 20 MB. In milliseconds.
 */
const IDLE_MS = 60_000

/** The database, for connections of the thread's own. */
export interface ThreadDatabase {
  url: string
  urlFile?: string | undefined
  isPooled: boolean
  searchPath: string | undefined
}

/**
 * `VerifyOptions` without functions and signal, which a message can't carry. Keys pass as handles: the thread
 * shares this process's memory.
 */
type ThreadTask = Omit<VerifyOptions, 'onProgress' | 'onValid' | 'signal'>

export type ToThread = { kind: 'verify'; id: number; task: ThreadTask } | { kind: 'abort'; id: number }

export type FromThread =
  | { kind: 'progress'; id: number; entries: number }
  | { kind: 'done'; id: number; answer: wire.Verification; valid: ValidLog | undefined }
  | { kind: 'failed'; id: number; failure: ThreadFailure }

/** An error in the form that passes between threads, which would lose its class and its code. */
export interface ThreadFailure {
  name: string
  message: string
  stack: string | undefined
  code: unknown
}

/** Verifies a log of this installation; see `verifyLog`. */
export type VerifyLog = (options: Omit<VerifyOptions, 'storeKeys'>) => Promise<wire.Verification>

export interface Verifier {
  verify: (options: VerifyOptions) => Promise<wire.Verification>
  /** Ends the thread; running verifications fail. */
  close(): Promise<void>
}

interface Running {
  options: VerifyOptions
  resolve: (answer: wire.Verification) => void
  reject: (error: unknown) => void
}

/** Creates the verifier; `program` is the compiled `verification-thread-program.ts`. */
export function createVerificationThread(database: ThreadDatabase, program: URL): Verifier {
  const running = new Map<number, Running>()
  let thread: Worker | undefined
  let idle: NodeJS.Timeout | undefined
  let lastId = 0

  function start(): Worker {
    const started = new Worker(program, { workerData: database })
    started.unref()
    started.on('message', receive)
    const end = (error: unknown) => {
      if (thread === started) forget(error)
    }
    started.on('error', end)
    started.on('exit', (code) => end(new Error(`the thread that verifies ended with code ${code}`)))
    return started
  }

  // The verifications of a thread that ends fail; the next one starts another thread.
  function forget(error: unknown): void {
    thread = undefined
    for (const { reject } of running.values()) reject(error)
    running.clear()
  }

  function receive(message: FromThread): void {
    const run = running.get(message.id)
    if (!run) return
    if (message.kind === 'progress') {
      run.options.onProgress?.(message.entries)
      return
    }
    running.delete(message.id)
    if (running.size === 0) idle = setTimeout(() => void close(), IDLE_MS).unref()
    if (message.kind === 'done') {
      if (message.valid) run.options.onValid?.(message.valid)
      run.resolve(message.answer)
    } else run.reject(run.options.signal?.aborted ? run.options.signal.reason : revive(message.failure))
  }

  async function close(): Promise<void> {
    clearTimeout(idle)
    const ending = thread
    forget(new Error('the server is stopping'))
    await ending?.terminate()
  }

  return {
    verify: async (options) => {
      options.signal?.throwIfAborted()
      clearTimeout(idle)
      thread ??= start()
      const [id, port] = [++lastId, thread]
      const abort = () => port.postMessage({ kind: 'abort', id } satisfies ToThread)
      options.signal?.addEventListener('abort', abort, { once: true })
      try {
        return await new Promise((resolve, reject) => {
          running.set(id, { options, resolve, reject })
          port.postMessage({ kind: 'verify', id, task: taskOf(options) } satisfies ToThread)
        })
      } finally {
        options.signal?.removeEventListener('abort', abort)
      }
    },
    close,
  }
}

function taskOf({ onProgress: _, onValid: __, signal: ___, ...task }: VerifyOptions): ThreadTask {
  return task
}

function revive({ name, message, stack, code }: ThreadFailure): Error {
  const error = name === 'DatabaseDeadlineError' ? new DatabaseDeadlineError(message) : new Error(message)
  return Object.assign(error, {
    name,
    ...(stack === undefined ? {} : { stack }),
    ...(code === undefined ? {} : { code }),
  })
}

/** What a log says, if it is valid; otherwise what is wrong with it. */
type ReadLog = { valid: ValidLog } | ({ valid: undefined } & Pick<wire.Verification, 'reason' | 'broken_at'>)

/** Verifies a tenant's whole log in the database, for work that may rely only on a valid one. @throws the signal's reason once it is aborted */
export async function readValidLog(
  { verifyLog }: { verifyLog: VerifyLog },
  { tenant: { tenant_id }, auditKey }: { tenant: { tenant_id: string }; auditKey: AuditKey },
  options: Pick<VerifyOptions, 'isHeadIgnored' | 'noted' | 'onProgress' | 'signal'> = {},
): Promise<ReadLog> {
  let valid: ValidLog | undefined
  const onValid = (found: ValidLog) => {
    valid = found
  }
  const { reason, broken_at } = await verifyLog({ tenant_id, auditKey, onValid, ...options })
  if (valid) return { valid }
  return { valid, ...(reason === undefined ? {} : { reason }), ...(broken_at === undefined ? {} : { broken_at }) }
}
