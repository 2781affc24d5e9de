/**
 * What a caller is told about an error that is not its fault. The layers below throw several kinds; code that answers
 * callers handles only this one.
 */
import { DETAILS, type ProblemCode } from '@eaas/protocol'
import {
  AuditWriteError,
  ChainAlarmError,
  ComparisonOverdueError,
  OverloadError,
  UnfollowedLogError,
} from '../audit/append-errors.js'
import { TamperedEntryError } from '../audit/listed-entries.js'
import { UnknownStoreKeyError } from '../crypto/key-hierarchy.js'
import { isStoreKeyGone } from '../store/store-keys.js'
import { TamperedRowError } from '../store/tampered-row.js'
import { isReadOnly, isUnreachable } from '../store/unreachable.js'

interface Failure {
  code: ProblemCode
  /** for the caller; holds nothing secret */
  detail: string
  /** for the server's log; undefined if the failure is not logged */
  log?: string
  retryAfterSeconds?: number
}

/** For the caller of an alarmed tenant; reads fail too, because what they would answer may be undone. */
const ALARM_DETAIL =
  "this tenant's audit log differs from what the server wrote, so all of its calls, reads included, are refused until the " +
  'operator settles the alarm'

const STORE_KEY_ROTATED: Failure = {
  code: 'E_UNAVAILABLE',
  detail: 'the store key was rotated, and this server has not read the new one yet; try again later',
  log: 'a store key is missing',
}

/** For what writes apart from the log: the uses of a budget are counted before a call is carried out. */
const READ_ONLY: Failure = {
  code: 'E_UNAVAILABLE',
  detail: 'the database accepts no writes, so the call was not carried out; try again later',
  log: 'the database accepts no writes',
}

/** Describes an error of the layers below; undefined for any other error, which is a defect. */
export function findFailure(error: unknown): Failure | undefined {
  if (error instanceof OverloadError) {
    const { retryAfterSeconds } = error
    return { code: 'E_UNAVAILABLE', detail: DETAILS.E_UNAVAILABLE.busy, retryAfterSeconds }
  }
  if (error instanceof ChainAlarmError) {
    return { code: 'E_AUDIT_NOT_WRITTEN', detail: ALARM_DETAIL, log: 'the tenant has an alarm' }
  }
  if (error instanceof ComparisonOverdueError) {
    const detail =
      'the audit logs in the database could not be read for too long, so no call is carried out; try again later'
    return { code: 'E_UNAVAILABLE', detail, log: 'the audit logs cannot be compared' }
  }
  if (error instanceof UnfollowedLogError) {
    const detail =
      "this tenant's audit log has grown by more than could be read in time, so the call was not carried out; try again"
    return { code: 'E_UNAVAILABLE', detail, log: 'the audit log was not read to its end in time' }
  }
  if (error instanceof AuditWriteError) return findWriteFailure(error)
  if (error instanceof TamperedRowError) return describeTampering(error)
  if (error instanceof UnknownStoreKeyError) return STORE_KEY_ROTATED
  if (isReadOnly(error)) return READ_ONLY
  if (!isUnreachable(error)) return undefined
  const detail = 'the database does not answer; try again later'
  return { code: 'E_UNAVAILABLE', detail, log: 'the database does not answer' }
}

/** What a caller is told about data that was changed outside the server. */
export function describeTampering(error: TamperedRowError): Failure {
  const { row, entry } = DETAILS.E_TAMPERED
  const detail = error instanceof TamperedEntryError ? entry(error.entry_id) : row
  return { code: 'E_TAMPERED', detail, log: 'tampered with' }
}

function findWriteFailure({ mayBeWritten, cause }: AuditWriteError): Failure {
  if (mayBeWritten) {
    return {
      code: 'E_AUDIT_NOT_WRITTEN',
      detail: 'it is unknown whether the audit entry was written and the call carried out; check before you repeat it',
      log: 'audit entry not written',
    }
  }
  if (isStoreKeyGone(cause) || cause instanceof UnknownStoreKeyError) return STORE_KEY_ROTATED
  if (isUnreachable(cause)) {
    return {
      code: 'E_UNAVAILABLE',
      detail: 'the database does not answer, so the call was not carried out; try again later',
      log: 'the database does not answer',
    }
  }
  return {
    code: 'E_AUDIT_NOT_WRITTEN',
    detail: DETAILS.E_AUDIT_NOT_WRITTEN.entry,
    log: 'audit entry not written',
  }
}

/**
 * Whether an error fails only the items of a batch that use the row: one that was tampered with. Any other error fails
 * the whole batch.
 */
export function failsOneItem(error: unknown): error is TamperedRowError {
  return error instanceof TamperedRowError
}
