/** A call that the server refuses, as a value of the domain: a problem code and a sentence for the caller. */
import { DETAILS, PROBLEMS, type ProblemCode } from '@eaas/protocol'

/** Why an API key was not accepted: shown to the operator, never to the caller. */
export const UNAUTHORIZED_REASONS = ['missing', 'malformed', 'unknown', 'revoked', 'expired'] as const

export type UnauthorizedReason = (typeof UNAUTHORIZED_REASONS)[number]

export interface RefusedCaller {
  reason?: UnauthorizedReason
  api_key_id?: string
  /** for the caller: when it may try again */
  retryAfterSeconds?: number
}

/** Thrown by operations; `http/errors` turns it into the problem document. `detail` holds nothing secret. */
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

/** The caller gets the same refusal whatever is wrong with its credential; the operator gets the reason. */
export function unauthorized(reason: UnauthorizedReason, api_key_id?: string): Refusal {
  const caller = api_key_id === undefined ? { reason } : { reason, api_key_id }
  return new Refusal('E_UNAUTHORIZED', DETAILS.E_UNAUTHORIZED.apiKey, caller)
}
