/** What callers are told: the reason of a refusal, or the description of an error that they did not cause. */
import { DETAILS, PROBLEMS, type ProblemCode } from '@eaas/protocol'
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

/** Why an API key was not accepted, for the operator only, never for the caller. */
export const UNAUTHORIZED_REASONS = ['missing', 'malformed', 'unknown', 'revoked', 'expired'] as const

export type UnauthorizedReason = (typeof UNAUTHORIZED_REASONS)[number]

export interface RefusedCaller {
  reason?: UnauthorizedReason
  api_key_id?: string
  /** for the caller: when it may try again */
  retryAfterSeconds?: number
}

/** Thrown by operations; `http/errors` turns it into the problem document. `detail` contains no secrets. */
export class Refusal extends Error {
  override readonly name: string = 'Refusal'

  constructor(
    readonly code: ProblemCode,
    detail: string,
    /** for the operator only */
    readonly caller: RefusedCaller = {},
  ) {
    super(detail)
  }

  get status(): number {
    return PROBLEMS[this.code].status
  }
}

/** Whatever is wrong with the credential, the caller gets the same refusal; only the operator gets the reason. */
export function unauthorized(reason: UnauthorizedReason, api_key_id?: string): Refusal {
  const caller = api_key_id === undefined ? { reason } : { reason, api_key_id }
  return new Refusal('E_UNAUTHORIZED', DETAILS.E_UNAUTHORIZED.apiKey, caller)
}

interface Failure {
  code: ProblemCode
  /** for the caller; contains no secrets */
  detail: string
  /** for the server's log; undefined if the failure is not logged */
  log?: string
  retryAfterSeconds?: number
}

const unavailable = (detail: string, log: string): Failure => ({ code: 'E_UNAVAILABLE', detail, log })
const notWritten = (detail: string, log = 'audit entry not written'): Failure => ({
  code: 'E_AUDIT_NOT_WRITTEN',
  detail,
  log,
})

/** For the callers of a tenant with an alarm. Reads fail too, because the data that they would return may have been rolled back. */
const ALARM_DETAIL =
  "this tenant's audit log differs from what the server wrote, so all of its calls, reads included, are refused until the " +
  'operator settles the alarm'
const STORE_KEY_ROTATED = unavailable(
  'the store key was rotated, and this server has not read the new one yet; try again later',
  'a store key is missing',
)
/** For calls whose uses of a budget cannot be counted, which comes before they are carried out. */
const READ_ONLY = unavailable(
  'the database accepts no writes, so the call was not carried out; try again later',
  'the database accepts no writes',
)
const COMPARISON_OVERDUE = unavailable(
  'the audit logs in the database could not be read for too long, so no call is carried out; try again later',
  'the audit logs cannot be compared',
)
const UNFOLLOWED_LOG = unavailable(
  "this tenant's audit log has grown by more than could be read in time, so the call was not carried out; try again",
  'the audit log was not read to its end in time',
)

/** Describes an error of the layers below; undefined for any other error, which is a defect. */
export function findFailure(error: unknown): Failure | undefined {
  if (error instanceof OverloadError) {
    const { retryAfterSeconds } = error
    return { code: 'E_UNAVAILABLE', detail: DETAILS.E_UNAVAILABLE.busy, retryAfterSeconds }
  }
  if (error instanceof ChainAlarmError) return notWritten(ALARM_DETAIL, 'the tenant has an alarm')
  if (error instanceof ComparisonOverdueError) return COMPARISON_OVERDUE
  if (error instanceof UnfollowedLogError) return UNFOLLOWED_LOG
  if (error instanceof AuditWriteError) return findWriteFailure(error)
  if (error instanceof TamperedRowError) return describeTampering(error)
  if (error instanceof UnknownStoreKeyError) return STORE_KEY_ROTATED
  if (isReadOnly(error)) return READ_ONLY
  if (!isUnreachable(error)) return undefined
  return unavailable('the database does not answer; try again later', 'the database does not answer')
}

export function describeTampering(error: TamperedRowError): Failure {
  const { row, entry } = DETAILS.E_TAMPERED
  const detail = error instanceof TamperedEntryError ? entry(error.entry_id) : row
  return { code: 'E_TAMPERED', detail, log: 'tampered with' }
}

function findWriteFailure({ mayBeWritten, cause }: AuditWriteError): Failure {
  if (mayBeWritten)
    return notWritten(
      'it is unknown whether the audit entry was written and the call carried out; check before you repeat it',
    )
  if (isStoreKeyGone(cause) || cause instanceof UnknownStoreKeyError) return STORE_KEY_ROTATED
  if (!isUnreachable(cause)) return notWritten(DETAILS.E_AUDIT_NOT_WRITTEN.entry)
  const detail = 'the database does not answer, so the call was not carried out; try again later'
  return unavailable(detail, 'the database does not answer')
}
