/** Makes the ids that the database would make, before the insert: encrypted values are bound to them. */
import { createIdMaker, quoteName } from '@eaas/sdk/adapter'
import type { Context } from './builders.js'
import type { ColumnMetadata, InsertBuilder } from './internals.js'
import type { Target } from './writes.js'

const ids = new WeakMap<Context, ReturnType<typeof createIdMaker>>()

export async function fillIds(context: Context, builder: InsertBuilder, { known, metadata }: Target): Promise<void> {
  const entities = builder.getValueSets()
  const lacking = known.sealed.bind
    .map((name) => known.columnOf(metadata, name))
    .filter((column) => entities.some((entity) => isLacking(column, entity)))
  for (const column of lacking.filter(({ generationStrategy }) => generationStrategy === 'uuid')) {
    for (const entity of entities) if (isLacking(column, entity)) column.setEntityValue(entity, crypto.randomUUID())
  }
  const ofDatabase = lacking.filter((column) => column.generationStrategy !== 'uuid' && isMade(column))
  if (ofDatabase.length === 0 || entities.length === 0) return
  const maker = ids.get(context) ?? createIdMaker()
  ids.set(context, maker)
  const runner = builder.queryRunner ?? builder.dataSource.createQueryRunner('master')
  try {
    const columns = ofDatabase.map(({ databaseName }) => databaseName)
    const table = quoteName(metadata.tableName, metadata.schema)
    const run = (sql: string) => runner.query(sql) as Promise<unknown[]>
    const { rows } = await maker.make(run, table, { columns, count: entities.length, cannotOverride: metadata.name })
    for (const [at, entity] of entities.entries()) {
      for (const column of ofDatabase) {
        if (isLacking(column, entity))
          column.setEntityValue(entity, asReturned(column, rows[at]?.[column.databaseName]))
      }
    }
  } finally {
    if (runner !== builder.queryRunner) await runner.release()
  }
}

function isLacking(column: ColumnMetadata, entity: object): boolean {
  return (column.getEntityValue(entity) ?? null) === null
}

function isMade(column: ColumnMetadata): boolean {
  return column.isGenerated || column.default !== undefined
}

/** Returns the value as the driver would: a number for all integer types but the largest. */
function asReturned({ type }: ColumnMetadata, text: unknown): unknown {
  return type === Number || /^(smallint|int|int2|int4|integer)$/.test(String(type)) ? Number(text) : text
}
