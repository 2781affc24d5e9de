/** What is hashed to find rows, and the texts of a range's buckets (local-index.md 3). */
import { InvalidInputError } from '../errors.js'
import { isMissing, type Row } from '../input.js'
import type { Definition, PlacedField } from './definition.js'
import type { FieldRange, IndexColumn } from './index-columns.js'
import { findPartColumn, getQueryFields, makeFieldText, readPart } from './index-columns.js'
import type * as IndexTexts from './index-texts.js'
import type { ColumnTexts } from './index-texts.js'
import type { SealDeps } from './seal-rows.js'

const ALL_FIELDS = 'Give the values of all fields of an index.'

export async function hashQuery(
  { makeColumnTexts, hashColumnTexts }: Pick<typeof IndexTexts, 'makeColumnTexts' | 'hashColumnTexts'>,
  deps: SealDeps,
  { definition, query }: { definition: Definition; query: Row },
  signal: AbortSignal | undefined,
): Promise<Row> {
  definition.late.rare ??= await deps.loadRare()
  const texts = readQueryTexts(definition, query, makeColumnTexts)
  await deps.envelopes.ready()
  const row = definition.columns.map((column) => texts.get(column))
  const getValue = await hashColumnTexts(deps, definition, [row], { signal })
  return Object.fromEntries([...texts].map(([column, one]) => [column.column, getValue(column, one)]))
}

function valueToFind({ name }: PlacedField, query: Row): unknown {
  const value = query[name]
  if (!isMissing(value)) return value
  const hint = 'Search its column for null.'
  throw new InvalidInputError(`the query has no value for ${JSON.stringify(name)}`, hint)
}

function readQueryTexts(
  definition: Definition,
  query: Row,
  makeTexts: typeof IndexTexts.makeColumnTexts,
): Map<IndexColumn, ColumnTexts> {
  const found = new Map<IndexColumn, ColumnTexts>()
  const texts = new Map<PlacedField, string>()
  for (const field of getQueryFields(definition, query)) {
    const value = valueToFind(field, query)
    const part = readPart(field, value)
    const range = field.spec.readRange?.(field, value)
    const own = definition.columns.filter(({ fields }) => fields[0] === field)
    for (const one of own.filter(({ kind }) => kind === 'range'))
      found.set(one, range ? makeBucketTexts(field, range) : makeBucketText(field, value))
    if (range) continue
    if (!part) texts.set(field, makeFieldText(field, value))
    else {
      const { kind, length } = findPartColumn(definition, field, part)
      for (const one of own.filter((column) => column.kind === kind && column.length === length))
        found.set(one, makeTexts(definition.name, one, [part.text]))
    }
  }
  const whole = definition.columns.filter(({ kind }) => kind === 'exact')
  const complete = whole.filter(({ fields }) => fields.every((field) => texts.has(field)))
  if (complete.length === 0 && found.size === 0)
    throw new InvalidInputError('the query has all fields of no index', ALL_FIELDS)
  const searched = [...complete, ...found.keys()]
  const unused = [...texts.keys()].find((field) => !searched.some(({ fields }) => fields.includes(field)))
  if (unused) {
    const message = `${JSON.stringify(unused.name)} has an index only with fields that the query lacks, or of its parts`
    throw new InvalidInputError(message, ALL_FIELDS)
  }
  for (const column of complete) {
    const values = column.fields.map((field) => texts.get(field) ?? '')
    found.set(column, makeTexts(definition.name, column, values))
  }
  return found
}

/** The most buckets of a query. The database compares with a value for each. */
const MAX_BUCKETS = 400
const DAY_MS = 86_400_000

export function makeBucketText(field: PlacedField, value: unknown, index = 0): string {
  makeFieldText(field, value, index) // refuses a value of another kind
  return String(bucketOf(field, value as Date | number, index))
}

/** Returns the texts of a query's buckets. An empty range has its lower bound's: not every database takes an empty list. */
export function makeBucketTexts(field: PlacedField, { lower, upper, openAbove }: FieldRange): string[] {
  // The last value below the bound is only known for dates, which are whole numbers.
  const last = openAbove && typeof upper !== 'number' ? new Date(upper.getTime() - 1) : upper
  const first = bucketOf(field, lower, 0)
  const length = Math.max(1, bucketOf(field, last, 0) - first + 1)
  if (length <= MAX_BUCKETS) return Array.from({ length }, (_, at) => String(first + at))
  const { range } = field.spec
  const larger =
    typeof range === 'object'
      ? 'a larger step'
      : range === 'year'
        ? ''
        : range === 'month'
          ? "range: 'year'"
          : "range: 'month' or 'year'"
  const hint = `Give bounds that are closer together${larger && `, or declare larger buckets: ${larger}`}.`
  const message = `${JSON.stringify(field.name)}: the range covers ${length} buckets, and may cover ${MAX_BUCKETS}`
  throw new InvalidInputError(message, hint)
}

function bucketOf({ name, spec: { range } }: PlacedField, value: Date | number, index: number): number {
  const bucket = typeof value === 'number' ? Math.floor(value / Object(range).step) : dateBucket(value, range)
  if (Number.isSafeInteger(bucket)) return bucket + 0 // no negative zero
  const place = { index, field: name }
  throw new InvalidInputError('the number is too many steps from zero', 'Declare a larger step.', place)
}

function dateBucket(date: Date, range: unknown): number {
  if (range === 'day') return Math.floor(date.getTime() / DAY_MS)
  return range === 'month' ? date.getUTCFullYear() * 12 + date.getUTCMonth() : date.getUTCFullYear()
}
