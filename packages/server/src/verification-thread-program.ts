/** The program of the thread that verifies logs, which `core/audit/verify/verify.ts` starts. */
import { getPriority, setPriority } from 'node:os'
import type { wire } from '@eaas/protocol'
import type { ThreadDatabase, ThreadNote, ThreadTask } from './core/audit/verify/verify.js'
import { verifyLog } from './core/audit/verify/verify.js'
import { serveTasks } from './core/event-loop.js'
import { connect } from './core/store/db.js'
import { withDeadlines } from './core/store/deadline.js'

const CONNECTIONS = 3 // logs that are verified at once: two for callers, and the scheduled one
/** So that calls come first where cores are scarce. */
const NICER = 10
const NICEST = 19

// On Linux this is the priority of this thread alone; elsewhere, of the whole process.
if (process.platform === 'linux') {
  try {
    setPriority(0, Math.min(NICEST, getPriority(0) + NICER))
  } catch {
    // The system call may be filtered; the threads then have equal priority.
  }
}

const database = serveTasks<ThreadTask, wire.Verification, ThreadNote>((task, { signal, note }) =>
  verifyLog(sql, { ...task, signal, onProgress: (entries) => note({ entries }), onValid: (valid) => note({ valid }) }),
) as ThreadDatabase
const sql = withDeadlines(connect({ ...database, max: CONNECTIONS }))
