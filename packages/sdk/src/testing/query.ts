/** Query strings of the calls that have one. */
import { ACTIONS, isUuid, wire } from '@eaas/protocol'
import * as z from 'zod/mini'
import { readTime } from './time.js'

const MAX_LIMIT = 100

const whole = (least: 0 | 1) =>
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
  limit: z._default(limitUpTo(MAX_LIMIT), 50),
  offset: z._default(whole(0), 0),
  order: z._default(z.enum(['asc', 'desc']), 'desc'),
  after_id: z.optional(whole(0)),
})

export const keysQuery = z.object({
  status: z.optional(z.enum(wire.KEY_STATUSES)),
  name: z.optional(z.string().check(z.refine((text) => !text.includes('\0'), 'must not hold a NUL'))),
  limit: z.optional(limitUpTo(wire.MAX_KEYS)),
  offset: z.optional(whole(0)),
})

export const apiKeysQuery = z.object({
  limit: z.optional(limitUpTo(wire.MAX_LISTED_API_KEYS)),
  offset: z.optional(whole(0)),
})

export const usageQuery = z.object({
  month: z.optional(z.string().check(z.regex(/^(?!0000)\d{4}-(?:0[1-9]|1[0-2])$/, 'must be a month, YYYY-MM'))),
})

export type AuditQuery = z.infer<typeof auditQuery>
