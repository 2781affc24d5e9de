/** Query strings of the calls that have one. */
import { ACTIONS, isUuid, wire } from '@eaas/protocol'
import * as z from 'zod/mini'
import { readTime } from './time.js'

const whole = (least: 0 | 1) =>
  z.pipe(
    z
      .string()
      .check(
        z.regex(least === 1 ? /^[1-9]\d{0,15}$/ : /^(?:0|[1-9]\d{0,15})$/, `must be a whole number from ${least}`),
      ),
    z.transform(Number),
  )
const time = (round: 'up' | 'down') =>
  z.pipe(
    z
      .string()
      .check(z.refine((text) => readTime(text, round) !== undefined, 'must be an RFC 3339 time with an offset')),
    z.transform((text) => readTime(text, round) ?? text),
  )

export const auditQuery = z.object({
  key_id: z.optional(z.string().check(z.refine(isUuid, 'must be a UUID, lower case, with dashes'))),
  action: z.optional(z.enum(ACTIONS)),
  date_from: z.optional(time('up')),
  date_to: z.optional(time('down')),
  limit: z._default(whole(1), 50),
  offset: z._default(whole(0), 0),
  order: z._default(z.enum(['asc', 'desc']), 'desc'),
  after_id: z.optional(whole(0)),
})

export const keysQuery = z.object({
  status: z.optional(z.enum(wire.KEY_STATUSES)),
  name: z.optional(z.string().check(z.refine((text) => !text.includes('\0'), 'must not hold a NUL'))),
  limit: z.optional(whole(1)),
  offset: z.optional(whole(0)),
})

export const usageQuery = z.object({
  month: z.optional(z.string().check(z.regex(/^(?!0000)\d{4}-(?:0[1-9]|1[0-2])$/, 'must be a month, YYYY-MM'))),
})

export type AuditQuery = z.infer<typeof auditQuery>
