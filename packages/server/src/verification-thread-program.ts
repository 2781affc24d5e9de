/**
 * The program of the thread that verifies logs: `core/audit/verification-thread.ts` starts it and says what to
 * verify.
 */
import { getPriority, setPriority } from 'node:os'
import { parentPort, workerData } from 'node:worker_threads'
import type { FromThread, ThreadDatabase, ThreadFailure, ToThread } from './core/audit/verification-thread.js'
import { type ValidLog, verifyLog } from './core/audit/verify/verify.js'
import { connect } from './core/store/db.js'
import { withDeadlines } from './core/store/deadline.js'

/** Logs that are verified at once: two for callers, and the scheduled one. */
const CONNECTIONS = 3
/**
 * How much nicer the thread is than the one that serves calls, so that calls come first where cores are
 * scarce.
 */
const NICER = 10
const NICEST = 19

// On Linux this is the priority of this thread alone; elsewhere it would be that of the whole process.
if (process.platform === 'linux') {
  try {
    setPriority(0, Math.min(NICEST, getPriority(0) + NICER))
  } catch {
    // The system call may be filtered. Then the threads compete as equals.
  }
}

const sql = withDeadlines(connect({ ...(workerData as ThreadDatabase), max: CONNECTIONS }))
const running = new Map<number, AbortController>()
const send = (message: FromThread) => parentPort?.postMessage(message)

parentPort?.on('message', async (message: ToThread) => {
  const { id } = message
  if (message.kind === 'abort') return running.get(id)?.abort()
  const gone = new AbortController()
  running.set(id, gone)
  let valid: ValidLog | undefined
  try {
    const answer = await verifyLog(sql, {
      ...message.task,
      signal: gone.signal,
      onProgress: (entries) => send({ kind: 'progress', id, entries }),
      onValid: (found) => {
        valid = found
      },
    })
    send({ kind: 'done', id, answer, valid })
  } catch (error) {
    send({ kind: 'failed', id, failure: describe(error) })
  } finally {
    running.delete(id)
  }
})

function describe(error: unknown): ThreadFailure {
  if (!(error instanceof Error)) return { name: 'Error', message: String(error), stack: undefined, code: undefined }
  const { name, message, stack } = error
  return { name, message, stack, code: 'code' in error ? error.code : undefined }
}
