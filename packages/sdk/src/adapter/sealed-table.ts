/** What all adapters do with the rows, changes and conditions of a table; each translates between this and its ORM. */
import { InvalidInputError, isEaasError } from '../errors.js'
import { isMissing, type Row } from '../input.js'
import { isCompactFormat, isNothing, isTextFormat, ROW_SEAL } from '../models/definition.js'
import { getModelAccess, type ModelAccess } from '../models/model-access.js'
import { findLacking, withNull } from '../models/partial-rows.js'
import { getAt, type RecordField } from '../records/paths.js'
import { together } from '../records/seal-blocks.js'
import { refuseField, refuseOperator } from './refusals.js'
import { createSearches, refuseUnindexed, type Searches, wholeValue } from './searches.js'

/** Replaces a condition on an encrypted field. */
export interface IndexCondition {
  column: string
  values: string[]
}

/** An `IndexCondition` whose values are made later. */
export interface IndexPlan {
  column: string
  hash(): Promise<string[]>
}

/** What a column stores: a JSON object, the text of an envelope, an index's hash, or a list of hashes. */
export interface StoredColumn {
  column: string
  holds: 'json' | 'text' | 'index' | 'parts'
  /** Whether it may be null, or the adapter fills it. */
  mayMiss: boolean
}

/** A table whose rows a model seals. Columns have their names in the ORM's rows. */
export interface SealedTable {
  readonly name: string
  /** The columns that the table must have: fields, indexes, `bind`, and those of the compact form and of the row's seal. */
  readonly columns: readonly string[]
  readonly stored: readonly StoredColumn[]
  readonly bind: readonly string[]
  /** Adds the indexes and the header made with these columns. @throws InvalidInputError if they need more fields */
  withMade(columns: readonly string[]): readonly string[]
  isSealed(column: string): boolean
  /** Tells whether a column's values are JSON, so that an object is a value and not an operation of the ORM. */
  takesObjects(column: string): boolean
  readonly searches: Searches
  readonly keyByRow: boolean
  tellsKey(row: Row): boolean
  /** Refuses to set a column of an index, or of the compact form, without its fields. @throws InvalidInputError */
  assertNoneMade(changes: Row): void
  /**
   * Refuses changes to what a row's key depends on, unless `known`, the certain values of the row, shows that it stays.
   * An object counts as a change. @throws InvalidInputError
   */
  assertKeepsKey(changes: Row, known: Row): void
  /** Tells whether changes set a value that is sealed to its row. Null counts if the row has a seal, or if it is JSON. */
  isBound(changes: Row): boolean
  /** Whether the row must be read first: `known`, the values from the condition, lacks a column of `bind` or of the key. */
  needsRow(changes: Row, known: Row): boolean
  /** Lists the columns to select in addition, so that the selected ones can be opened. */
  readsToo(selected: readonly string[]): string[]
  /** For queries to which no column can be added: opening would only refuse once a row has a value. @throws InvalidInputError */
  assertReadable(columns: readonly string[]): void
  /** Sets each column of `stored`, if absent to null: a default of the database would be stored in plaintext. */
  sealRows(rows: readonly Row[]): Promise<Row[]>
  /** Seals the changed columns of one row. `known` has its values in the columns of `bind` and of its key. */
  sealChanges(changes: Row, known: Row): Promise<Row>
  /** Does the same for several rows, each sealed on its own. One call, so that an index is made once. */
  sealEach(changes: Row, known: readonly Row[]): Promise<Row[]>
  /** The values that find the row with which a new one conflicts in a unique index; for encrypted columns, their index. */
  findTarget(row: Row, targets: readonly string[]): Promise<Row>
  /** Opens the selected columns of rows, which may differ in their columns. Null and index columns stay. */
  openRows(rows: readonly Row[]): Promise<Row[]>
  /** Like `findEqual`, for an ORM that cannot wait: `hash` makes the values later. */
  planEqual(column: string, operator: string, values: readonly unknown[]): IndexPlan
  /** Replaces a comparison with an encrypted field by one with its index. @throws InvalidInputError if none answers it */
  findEqual(column: string, operator: string, values: readonly unknown[]): Promise<IndexCondition>
}

/**
 * Makes the table of a model, which may come from another copy of the SDK. @throws InvalidInputError when it is not a
 * model
 * @example
 * ```ts
 * const table = createSealedTable(users)
 * const [row] = await table.sealRows([{ id: 7, email: 'ada@example.org' }])
 * ```
 */
export function createSealedTable(model: object): SealedTable {
  const access = getModelAccess(model)
  const { name, bind, columns, format, header, keyByRow, rowSeal } = access
  const fields = withNull(access.fields) // as `access` seals them
  const sealed = new Set(fields.map(({ path }) => path[0] ?? ''))
  const table = name || 'the model'
  const seal = rowSeal ? [{ column: ROW_SEAL, fields }] : []
  const added = new Set([...[...columns, ...seal].map(({ column }) => column), header])
  const made = [...columns, ...(isCompactFormat(format) ? [{ column: header, fields }] : []), ...seal]
  const stored = listStored(access)
  return {
    name: table,
    columns: [...new Set([...sealed, ...made.map(({ column }) => column), ...bind.map(({ path }) => path[0] ?? '')])],
    stored,
    bind: bind.map((column) => column.name),
    withMade(given) {
      const isGiven = ({ path }: RecordField) => given.includes(path[0] ?? '')
      const lacking = findLacking(access, isGiven)
      if (lacking) {
        const hint = 'Set what belongs together in one statement.'
        throw new InvalidInputError(`${table}.${lacking.field}: ${lacking.message}`, hint)
      }
      const own = made.filter((one) => one.fields.some(isGiven))
      return [...new Set([...given, ...own.map(({ column }) => column)])]
    },
    isSealed: (column) => sealed.has(column),
    takesObjects: (column) =>
      fields.some(({ path, spec }) => path[0] === column && (path.length > 1 || spec.kind === 'json')),
    searches: createSearches(model, access, table),
    keyByRow,
    tellsKey,
    assertNoneMade,
    assertKeepsKey: (changes, known) => assertSameKey(access, table, changes, known),
    isBound: (changes) => bind.length > 0 && setsSealed(changes),
    needsRow(changes, known) {
      if (!setsSealed(changes)) return false
      return bind.some(({ path }) => isMissing(getAt(known, path))) || !tellsKey(known)
    },
    readsToo,
    assertReadable(selected) {
      const column = selected.find((one) => sealed.has(one))
      const lacking = readsToo(selected)
      if (column !== undefined && lacking.length > 0) refuseUnbound(table, column, lacking.join(' and '))
    },
    async sealRows(given) {
      const rows = await (await access.load()).seal(given)
      for (const row of rows) for (const { column } of stored) row[column] ??= null
      return rows
    },
    sealEach,
    async sealChanges(changes, known) {
      const [row = {}] = await sealEach(changes, [known])
      return row
    },
    async findTarget(row, targets) {
      const found = targets.map(async (column): Promise<readonly [string, unknown]> => {
        const index = columns.find((one) => one.column === column)
        const [field] = index?.fields ?? []
        if (field === undefined && !sealed.has(column)) return [column, row[column]]
        const name = field?.path.join('.') ?? column
        const { column: own, values } = await this.findEqual(name, '=', [getAt(row, name.split('.'))])
        return own === column || index === undefined
          ? [own, values[0]]
          : refuseOperator(table, name, `on conflict (${column})`)
      })
      return Object.fromEntries(await Promise.all(found))
    },
    async openRows(given) {
      const groups = new Map<string, number[]>()
      for (const [at, row] of given.entries()) {
        const names = namesIn(access, row).join('\n')
        if (names !== '') groups.set(names, [...(groups.get(names) ?? []), at])
      }
      const out = [...given]
      // All at once, so that the DEKs of all groups are one request.
      await Promise.all(
        [...groups].map(async ([names, places]) => {
          const list = places.map((at) => given[at] ?? {})
          const rows = await access.load()
          const opened = await rows.open(list, names.split('\n'))
          for (const [number, at] of places.entries())
            out[at] = withMade(opened[number] ?? {}, given[at] ?? {}, rowSeal ? [header, ROW_SEAL] : [header])
        }),
      )
      return out
    },
    planEqual,
    async findEqual(column, operator, values) {
      const plan = planEqual(column, operator, values)
      return { column: plan.column, values: await plan.hash() }
    },
  }

  async function sealEach(changes: Row, known: readonly Row[]): Promise<Row[]> {
    const bounds = known.map((row) => {
      // A condition on a sealed column or an index gives the old value.
      const bound = Object.fromEntries(
        Object.entries(row).filter(([column]) => !sealed.has(column) && !added.has(column)),
      )
      for (const { name: column, path } of bind) {
        const value = getAt(changes, path)
        if (value === undefined || sameText(value, getAt(bound, path))) continue
        const message = `${table}.${column} must not change: the encrypted values of the row are bound to it`
        throw new InvalidInputError(message, 'Insert a new row, and delete this one.')
      }
      assertNoneMade(changes)
      assertSameKey(access, table, changes, bound)
      if (setsSealed(changes) && !tellsKey(bound)) {
        const hint = 'Name its column in the condition too, and in the target of an upsert: key_id = ….'
        throw new InvalidInputError(`${table}: the change does not tell the key of the row, which keyId needs`, hint)
      }
      return bound
    })
    // A column is replaced as a whole: members that the new object lacks are removed.
    const names = fields.filter(({ path }) => changes[path[0] ?? ''] !== undefined).map(({ name }) => name)
    if (names.length === 0) return known.map(() => changes)
    const rows = await access.load()
    const all = bounds.map((bound) => ({ ...bound, ...changes }))
    const made = await rows.seal(all, names).catch((error: unknown) => explainBound(access, error))
    return bounds.map((bound, at) => {
      // Columns that only the condition gives stay unchanged.
      const isSet = (column: string) => column in changes || !(column in bound)
      return Object.fromEntries(Object.entries(made[at] ?? {}).filter(([column]) => isSet(column)))
    })
  }

  function tellsKey(row: Row): boolean {
    return !keyByRow || readKey(access, row).key !== undefined
  }

  function setsSealed(changes: Row): boolean {
    return fields.some(({ path, spec }) => {
      const value = changes[path[0] ?? '']
      return value !== undefined && (rowSeal || !isNothing(spec.missing, value))
    })
  }

  function readsToo(selected: readonly string[]): string[] {
    if (!selected.some((one) => sealed.has(one))) return []
    const whole = rowSeal ? [...sealed, ...made.map(({ column }) => column)] : isCompactFormat(format) ? [header] : []
    const needed = new Set([...bind.map(({ path }) => path[0] ?? ''), ...whole])
    return [...needed].filter((one) => !selected.includes(one))
  }

  function assertNoneMade(changes: Row): void {
    const found = made.find(({ column, fields: own }) => {
      return changes[column] !== undefined && own.every(({ path }) => getAt(changes, path) === undefined)
    })
    if (!found) return
    const of = found.fields.map(({ name: field }) => field).join(' and ')
    const what = columns.some(({ column }) => column === found.column)
      ? { sentence: `it is the index of ${of}, and made for it`, name: 'the index' }
      : { sentence: `it belongs to ${of}, and is made with them`, name: 'it' }
    const hint = `Set ${of}, and leave out ${what.name}.`
    throw new InvalidInputError(`${table}.${found.column} cannot be set: ${what.sentence}`, hint)
  }

  function planEqual(column: string, operator: string, values: readonly unknown[]): IndexPlan {
    const field = fields.find(({ path }) => path.join('.') === column)
    if (!field) return refuseOperator(table, column, operator)
    const own = columns.filter(({ fields }) => fields.length === 1 && fields[0]?.name === field.name)
    const index = own.find(({ kind }) => kind === 'exact')
    if (!index && own.some(({ kind }) => kind === 'range')) {
      const hint = 'Search so in a select, for one value, alone or joined by AND: not within OR or NOT.'
      return refuseField(table, column, 'its index is of ranges, so that a search finds other rows too', hint)
    }
    if (!index) {
      const hint = 'Give the field an index, or search by the column that `index` of the model makes.'
      return refuseUnindexed(table, { name: column, kind: field.spec.kind }, hint)
    }
    if (index.bits !== undefined) {
      const hint = 'Search by the column that `index` of the model makes, and filter the opened rows by `matches`.'
      return refuseField(table, column, 'its index is truncated, so that a search finds other rows too', hint)
    }
    if (values.some(isMissing))
      return refuseField(table, column, 'null is equal to nothing', 'Search for rows in which it is null.')
    return {
      column: index.column,
      async hash() {
        const rows = await access.load()
        const queries = values.map((value) => ({ [field.name]: wholeValue(table, column, value) }))
        const found = await together(undefined, (signal) => queries.map((query) => rows.index(query, signal)))
        return found.map(({ [index.column]: hash }) => hash as string)
      },
    }
  }
}

function listStored({ fields, columns, format, header, rowSeal }: ModelAccess): StoredColumn[] {
  const holds = isTextFormat(format) ? 'text' : 'json'
  const ofFields = new Map<string, StoredColumn>()
  for (const { path, spec } of fields) {
    const [column = '', inner] = path
    const mayMiss = spec.missing.length > 0 && (ofFields.get(column)?.mayMiss ?? true)
    ofFields.set(column, { column, holds: inner === undefined ? holds : 'json', mayMiss })
  }
  const made = columns.map(({ column, kind }) => [column, kind === 'ngram' ? 'parts' : 'index'] as const)
  const whole = [
    ...(isCompactFormat(format) ? [[header, holds] as const] : []),
    ...(rowSeal ? [[ROW_SEAL, holds] as const] : []),
  ]
  return [...ofFields.values(), ...[...made, ...whole].map(([column, holds]) => ({ column, holds, mayMiss: true }))]
}

function namesIn({ fields }: ModelAccess, row: Row): string[] {
  return fields.filter(({ path }) => getAt(row, path) !== undefined).map(({ name }) => name)
}

/** Restores the columns of the compact form and of the seal, which the ORM's types promise. */
function withMade(opened: Row, stored: Row, made: readonly string[]): Row {
  const lost = made.filter((column) => Object.hasOwn(stored, column) && !Object.hasOwn(opened, column))
  return lost.length === 0
    ? opened
    : { ...opened, ...Object.fromEntries(lost.map((column) => [column, stored[column]])) }
}

function refuseUnbound(model: string, field: string, columns: string): never {
  const message = `${model}.${field} cannot be selected without ${columns}, by which its value is opened`
  throw new InvalidInputError(message, `Select ${columns} of the same table too. The query was not run.`)
}

function sameText(one: unknown, other: unknown): boolean {
  return !isMissing(other) && String(one) === String(other)
}

/** Returns a row's key, undefined if a column that the model's `keyId` reads is not known, and those columns. */
function readKey({ keyOf }: ModelAccess, known: Row): { key: string | undefined; reads: ReadonlySet<string> } {
  const reads = new Set<string>()
  let isKnown = true
  const get = (row: Row, column: string | symbol) => {
    const value: unknown = Reflect.get(row, column)
    if (typeof column === 'string') {
      reads.add(column)
      isKnown &&= value !== undefined
    }
    return value
  }
  try {
    const key = keyOf(known, 0, (plain) => new Proxy(plain, { get }))
    return { key: isKnown ? key : undefined, reads }
  } catch {
    return { key: undefined, reads }
  }
}

function assertSameKey(access: ModelAccess, table: string, changes: Row, bound: Row): void {
  if (!access.keyByRow) return
  const { key, reads } = readKey(access, bound)
  const changed = Object.entries(changes).filter(([column, value]) => value !== undefined && reads.has(column))
  const [column] = changed[0] ?? []
  if (column === undefined) return
  const values = changed.map(([name, value]) => [name, isComputed(value) ? undefined : value] as const)
  if (key !== undefined && readKey(access, { ...bound, ...Object.fromEntries(values) }).key === key) return
  const message = `${table}.${column} must not change: it says the key of the row, under which its values are encrypted`
  throw new InvalidInputError(message, `If it stays as it is, name it in the condition too: ${column} = ….`)
}

function isComputed(value: unknown): boolean {
  return value !== null && ['object', 'function'].includes(typeof value)
}

function explainBound({ bind }: ModelAccess, error: unknown): never {
  const place = isEaasError(error) && error.code === 'E_INVALID_INPUT' ? error.place : undefined
  const column = bind.find(({ name }) => name === place?.field)?.name
  if (column === undefined) throw error
  throw new InvalidInputError(
    `an encrypted value is bound to ${column}, which the change does not tell`,
    `Change one row at a time, by a condition that says which: ${column} = ….`,
    place,
  )
}
