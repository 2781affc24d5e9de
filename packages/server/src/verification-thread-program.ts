/**
 * The program of the thread that verifies logs: `core/audit/verification-thread.ts` starts it and says what to
 * verify.
 */
import type { wire } from '@eaas/protocol'
import type { ThreadDatabase, ThreadNote, ThreadTask } from './core/audit/verification-thread.js'
import { verifyLog } from './core/audit/verify/verify.js'
import { connect } from './core/store/db.js'
import { withDeadlines } from './core/store/deadline.js'
import { serveTasks } from './core/task-thread.js'

/** Logs that are verified at once: two for callers, and the scheduled one. */
const CONNECTIONS = 3

const database = serveTasks<ThreadTask, wire.Verification, ThreadNote>((task, { signal, note }) =>
  verifyLog(sql, {
    ...task,
    signal,
    onProgress: (entries) => note({ entries }),
    onValid: (valid) => note({ valid }),
  }),
) as ThreadDatabase
const sql = withDeadlines(connect({ ...database, max: CONNECTIONS }))
