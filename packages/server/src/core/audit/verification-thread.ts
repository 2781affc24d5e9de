/**
 * Verifies logs in a thread of its own, which `verification-thread-program.ts` runs, so that other calls do not wait
 * for it. The thread has connections of its own.
 */
import type { wire } from '@eaas/protocol'
import { DatabaseDeadlineError } from '../store/deadline.js'
import { createTaskThread, reviveError } from '../task-thread.js'
import type { AuditKey } from './formats/chain.js'
import type { ValidLog, VerifyOptions } from './verify/verify.js'

/** The database, for connections of the thread's own. */
export interface ThreadDatabase {
  url: string
  urlFile?: string | undefined
  isPooled: boolean
  isSpread: boolean
  searchPath: string | undefined
}

/** `VerifyOptions` without functions and signal, which a message can't carry. */
export type ThreadTask = Omit<VerifyOptions, 'onProgress' | 'onValid' | 'signal'>

/** What the thread says of a verification that runs: how far it is, or what the log says. */
export type ThreadNote = { entries: number } | { valid: ValidLog }

/** Verifies a log of this installation; see `verifyLog`. */
export type VerifyLog = (options: Omit<VerifyOptions, 'storeKeys'>) => Promise<wire.Verification>

export interface Verifier {
  verify: (options: VerifyOptions) => Promise<wire.Verification>
  /** Ends the thread; running verifications fail. */
  close(): Promise<void>
}

/** Creates the verifier; `program` is the compiled `verification-thread-program.ts`. */
export function createVerificationThread(database: ThreadDatabase, program: URL): Verifier {
  const { run, close } = createTaskThread<ThreadTask, wire.Verification, ThreadNote>(program, {
    data: database,
    revive: (failure) =>
      reviveError(
        failure,
        failure.name === 'DatabaseDeadlineError' ? new DatabaseDeadlineError(failure.message) : undefined,
      ),
  })
  return {
    verify: ({ onProgress, onValid, signal, ...task }) =>
      run(task, {
        signal,
        onNote: (note) => ('valid' in note ? onValid?.(note.valid) : onProgress?.(note.entries)),
      }),
    close,
  }
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
