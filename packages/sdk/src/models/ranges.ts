/**
 * Ranges of dates and numbers (local-index.md 3): the bucket of a value, which is all that its index tells, and
 * the buckets that a query covers. Loaded with the first call.
 */
import { InvalidInputError } from '../errors.js'
import type { PlacedField } from './definition.js'
import { type FieldRange, makeFieldText } from './field-texts.js'

/** The most buckets of a query: each is a value that the database compares with. */
const MAX_BUCKETS = 400
const DAY_MS = 86_400_000

/** What buckets of a field are: a unit of dates, or the step of numbers. */
export type Bucketing = 'day' | 'month' | 'year' | { readonly step: number }

/** The kind of a column for the derivation of its key (local-index.md 2). */
export function rangeKind(range: Bucketing): string {
  return `range:${typeof range === 'string' ? range : range.step}`
}

/** Returns the text of a value's bucket. @throws InvalidInputError for a number that is too many steps from zero */
export function makeBucketText(field: PlacedField, value: unknown, index = 0): string {
  makeFieldText(field, value, index) // refuses a value of another kind
  return String(bucketOf(field, value as Date | number, index))
}

/**
 * Returns the text of each bucket that a query covers. For an empty range, that is the bucket of its lower bound, in
 * which no row matches: not every database takes an empty list. @throws InvalidInputError when they are too many
 */
export function makeBucketTexts(field: PlacedField, { lower, upper, openAbove }: FieldRange): string[] {
  // The last value below the bound is known only for dates, which are whole numbers.
  const last = openAbove && typeof upper !== 'number' ? new Date(upper.getTime() - 1) : upper
  const first = bucketOf(field, lower, 0)
  const length = Math.max(1, bucketOf(field, last, 0) - first + 1)
  if (length <= MAX_BUCKETS) return Array.from({ length }, (_, at) => String(first + at))
  const hint = 'Search for less at a time, or declare larger buckets.'
  const message = `the range covers ${length} buckets, and may cover ${MAX_BUCKETS}`
  throw new InvalidInputError(message, hint, { index: 0, field: field.name })
}

function bucketOf({ name, spec: { range } }: PlacedField, value: Date | number, index: number): number {
  const bucket = typeof value === 'number' ? Math.floor(value / Object(range).step) : dateBucket(value, range)
  if (Number.isSafeInteger(bucket)) return bucket + 0 // no negative zero
  throw new InvalidInputError('the number is too many steps from zero', 'Declare a larger step.', {
    index,
    field: name,
  })
}

function dateBucket(date: Date, range: unknown): number {
  if (range === 'day') return Math.floor(date.getTime() / DAY_MS)
  return range === 'month' ? date.getUTCFullYear() * 12 + date.getUTCMonth() : date.getUTCFullYear()
}
