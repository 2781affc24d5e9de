/** Conditions of TypeORM on an encrypted column: replaces it by its index, and refuses what no index can answer. */
import { isClosedSql, joinBounds, namesInSql, type Query, type Row, readPattern } from '@eaas/sdk/adapter'
import type { FindOperator } from 'typeorm'
import { type Builder, type Clause, type Condition, kindOf } from './internals.js'
import { once, Pending } from './pending.js'
import type { KnownTable } from './tables.js'

export interface Located {
  known: KnownTable
  name: string
  alias: string
  /** Quotes another column of the same table, for SQL. */
  quote(name: string): string
}

/** Rewrites a comparison with an encrypted column. @throws InvalidInputError for one that no index can answer */
export function rewriteCondition(builder: Builder, located: Located, value: unknown): Condition {
  if (!isOperator(value)) return equal(builder, located, value)
  const inner = (one: unknown) => rewriteCondition(builder, located, one)
  const text = (one: unknown) => builder.createWhereConditionExpression(inner(one))
  const list = () => (Array.isArray(value.value) ? (value.value as unknown[]) : refuse(located, value.type))
  switch (value.type) {
    case 'isNull':
      // Null is stored as null, so comparisons with it need no index.
      return { operator: 'isNull', parameters: [located.quote(located.name)] }
    case 'equal':
      return value.child ? inner(value.child) : equal(builder, located, value.value)
    case 'not':
      return value.child
        ? { operator: 'not', condition: inner(value.child) }
        : compare(builder, located, 'Not', [value.value])
    case 'in':
      return value.child ? refuse(located, value.type) : compare(builder, located, 'In', list())
    case 'and':
      if (list().every((one) => isOperator(one) && one.type in BOUNDS))
        return searchRanges(builder, located, list() as FindOperator<unknown>[])
      return { operator: 'and', parameters: list().map(text) }
    case 'or':
      return { operator: value.type, parameters: list().map(text) }
    default: {
      const isSearch = ['like', 'ilike', 'between'].includes(value.type) || value.type in BOUNDS
      return isSearch ? search(builder, located, value.type, queryOf(located, value)) : refuse(located, value.type)
    }
  }
}

const BOUNDS: Readonly<Record<string, string>> = {
  moreThan: 'gt',
  moreThanOrEqual: 'gte',
  lessThan: 'lt',
  lessThanOrEqual: 'lte',
}

/** How TypeORM writes a comparison with the column of an index. */
const COMPARED = { equal: 'equal', in: 'any', all: 'arrayContains' }

function searchRanges(builder: Builder, located: Located, operators: readonly FindOperator<unknown>[]): Condition {
  const bounds = operators.map((one) => ({ type: one.type, query: queryOf(located, one) }))
  const ranges = joinBounds(bounds, () => true)
  const [first, ...others] = ranges.map(({ type, query }) => search(builder, located, type, query))
  if (!first) return refuse(located, 'and')
  if (others.length === 0) return first
  const texts = [first, ...others].map((one) => builder.createWhereConditionExpression(one))
  return { operator: 'and', parameters: texts }
}

/** Searches by an index that finds more rows than match; they are opened, then filtered. */
function search(builder: Builder, located: Located, operator: string, query: Query): Condition {
  const { known, name, alias, quote } = located
  const { searches } = known.sealed
  const { column, by } = searches.plan(name, query, capitalized(operator))
  const value = async () => {
    const { values } = await searches.find(name, query)
    return by === 'equal' ? values[0] : values
  }
  const parameter = builder.createParameter(new Pending(value, { alias, field: name, query }))
  return { operator: COMPARED[by], parameters: [quote(column), parameter] }
}

function queryOf({ known, name }: Located, { type, value }: FindOperator<unknown>): Query {
  if (type === 'between') {
    const [gte, lte] = value as unknown as [unknown, unknown]
    return { gte, lte }
  }
  const bound = BOUNDS[type]
  if (bound !== undefined) return { [bound]: value }
  const operator = type === 'like' ? 'Like' : 'ILike'
  return readPattern(known.sealed, name, { operator, pattern: value, escapes: true }) // in PostgreSQL, a backslash escapes
}

function equal(builder: Builder, located: Located, value: unknown): Condition {
  const { known, name } = located
  const { searches } = known.sealed
  const isSearch = (value ?? null) !== null && !searches.isExact(name) && searches.hasIndex(name)
  return isSearch ? search(builder, located, 'equal', { equal: value }) : compare(builder, located, 'Equal', [value])
}

const OPERATORS = { Equal: 'equal', Not: 'notEqual', In: 'in' }

function compare(
  builder: Builder,
  { known, name, quote }: Located,
  operator: keyof typeof OPERATORS,
  values: readonly unknown[],
): Condition {
  const { column, hash } = known.sealed.planEqual(name, operator, values)
  const hashes = once(hash)
  const parameters = values.map((_, at) => builder.createParameter(new Pending(async () => (await hashes())[at])))
  return { operator: OPERATORS[operator], parameters: [quote(column), ...parameters] }
}

function isOperator(value: unknown): value is FindOperator<unknown> {
  return ['FindOperator', 'EqualOperator'].includes(kindOf(value) ?? '')
}

function refuse({ known, name }: Located, operator: string): never {
  return known.sealed.searches.refuse(name, capitalized(operator))
}

function capitalized(type: string): string {
  return type === 'ilike' ? 'ILike' : type.replace(/^./, (first) => first.toUpperCase())
}

/** Finds the values that conditions give for the row. `nameOf` reads the path of a column in a condition. */
export function pinnedBy(
  wheres: readonly Clause[],
  parameters: Row,
  nameOf: (path: string) => string | undefined,
): Row {
  if (wheres.some(({ type }, at) => type === 'or' && at > 0) || wheres.some(({ condition }) => hasOr(condition)))
    return {}
  const found: Row = {}
  const pin = (path: string, parameter: string | undefined) => {
    const name = nameOf(path)
    const key = parameter?.slice(1) ?? ''
    if (name !== undefined && Object.hasOwn(parameters, key)) found[name] = parameters[key]
  }
  for (const { condition } of wheres) {
    if (typeof condition === 'string') {
      const [, path = '', parameter] = /^\s*([\w.]+)\s*=\s*(:\w+)\s*$/.exec(condition) ?? []
      pin(path, parameter)
    } else if (Array.isArray(condition)) Object.assign(found, pinnedBy(condition, parameters, nameOf))
    else if (condition.operator === 'brackets' && 'condition' in condition && Array.isArray(condition.condition)) {
      Object.assign(found, pinnedBy(condition.condition, parameters, nameOf))
    } else if (condition.operator === 'equal' && 'parameters' in condition)
      pin(condition.parameters[0] ?? '', condition.parameters[1])
  }
  return found
}

/** Tells whether a condition may contain a comment, or an `or`: TypeORM joins conditions without parentheses. */
function hasOr(condition: Condition): boolean {
  if (typeof condition === 'object' && !('parameters' in condition)) return false
  const texts = typeof condition === 'string' ? [condition] : condition.parameters // text too, of `Raw`
  return texts.some((text) => !isClosedSql(text) || namesInSql(text).some(({ name }) => name === 'or'))
}
