/** Verifies logs in a thread with connections of its own, so that other calls do not wait for it. */
import type { wire } from '@eaas/protocol'
import { createTaskThread, reviveError } from '../event-loop.js'
import { DatabaseDeadlineError } from '../store/deadline.js'
import type { AuditKey } from './formats/chain.js'
import type { ValidLog, VerifyOptions } from './verify/verify.js'

export interface ThreadDatabase {
  url: string
  urlFile?: string | undefined
  isPooled: boolean
  isSpread: boolean
  searchPath: string | undefined
}

/** `VerifyOptions` without functions and signal, which a message can't carry. */
export type ThreadTask = Omit<VerifyOptions, 'onProgress' | 'onValid' | 'signal'>

export type ThreadNote = { entries: number } | { valid: ValidLog }

export type VerifyLog = (options: Omit<VerifyOptions, 'storeKeys'>) => Promise<wire.Verification>

export interface Verifier {
  verify: (options: VerifyOptions) => Promise<wire.Verification>
  /** Ends the thread; running verifications fail. */
  close(): Promise<void>
}

/** `program` is the compiled `verification-thread-program.ts`. */
export function createVerificationThread(database: ThreadDatabase, program: URL): Verifier {
  const { run, close } = createTaskThread<ThreadTask, wire.Verification, ThreadNote>(program, {
    data: database,
    revive: (failure) => {
      const { name, message } = failure
      return reviveError(failure, name === 'DatabaseDeadlineError' ? new DatabaseDeadlineError(message) : undefined)
    },
  })
  return {
    verify: ({ onProgress, onValid, signal, ...task }) => {
      const onNote = (note: ThreadNote) => ('valid' in note ? onValid?.(note.valid) : onProgress?.(note.entries))
      return run(task, { signal, onNote })
    },
    close,
  }
}

/** For work that may rely only on a log that is wholly valid. @throws the signal's reason once it is aborted */
export async function readValidLog(
  { verifyLog }: { verifyLog: VerifyLog },
  { tenant: { tenant_id }, auditKey }: { tenant: { tenant_id: string }; auditKey: AuditKey },
  options: Pick<VerifyOptions, 'isHeadIgnored' | 'noted' | 'onProgress' | 'signal'> = {},
): Promise<{ valid: ValidLog | undefined; reason: string | undefined; broken_at: number | undefined }> {
  let valid: ValidLog | undefined
  const onValid = (found: ValidLog) => {
    valid = found
  }
  const { reason, broken_at } = await verifyLog({ tenant_id, auditKey, onValid, ...options })
  return { valid, reason, broken_at }
}
