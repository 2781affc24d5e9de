/** The query strings of the API, by `operationId`. Strict: they refuse unknown parameters. */
import * as z from 'zod/mini'
import { foldUuid } from '../bytes.js'
import { ACTIONS, ON_BEHALF_OF } from '../entry-names.js'
import { readDistinctJson } from '../json.js'
import { MAX_KEYS, MAX_LISTED_API_KEYS, MAX_LISTED_ENTRIES } from '../limits.js'
import { parseRfc3339 } from '../rfc3339.js'
import type { OperationId } from '../routes.js'
import { isWrapContext, PURPOSES } from '../wrapped-key-v2.js'
import { KEY_STATUSES, sentUuid, whole, withoutNul } from './values.js'

const DEFAULT_LISTED_ENTRIES = 50

/** Digits become a number. OpenAPI shows a number, so that generated clients take one. */
const wholeNumber = (least: 0 | 1, number: z.ZodMiniType<number, number>, most = Number.POSITIVE_INFINITY) =>
  z.pipe(
    z.string().check(z.regex(least === 0 ? /^(?:0|[1-9]\d*)$/ : /^[1-9]\d*$/, `must be a whole number from ${least}`)),
    z.pipe(
      z.transform((text: string) => Math.min(Number(text), most)),
      number,
    ),
  )
export const from0 = wholeNumber(0, whole(0))
const from1 = wholeNumber(1, whole(1))
/** A larger number, of however many digits, is read as the maximum. */
export const limitUpTo = (max: number) => wholeNumber(1, z.number().check(z.gte(1)), max)

// Entries' times have milliseconds, so finer bounds are rounded inwards; both bounds stay inclusive.
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

const OPERATOR = 'operator:'

/** The id of an API key, or of an operator's, in its canonical form; the name of any other actor unchanged. */
function foldActor(actor: string): string {
  return actor.startsWith(OPERATOR) ? OPERATOR + foldUuid(actor.slice(OPERATOR.length)) : foldUuid(actor)
}

/** The pairs that a context must have, as JSON: `{"model":"customers"}`. */
export const contextText = z.pipe(
  z.string(),
  z.transform((text: string, issues) => {
    const pairs = readDistinctJson(text)
    if (isWrapContext(pairs)) return pairs
    issues.issues.push({ code: 'custom', message: 'must be a JSON object of pairs of a context', input: text })
    return z.NEVER
  }),
)

/** From year 1 on. */
const MONTH = /^(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})-(?:0[1-9]|1[0-2])$/

/** The longest name that a caller could have meant. A longer one may be a secret in the wrong place. */
const NAME_CHARACTERS = 20

/** Refuses members outside `shape`; the message has the first one, `says` and the known members. */
export function strict<Shape extends z.core.$ZodShape>(shape: Shape, says: string) {
  const takes = Object.keys(shape).join(', ')
  return z.strictObject(shape, {
    error(issue) {
      if (issue.code !== 'unrecognized_keys') return undefined
      const [unknown = ''] = issue.keys
      return `${unknown.length <= NAME_CHARACTERS ? unknown : 'a longer name'}: ${says} ${takes}`
    },
  })
}

/** Strict, since with a misspelt filter a report would otherwise show and count everything. */
const query = <Shape extends z.core.$ZodShape>(shape: Shape) =>
  strict(shape, 'is no parameter of this call, which takes')

export const QUERIES = {
  listKeys: query({
    status: z.optional(z.enum(KEY_STATUSES)),
    name: z.optional(withoutNul),
    limit: z.optional(limitUpTo(MAX_KEYS)),
    offset: z.optional(from0),
  }),
  listAudit: query({
    key_id: z.optional(sentUuid),
    action: z.optional(z.enum(ACTIONS)),
    actor: z.optional(withoutNul.check(z.overwrite(foldActor))),
    on_behalf_of: z.optional(
      z.string().check(z.regex(ON_BEHALF_OF, 'must be 1 to 255 visible ASCII characters, without spaces or commas')),
    ),
    purpose: z.optional(z.enum(PURPOSES)),
    context: z.optional(contextText),
    date_from: z.optional(timeFrom),
    date_to: z.optional(timeTo),
    limit: z._default(limitUpTo(MAX_LISTED_ENTRIES), DEFAULT_LISTED_ENTRIES),
    offset: z._default(from0, 0),
    order: z._default(z.enum(['asc', 'desc']), 'desc'),
    after_id: z.optional(from0),
  }),
  verifyAudit: query({
    after_id: z.optional(from0),
    through_id: z.optional(from1),
    checkpoint: z.optional(z.string()),
  }),
  exportAudit: query({ after_id: z.optional(from0), through_id: z.optional(from1) }),
  listApiKeys: query({ limit: z.optional(limitUpTo(MAX_LISTED_API_KEYS)), offset: z.optional(from0) }),
  getUsage: query({ month: z.optional(z.string().check(z.regex(MONTH, 'must be a month, YYYY-MM'))) }),
} as const satisfies Partial<Record<OperationId, z.ZodMiniType>>

export type Queries = { [Id in keyof typeof QUERIES]: z.infer<(typeof QUERIES)[Id]> }
