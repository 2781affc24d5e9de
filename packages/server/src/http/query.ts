/** Query strings of the /v1 API: text that becomes numbers and times, without coercion. */
import { ACTIONS, isUuid, wire } from '@eaas/protocol'
import * as z from 'zod/mini'
import { parseRfc3339 } from '../operations/rfc3339.js'

const DEFAULT_LIMIT = 50
const MAX_LIMIT = 100

const wholeNumber = (least: 0 | 1) =>
  z.pipe(
    z
      .string()
      .check(
        z.regex(least === 1 ? /^[1-9]\d{0,15}$/ : /^(?:0|[1-9]\d{0,15})$/, `must be a whole number from ${least}`),
      ),
    z.transform(Number),
  )
/** However many digits it has: what is above the maximum is the maximum. */
const limitUpTo = (max: number) =>
  z.pipe(
    z.string().check(z.regex(/^[1-9]\d*$/, 'must be a whole number from 1')),
    z.transform((text) => Math.min(Number(text), max)),
  )

// Entries have milliseconds: a finer bound is rounded inwards, so that both stay inclusive.
const timeFrom = z.pipe(z.string(), z.transform(instant('up')))
const timeTo = z.pipe(z.string(), z.transform(instant('down')))

function instant(round: 'up' | 'down') {
  return (text: string, context: { issues: unknown[] }) => {
    const time = parseRfc3339(text, round)
    if (time !== undefined) return time
    context.issues.push({ code: 'custom', message: 'must be an RFC 3339 time with an offset', input: text })
    return z.NEVER
  }
}

/** `GET /v1/audit` */
export const auditQuery = z.object({
  key_id: z.optional(z.string().check(z.refine(isUuid, 'must be a UUID, lower case, with dashes'))),
  action: z.optional(z.enum(ACTIONS)),
  date_from: z.optional(timeFrom),
  date_to: z.optional(timeTo),
  limit: z._default(limitUpTo(MAX_LIMIT), DEFAULT_LIMIT),
  offset: z._default(wholeNumber(0), 0),
  order: z._default(z.enum(['asc', 'desc']), 'desc'),
  after_id: z.optional(wholeNumber(0)),
})

/** `GET /v1/audit/verify` */
export const verifyQuery = z.object({
  after_id: z.optional(wholeNumber(0)),
  through_id: z.optional(wholeNumber(1)),
  checkpoint: z.optional(z.string()),
})

/** `GET /v1/audit/export` */
export const exportQuery = z.object({ after_id: z.optional(wholeNumber(0)), through_id: z.optional(wholeNumber(1)) })

/** `GET /v1/keys` */
export const keysQuery = z.object({
  status: z.optional(z.enum(wire.KEY_STATUSES)),
  name: z.optional(z.string().check(z.refine((text) => !text.includes('\0'), 'must not hold a NUL'))),
  limit: z.optional(limitUpTo(wire.MAX_KEYS)),
  offset: z.optional(wholeNumber(0)),
})

/** `GET /v1/api-keys` */
export const apiKeysQuery = z.object({
  limit: z.optional(limitUpTo(wire.MAX_LISTED_API_KEYS)),
  offset: z.optional(wholeNumber(0)),
})

/** `GET /v1/usage` */
export const usageQuery = z.object({
  month: z.optional(z.string().check(z.regex(/^(?!0000)\d{4}-(?:0[1-9]|1[0-2])$/, 'must be a month, YYYY-MM'))),
})
