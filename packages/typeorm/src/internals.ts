/** The parts of TypeORM's builders that are protected, or have no exported type. */
import type { Row } from '@eaas/sdk/adapter'
import type { DataSource, EntityMetadata, QueryRunner } from 'typeorm'

/** TypeORM exports no name for this type. */
export type ColumnMetadata = EntityMetadata['columns'][number]

export interface Alias {
  name: string
  hasMetadata: boolean
  /** Throws if the alias has none. */
  metadata: EntityMetadata
}

/** A condition as builders keep it: text, a comparison, or a list of both. */
export type Condition =
  | string
  | Clause[]
  | { operator: 'not' | 'brackets'; condition: Condition }
  | { operator: string; parameters: string[] }

export type Clause = { type: 'simple' | 'and' | 'or'; condition: Condition }

interface ConflictUpdate {
  overwriteCondition?: unknown
  conflict?: string | string[]
  overwrite?: string[]
  skipUpdateIfNoValuesChanged?: boolean
}

interface ExpressionMap {
  mainAlias?: Alias
  aliases: Alias[]
  joinAttributes: { alias: Alias }[]
  aliasNamePrefixingEnabled: boolean
  parameters: Row
  wheres: Clause[]
  allOrderBys: Row
  groupBys?: string[]
  selectDistinct?: boolean
  selectDistinctOn?: string[]
  skip?: number
  take?: number
  limit?: number
  offset?: number
  cache?: boolean
  commonTableExpressions: { queryBuilder: unknown; alias: string }[]
  insertColumns: string[]
  insertFromSelect?: unknown
  onUpdate?: ConflictUpdate | undefined
  valuesSet?: unknown
  returning?: unknown
  updateEntity: boolean
  comment?: string
  callListeners: boolean
  extraReturningColumns: ColumnMetadata[]
}

export type Selection = { selection: string; aliasName?: string }

export const MAKERS = ['select', 'insert', 'update', 'delete', 'softDelete', 'restore', 'relation'] as const

export interface Builder extends Record<(typeof MAKERS)[number], (...args: unknown[]) => Builder> {
  dataSource: DataSource
  queryRunner?: QueryRunner
  setQueryRunner(runner: QueryRunner): Builder
  expressionMap: ExpressionMap
  escape(name: string): string
  createParameter(value: unknown): string
  getParameters(): Row
  getQuery(): string
  getQueryAndParameters(): [sql: string, parameters: unknown[]]
  getWherePredicateCondition(path: string, value: unknown): Condition
  createWhereConditionExpression(condition: Condition): string
  createReturningExpression(type: string): string
  clone(): Builder
  execute(): Promise<unknown>
}

export interface SelectBuilder extends Builder {
  createLimitOffsetExpression(): string
  buildEscapedEntityColumnSelects(alias: string, metadata: EntityMetadata): Selection[]
  buildWhere(where: unknown, metadata: EntityMetadata, alias: string, prefix?: string): string
  loadRawResults(runner: QueryRunner): Promise<Row[]>
  executeEntitiesAndRawResults(runner: QueryRunner): Promise<unknown>
  getRawMany(): Promise<Row[]>
  stream(): Promise<unknown>
}

export interface InsertBuilder extends Builder {
  getValueSets(): object[]
  getInsertedColumns(): ColumnMetadata[]
  createInsertExpression(): string
  createValuesExpression(): string
  createColumnNamesExpression(): string
}

export interface UpdateBuilder extends Builder {
  getValueSet(): Row
  createUpdateExpression(): string
  createWhereExpression(): string
  getTableName(path: string): string
  getMainTableName(): string
  where(condition: Row): UpdateBuilder
}

/** Names the kind of a TypeORM object. `instanceof` fails if it comes from another copy of the package. */
export function kindOf(value: unknown): string | undefined {
  const kind: unknown = (value as { '@instanceof'?: unknown } | null | undefined)?.['@instanceof']
  return typeof kind === 'symbol' ? kind.description : undefined
}
