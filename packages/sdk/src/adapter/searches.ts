/** Searches by indexes that find more rows than match: these rows are opened, then filtered. */
import { isMissing, isObject, isValidDate, type Row } from '../input.js'
import type { FieldKind } from '../models/fields.js'
import { findPartColumn, readPart } from '../models/index-columns.js'
import type { ModelAccess } from '../models/model-access.js'
import { getAt } from '../records/paths.js'
import { refuseField, refuseOperator } from './refusals.js'

export interface SearchCondition {
  column: string
  /** Whether the column equals the only value, is one of the values, or is a list with all of them. */
  by: 'equal' | 'in' | 'all'
  values: string[]
}

/** The searched value. Each form is named, so that an object given as a value cannot pass for a part or a range. */
export type Query =
  | { equal: unknown }
  | { startsWith: unknown }
  | { contains: unknown }
  | { gte?: unknown; gt?: unknown; lte?: unknown; lt?: unknown }

export interface Filter {
  field: string
  query: Query
}

export interface Searches {
  /** Whether a search of a field for a value finds exactly the rows that have it. */
  isExact(field: string): boolean
  hasIndex(field: string): boolean
  /** Whether a field's normalisation makes its searches ignore case. */
  ignoresCase(field: string): boolean
  /** Like `find`, without the values, for an ORM that builds its SQL before it can wait. */
  plan(field: string, query: Query, operator?: string): Pick<SearchCondition, 'column' | 'by'>
  /** `operator` is its name in errors. @throws InvalidInputError if no index of the field answers the query */
  find(field: string, query: Query, operator?: string): Promise<SearchCondition>
  /** Refuses an operator. The hint is replaced if the field cannot have this kind of index. @throws InvalidInputError */
  refuse(field: string, operator: string, hint?: string, index?: 'exact' | 'prefix'): never
  matches(row: Row, filters: readonly Filter[]): boolean
}

type Matching = { matches(row: Row, query: Row): boolean }

export function createSearches(model: object, access: ModelAccess, table: string): Searches {
  const matches = (row: Row, query: Row) => (model as Matching).matches(row, query)
  const indexesOf = (field: string) =>
    access.columns.filter(({ fields }) => fields.length === 1 && fields[0]?.name === field)
  const isExact = (field: string) => indexesOf(field).some(({ kind, bits }) => kind === 'exact' && bits === undefined)
  const kindOf = (field: string) => access.fields.find(({ name }) => name === field)?.spec.kind
  const plan: Searches['plan'] = (field, query, operator = Object.keys(query)[0]) => {
    const kinds = kindsFor(query)
    // The first of several of one kind: while an index is changed, not all rows have the new column.
    const columns = indexesOf(field).filter(({ kind }) => kinds.includes(kind))
    const [first] = columns
    const [of] = first?.fields ?? []
    if (!first || !of) return refuseSearch(table, { name: field, kind: kindOf(field) }, query, operator)
    const isPart = first.kind === 'prefix' || first.kind === 'ngram'
    const part = isPart ? readPart(of, query) : undefined
    const { column, kind } = part ? findPartColumn({ columns }, of, part) : first
    return { column, by: kind === 'ngram' ? 'all' : isRange(query) ? 'in' : 'equal' }
  }
  return {
    isExact,
    hasIndex: (field) => indexesOf(field).length > 0,
    ignoresCase: (field) =>
      indexesOf(field).some(({ kind }) => kind !== 'range') && matches({ [field]: 'A' }, { [field]: 'a' }),
    plan,
    refuse: (field, operator, hint, index = 'exact') =>
      refuseOperator(table, field, operator, INDEXABLE[index]?.includes(kindOf(field)) ? hint : FILTER_HINT),
    async find(field, query, operator) {
      const planned = plan(field, query, operator)
      const found = await (await access.load()).index({ [field]: askFor(table, field, query) })
      return { ...planned, values: [found[planned.column]].flat() as string[] }
    },
    matches: (row, filters) =>
      filters.every(({ field, query }) => {
        return !isMissing(getAt(row, field.split('.'))) && matches(row, { [field]: askFor(table, field, query) })
      }),
  }
}

/**
 * Reads `beginning%` and `%part%` of `like` and `ilike`. `escapes` tells whether the database accepts `\%`, `\_` and
 * `\\` without a clause `escape`. @throws InvalidInputError for other wildcards, and for `ilike` if the index does not
 * ignore case
 */
export function readPattern(
  { searches }: { readonly searches: Pick<Searches, 'ignoresCase' | 'refuse'> },
  field: string,
  { operator, pattern, escapes }: { operator: string; pattern: unknown; escapes: boolean },
): Query {
  if (operator.toLowerCase() === 'ilike' && !searches.ignoresCase(field))
    return searches.refuse(field, operator, IGNORING_CASE, 'prefix')
  const shape = escapes ? /^(%?)((?:[^%_\\]|\\[%_\\])+)%$/ : /^(%?)([^%_\\]+)%$/
  const [, before, part] = shape.exec(String(pattern)) ?? []
  if (part === undefined) {
    const hint = escapes ? ': write a backslash before each %, _ and \\ of the text' : ' and backslashes'
    const advice = `Write the pattern 'beginning%' or '%part%', without other wildcards${hint}.`
    return searches.refuse(field, operator, advice, 'prefix')
  }
  const text = part.replaceAll(/\\(.)/g, '$1')
  return before === '' ? { startsWith: text } : { contains: text }
}

/** Reads a comparison that an index of whole values cannot answer; undefined for any other. */
export function readSearch(
  table: { readonly searches: Searches },
  field: string,
  { operator, values, escapes }: { operator: string; values: readonly unknown[]; escapes: boolean },
): Query | undefined {
  const [value, end] = values
  if (operator === 'between') return { gte: value, lte: end }
  const bound = SQL_BOUNDS[operator]
  if (bound !== undefined) return { [bound]: value }
  if (operator === 'like' || operator === 'ilike')
    return readPattern(table, field, { operator, pattern: value, escapes })
  const isEqual = (operator === '=' || operator === '==') && value !== null
  return isEqual && !table.searches.isExact(field) && table.searches.hasIndex(field) ? { equal: value } : undefined
}

/** Takes the searches out of conditions that must all hold. Joins bounds of one column, as `isSame` says, into ranges. */
export function takeSearches<Part, S extends { query: Query }>(
  parts: readonly Part[],
  read: (part: Part) => S | undefined,
  isSame: (one: S, other: S) => boolean,
): { rest: Part[]; asked: S[] } {
  const found = parts.map(read)
  const all = found.filter((one) => one !== undefined)
  const isBound = ({ query }: S) => isRange(query) && Object.keys(query).length === 1
  return {
    rest: parts.filter((_, at) => found[at] === undefined),
    asked: [...all.filter((one) => !isBound(one)), ...joinBounds(all.filter(isBound), isSame)],
  }
}

export const IGNORING_CASE = "Give the field `normalize: ['lowercase']`, by which its index ignores case."
export const BOUNDS = ['gte', 'gt', 'lte', 'lt']
const SQL_BOUNDS: Readonly<Record<string, string>> = { '>=': 'gte', '>': 'gt', '<=': 'lte', '<': 'lt' }

/** Joins searches with one bound each into ranges. A surplus bound is paired with the other bound of another range. */
export function joinBounds<S extends { query: Query }>(
  bounds: readonly S[],
  isSame: (one: S, other: S) => boolean,
): S[] {
  const firsts = bounds.filter((one, at) => bounds.findIndex((other) => isSame(one, other)) === at)
  return firsts.flatMap((first) => {
    const queries = bounds.filter((one) => isSame(one, first)).map(({ query }) => query as Row)
    const lower = queries.filter((query) => 'gte' in query || 'gt' in query)
    const upper = queries.filter((query) => !lower.includes(query))
    return Array.from({ length: Math.max(lower.length, upper.length) }, (_, at) => ({
      ...first,
      query: { ...(lower[at] ?? lower[0]), ...(upper[at] ?? upper[0]) },
    }))
  })
}

function askFor(table: string, field: string, query: Query): unknown {
  return 'equal' in query ? wholeValue(table, field, query.equal) : query
}

/** Returns a value that a model cannot mistake for a part or a range. @throws InvalidInputError */
export function wholeValue(table: string, field: string, value: unknown): unknown {
  if (!isObject(value) || isValidDate(value)) return value
  return refuseField(table, field, 'it can only be equal to a value of its own type', 'Pass one, and no object.')
}

function kindsFor(query: Query): string[] {
  if ('startsWith' in query) return ['prefix']
  if ('contains' in query) return ['ngram']
  return isRange(query) ? ['range'] : ['exact', 'range']
}

function isRange(query: Query): boolean {
  return Object.keys(query).some((name) => BOUNDS.includes(name))
}

const INDEXABLE: Readonly<Record<string, readonly (FieldKind | undefined)[]>> = {
  exact: ['text', 'number', 'date'],
  prefix: ['text'],
  ngram: ['text'],
  range: ['number', 'date'],
}

/** Refuses a search for whole values in a field without an index of them. @throws InvalidInputError */
export function refuseUnindexed(table: string, { name, kind }: Searched, hint: string): never {
  if (INDEXABLE.exact?.includes(kind)) {
    refuseField(table, name, 'it has no index by which it could be searched alone', hint)
  }
  refuseField(table, name, `a field of ${kind} cannot have an index`, FILTER_HINT)
}

const FILTER_HINT = 'Filter the rows after they are decrypted.'

interface Searched {
  name: string
  kind: FieldKind | undefined
}

function refuseSearch(table: string, field: Searched, query: Query, operator = ''): never {
  const { name, kind } = field
  const [index = ''] = kindsFor(query)
  const declared: Readonly<Record<string, string>> = {
    prefix: `Declare an index of its beginning: indexes: { ${name}_start: { prefix: '${name}', length: 3 } }.`,
    ngram: `Declare an index of its parts, and read before what that gives away: indexes: { ${name}_parts: { ngram: '${name}', … } }.`,
    range: "Declare an index of buckets: date({ index, range: 'month' }) or number({ index, range: { step } }).",
  }
  const declare = declared[index]
  if (declare === undefined) refuseUnindexed(table, field, 'Give the field an index.')
  const isIndexable = INDEXABLE[index]?.includes(kind)
  const hint = isIndexable ? `${declare} Or filter the rows after they are decrypted.` : FILTER_HINT
  refuseOperator(table, name, operator, hint)
}

/** A page of the matching rows: `take` rows, or all, after the first `skip`. */
export interface Page {
  skip?: number | undefined
  take?: number | undefined
}

/** Takes a page of all rows that an index found. */
export function pageOf<R>(rows: readonly R[], isRight: (row: R) => boolean, { skip = 0, take }: Page = {}): R[] {
  return rows.filter(isRight).slice(skip, take === undefined ? undefined : skip + take)
}

/** Reads opened rows in a fixed order until a page of matching ones is full. */
export async function readPage<R>(
  read: (skip: number, take: number | undefined) => Promise<readonly R[]>,
  isRight: (row: R) => boolean,
  { skip = 0, take }: Page,
): Promise<R[]> {
  const found: R[] = []
  const needed = take === undefined ? undefined : skip + take
  for (let at = 0; needed === undefined || found.length < needed; ) {
    const size = needed === undefined ? undefined : Math.max(MIN_READ, 2 * (needed - found.length))
    const rows = await read(at, size)
    found.push(...rows.filter(isRight))
    at += rows.length
    if (size === undefined || rows.length < size) break
  }
  return found.slice(skip, needed)
}

const MIN_READ = 100
