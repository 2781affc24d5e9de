/** The tables with encrypted columns of a data source. Each is found from any of its entities. */
import { InvalidInputError } from '@eaas/sdk'
import { createSealedTable, type Row, refuseAlways, type SealedTable } from '@eaas/sdk/adapter'
import type { DataSource, EntityMetadata, EntityTarget, ObjectLiteral } from 'typeorm'
import type { ColumnMetadata } from './internals.js'

const TEXT: readonly unknown[] = ['text', 'varchar', 'character varying', String]
const INTEGERS: readonly unknown[] = ['int', 'int2', 'int4', 'int8', 'integer', 'smallint', 'bigint', Number]

/** Tells whether a column returns the text that was stored. */
export function isTextual(type: unknown): boolean {
  return TEXT.includes(type)
}

export interface KnownTable {
  sealed: SealedTable
  /** The entity that was passed with the model. */
  metadata: EntityMetadata
  /** In the database, in lower case. */
  table: string
  /** The sealed columns in the database, in lower case. */
  sealedNames: ReadonlySet<string>
  /** The model's name for a column, if it has one. */
  nameOf(column: ColumnMetadata): string | undefined
  /** The rows' name for a column, which may be unknown to the model. */
  nameInRow(column: ColumnMetadata): string
  /** The entity's column that has this name in the model. */
  columnOf(metadata: EntityMetadata, name: string): ColumnMetadata
}

export interface KnownTables {
  all: readonly KnownTable[]
  find(metadata: EntityMetadata): KnownTable | undefined
}

export type Pair = readonly [EntityTarget<ObjectLiteral>, object]

/** @throws InvalidInputError when an entity lacks a column of its model, or has one that cannot hold what is sealed */
export function knowTables(dataSource: DataSource, pairs: readonly Pair[]): KnownTables {
  const pathOf = ({ schema, tableName }: EntityMetadata) =>
    JSON.stringify([schema ?? dataSource.driver.schema, tableName])
  const known = new Map<string, KnownTable>()
  for (const [target, model] of pairs) {
    const metadata = dataSource.getMetadata(target)
    known.set(pathOf(metadata), knowTable(metadata, createSealedTable(model)))
  }
  // Other entities of the same table may also write it.
  for (const metadata of dataSource.entityMetadatas) {
    const table = known.get(pathOf(metadata))
    for (const name of table?.sealed.columns ?? []) {
      const column = table?.columnOf(metadata, name)
      if (column && table?.sealed.isSealed(name) && isTextual(column.type)) compareByValue(column)
    }
  }
  return { all: [...known.values()], find: (metadata) => known.get(pathOf(metadata)) }
}

/**
 * Before an update, TypeORM reads each column of the entity, then of the stored row. Except in JSON columns, two
 * objects count as a change even if they are equal. So the second read returns the first object if it is equal.
 */
function compareByValue(column: ColumnMetadata): void {
  const read = column.getEntityValue.bind(column)
  let last: WeakRef<object> | undefined
  column.getEntityValue = (entity, isOfRow) => {
    const value: unknown = read(entity, isOfRow)
    if (!isObject(value) || ArrayBuffer.isView(value)) return value // TypeORM compares bytes itself
    const given = isOfRow ? last?.deref() : undefined
    last = isOfRow ? undefined : new WeakRef(value)
    return given && isEqual(given, value) ? given : value
  }
}

function isEqual(one: unknown, other: unknown): boolean {
  if (!isObject(one) || !isObject(other)) return one === other
  if (one instanceof Date && other instanceof Date) return one.getTime() === other.getTime()
  const keys = Object.keys(one)
  const isSame = (key: string) => Object.hasOwn(other, key) && isEqual(one[key], other[key])
  const isSameKind = Object.getPrototypeOf(one) === Object.getPrototypeOf(other)
  return isSameKind && keys.length === Object.keys(other).length && keys.every(isSame)
}

function isObject(value: unknown): value is Row {
  return typeof value === 'object' && value !== null
}

function knowTable(metadata: EntityMetadata, sealed: SealedTable): KnownTable {
  const names = new Map<string, string>()
  for (const name of sealed.columns) {
    const column = metadata.columns.find(({ propertyPath }) => propertyPath === name)
    if (!column) return refuseEntity(metadata, `has no column ${JSON.stringify(name)}`)
    names.set(column.databaseName, name)
  }
  const sealedNames = [...names].filter(([, name]) => sealed.isSealed(name)).map(([column]) => column.toLowerCase())
  return {
    sealed,
    metadata,
    table: metadata.tableName.toLowerCase(),
    sealedNames: new Set(sealedNames),
    nameOf: (column) => names.get(column.databaseName),
    nameInRow: (column) => names.get(column.databaseName) ?? column.propertyPath,
    columnOf(other, name) {
      const column = other.columns.find(({ databaseName }) => names.get(databaseName) === name)
      if (!column) return refuseEntity(other, `has no column ${JSON.stringify(name)}`)
      assertColumn(other, column, sealed.bind.includes(name) ? 'bound' : sealed.isSealed(name) ? 'sealed' : 'index')
      return column
    },
  }
}

/** @throws InvalidInputError for a column that the database or TypeORM would fill or omit by itself */
function assertColumn(metadata: EntityMetadata, column: ColumnMetadata, role: 'sealed' | 'bound' | 'index'): void {
  const { propertyName, propertyPath } = column
  const refuse = (what: string) => refuseEntity(metadata, `has a column ${JSON.stringify(propertyPath)} ${what}`)
  if (propertyName !== propertyPath) refuse('within an embedded entity')
  if (column.relationMetadata?.propertyName === propertyName) refuse('without a property of its own')
  if (!column.isInsert) refuse('that is not inserted')
  if (role === 'bound') {
    if (column.generatedIdentity === 'ALWAYS')
      refuseAlways(metadata.name, propertyPath, "Declare it with generatedIdentity: 'BY DEFAULT'.")
    if (column.type === 'uuid' || isTextual(column.type) || INTEGERS.includes(column.type)) return
    refuse('of a type whose values the database spells in its own way')
  }
  if (!column.isUpdate) refuse('that is not updated')
  if (column.transformer) refuse('with a transformer')
  if (column.default !== undefined || column.isGenerated || column.asExpression) refuse('that the database fills')
  const isArray = column.isArray && role !== 'index' // an index of parts is a list
  if (column.isPrimary || isArray || !(isTextual(column.type) || /^jsonb?$/.test(String(column.type))))
    refuse('of another type than json or text')
}

function refuseEntity({ name }: EntityMetadata, message: string): never {
  throw new InvalidInputError(
    `the entity ${name} ${message}`,
    'Name fields, indexes and `bind` of the model as the properties of the entity; sealed values and indexes are plain columns of JSON or text. Entities that share a table all have them.',
  )
}
