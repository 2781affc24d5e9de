/** Conditions of Prisma: replaces an encrypted field by its index, and refuses what no index can answer. */
import {
  BOUNDS,
  type Filter,
  IGNORING_CASE,
  type Query,
  type Row,
  refuseField,
  type SealedTable,
  searchHint,
} from '@eaas/sdk/adapter'
import type { KnownModel } from './schema.js'
import { DB_NULL, isNull, isPlain, readObject } from './values.js'

const LOGICAL = ['AND', 'OR', 'NOT']
const OF_RELATION = ['some', 'every', 'none', 'is', 'isNot']
const OPERATORS: Readonly<Record<string, string>> = { equals: '=', in: 'in', notIn: 'not in', not: 'not' }

/**
 * Rewrites a condition on a model's rows, or a list of conditions. `filters` collects what opened rows must match; if
 * it is undefined, a search that needs filtering is refused.
 */
export async function rewriteWhere(model: KnownModel, where: unknown, filters?: Filter[]): Promise<unknown> {
  if (Array.isArray(where)) return Promise.all(where.map((one) => rewriteWhere(model, one, filters)))
  const given = readObject(where, 'a condition')
  if (!given) return where
  const out: Row = {}
  const further: Row[] = []
  for (const [key, value] of Object.entries(given)) {
    const relation = model.relations.get(key)
    if (value === undefined) out[key] = value
    else if (key === 'AND') out[key] = await rewriteWhere(model, value, filters)
    else if (LOGICAL.includes(key)) out[key] = await rewriteWhere(model, value)
    else if (relation !== undefined) out[key] = await rewriteRelation(model.get(relation), value)
    else if (model.sealed?.isSealed(key)) {
      if (referencesIn(value).length > 0) refuseReference(model.sealed, key)
      further.push(...(await compare(model.sealed, key, { filter: value, filters, isJson: model.json.has(key) })))
    } else {
      for (const { modelName, name } of referencesIn(value)) {
        const { sealed } = model.get(modelName)
        if (sealed?.isSealed(name)) refuseReference(sealed, name)
      }
      const { name, fields } = await rewriteCombined(model, key, value)
      out[name] = fields
    }
  }
  return further.reduce((all, one) => both(all, one), out)
}

/** Replaces an encrypted field in a compound unique key by its index. Returns the new key with its values. */
async function rewriteCombined(
  model: KnownModel,
  key: string,
  value: unknown,
): Promise<{ name: string; fields: unknown }> {
  const { sealed, uniques } = model
  const given = isCombined(model, key) && isPlain(value) ? value : {}
  const field = Object.keys(given).find((one) => sealed?.isSealed(one))
  if (!sealed || field === undefined) return { name: key, fields: value }
  const plans = new Map(
    Object.entries(given).flatMap(([name, one]) =>
      sealed.isSealed(name) ? [[name, sealed.planEqual(name, '=', [one])]] : [],
    ),
  )
  const indexed = (uniques.get(key) ?? Object.keys(given)).map((name) => plans.get(name)?.column ?? name)
  const [name] = [...uniques].find(([, fields]) => String(fields.toSorted()) === String(indexed.toSorted())) ?? []
  if (name === undefined) {
    const hint = `Add @@unique([${indexed.join(', ')}]) beside it in the schema.`
    return refuseField(sealed.name, field, `rows are found by ${key} only if its index is unique so too`, hint)
  }
  const all = Object.entries(given).map(async ([one, own]) => {
    const plan = plans.get(one)
    return plan ? [plan.column, (await plan.hash())[0]] : [one, own]
  })
  return { name, fields: Object.fromEntries(await Promise.all(all)) }
}

/** A field reference such as `client.user.fields.email`: in a condition, the value of that column. */
type Reference = { modelName: string; name: string }

function referencesIn(value: unknown): Reference[] {
  if (Array.isArray(value) || isPlain(value)) return Object.values(value).flatMap(referencesIn)
  const isReference = typeof (value as { _toGraphQLInputType?: unknown } | null)?._toGraphQLInputType === 'function'
  return isReference ? [value as Reference] : []
}

function refuseReference({ name }: SealedTable, field: string): never {
  const hint = 'Compare it with a value, or compare the fields after the rows are decrypted.'
  refuseField(name, field, 'the database cannot compare it with another field', hint)
}

function both(where: Row, condition: Row): Row {
  const isFree = Object.keys(condition).every((key) => !Object.hasOwn(where, key))
  return isFree ? { ...where, ...condition } : { ...where, AND: [...[where.AND ?? []].flat(), condition] }
}

async function rewriteRelation(model: KnownModel, filter: unknown): Promise<unknown> {
  const given = readObject(filter, 'a condition')
  if (!given) return filter
  if (!Object.keys(given).some((key) => OF_RELATION.includes(key))) return rewriteWhere(model, given)
  const all = Object.entries(given).map(async ([key, value]) => [key, await rewriteWhere(model, value)])
  return Object.fromEntries(await Promise.all(all))
}

/** A filter on a field, and the list that collects filters for opened rows. */
interface Comparison {
  filter: unknown
  filters: Filter[] | undefined
  /** Whether the field is JSON, where null stands for DbNull. */
  isJson: boolean
}

/** Replaces a filter on an encrypted field by conditions on its indexes. */
async function compare(table: SealedTable, field: string, { filter, filters, isJson }: Comparison): Promise<Row[]> {
  // Null is stored as null, so comparisons with it need no index.
  const nullOf = (value: unknown) => (isJson ? (value ?? DB_NULL) : value)
  if (isNull(filter)) return [{ [field]: isJson ? { equals: nullOf(filter) } : filter }]
  if (!isPlain(filter)) return equals(table, field, { filter, filters })
  const given = Object.entries(filter).filter(([, value]) => value !== undefined)
  const absent = Object.entries(filter).filter(([, value]) => value === undefined)
  const searches = searchesIn(table, field, given)
  const all = given.map(async ([operator, value]): Promise<Row[]> => {
    if (operator === 'mode' || searches.operators.includes(operator)) return []
    const name = OPERATORS[operator]
    if (name === undefined) return table.searches.refuse(field, operator)
    if (isNull(value) && (operator === 'equals' || operator === 'not'))
      return [{ [field]: { [operator]: nullOf(value) } }]
    if (operator === 'not' && isPlain(value)) {
      const inner = await compare(table, field, { filter: value, filters: undefined, isJson })
      return inner.map((one) => (isJson ? { NOT: one } : negate(one))) // `not` of JSON takes a value alone
    }
    if (operator === 'equals') return equals(table, field, { filter: value, filters })
    const isList = operator === 'in' || operator === 'notIn'
    if (isList && !Array.isArray(value)) return table.searches.refuse(field, operator)
    const { column, values } = await table.findEqual(field, name, isList ? (value as unknown[]) : [value])
    return [{ [column]: { [operator]: isList ? values : values[0] } }]
  })
  const found = searches.queries.map((query) => search(table, field, query, filters))
  const ofPrisma = absent.length > 0 ? [{ [field]: Object.fromEntries(absent) }] : []
  return [...(await Promise.all([...all, ...found])).flat(), ...ofPrisma]
}

const PARTS = ['startsWith', 'contains']

/** Returns the searches of parts and ranges in a filter; the bounds of a range are one search. */
function searchesIn(table: SealedTable, field: string, given: readonly [string, unknown][]) {
  const mode = given.find(([operator]) => operator === 'mode')?.[1]
  if (mode !== undefined && mode !== 'default' && !(mode === 'insensitive' && table.searches.ignoresCase(field)))
    refuseField(table.name, field, `its index does not compare by mode ${JSON.stringify(mode)}`, IGNORING_CASE)
  const bounds = given.filter(([operator]) => BOUNDS.includes(operator))
  const parts = given.filter(([operator]) => PARTS.includes(operator))
  return {
    operators: [...BOUNDS, ...PARTS],
    queries: [
      ...(bounds.length > 0 ? [Object.fromEntries(bounds)] : []),
      ...parts.map(([operator, value]) => ({ [operator]: value })),
    ] as Query[],
  }
}

async function equals(
  table: SealedTable,
  field: string,
  { filter, filters }: Pick<Comparison, 'filter' | 'filters'>,
): Promise<Row[]> {
  if (!table.searches.isExact(field) && filters) return search(table, field, { equal: filter }, filters)
  const { column, values } = await table.findEqual(field, '=', [filter])
  return [{ [column]: values[0] }]
}

async function search(table: SealedTable, field: string, query: Query, filters: Filter[] | undefined): Promise<Row[]> {
  const { column, by, values } = await table.searches.find(field, query)
  if (!filters) {
    const hint = searchHint('Search so in findMany, findFirst or count, alone or within AND.')
    refuseField(table.name, field, 'its index finds more rows than match, which cannot be filtered here', hint)
  }
  filters.push({ field, query })
  if (by === 'equal') return [{ [column]: values[0] }]
  return [{ [column]: by === 'in' ? { in: values } : { hasEvery: values } }]
}

/** Moves `not` into the condition on the index's field. */
function negate(condition: Row): Row {
  return Object.fromEntries(Object.entries(condition).map(([field, filter]) => [field, { not: filter }]))
}

/** Tells whether a member of a condition is a compound key, such as `id_email`, which contains fields. */
function isCombined(model: KnownModel, key: string): boolean {
  return !LOGICAL.includes(key) && !model.fields.has(key)
}

/** Replaces each compound key, such as `id_email`, by its fields: only the condition of a unique row may have such a key. */
export function uncombined(model: KnownModel, where: Row): Row {
  const members = Object.entries(where).map(([key, value]) =>
    isCombined(model, key) && isPlain(value) ? value : { [key]: value },
  )
  return Object.assign({}, ...members) as Row
}

/** Finds the values that a condition gives for the row, as the database spells them. */
export function pinnedBy(model: KnownModel, where: unknown): Row {
  if (!isPlain(where)) return {}
  const found: Row = Object.assign({}, ...[where.AND ?? []].flat().map((one) => pinnedBy(model, one)))
  for (const [key, value] of Object.entries(where)) {
    if (isCombined(model, key)) Object.assign(found, pinnedBy(model, value))
    else if (model.fields.has(key) && !model.relations.has(key) && !LOGICAL.includes(key)) {
      const pinned = isPlain(value) ? equalTo(value) : value
      if (pinned !== undefined) found[key] = model.spell(key, pinned)
    }
  }
  return found
}

/** Returns the value that a filter compares with exactly. Any other operator, or `mode`, may find more rows. */
function equalTo(filter: Row): unknown {
  const isPlainMode = (name: string, value: unknown) => name === 'mode' && value === 'default'
  const others = Object.entries(filter).filter(([name, value]) => name !== 'equals' && !isPlainMode(name, value))
  return others.every(([, value]) => value === undefined) ? filter.equals : undefined
}
