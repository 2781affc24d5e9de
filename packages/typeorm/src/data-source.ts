/** Wraps a data source of TypeORM, so that every query goes through the adapter. */
import { InvalidInputError } from '@eaas/sdk'
import { assertWritable, createIdMaker, openReturned, quoteName, type Row, refuseCall } from '@eaas/sdk/adapter'
import type { DataSource, QueryRunner } from 'typeorm'
import { type Constructor, type Context, createAdopt, extendBuilder } from './builders.js'
import { inPlaces } from './ids.js'
import type { Builder, InsertBuilder, SelectBuilder, UpdateBuilder } from './internals.js'
import { Pending } from './pending.js'
import { hide, openRows } from './results.js'
import { extendSelect } from './select-builder.js'
import { knowTables, type Pair } from './tables.js'
import { assertRaw, withoutMarks } from './text.js'
import { extendInsert, extendUpdate } from './write-builders.js'

const wrapped = new WeakSet<DataSource>()

type Method = (...args: never[]) => unknown

/** Replaces a method of one object; `assertMethods` has checked that the method exists. */
function replace(object: object, name: string, make: (original: Method) => Method): void {
  const original = (object as Record<string, Method>)[name] as Method
  Object.defineProperty(object, name, { value: make(original.bind(object)), configurable: true, writable: true })
}

function assertMethods(object: object, names: readonly string[]): void {
  const missing = names.find((name) => typeof (object as Record<string, unknown>)[name] !== 'function')
  if (missing) throw new InvalidInputError(`this version of TypeORM has no ${missing}`, 'Install TypeORM 1.')
}

export function wrapDataSource(dataSource: DataSource, pairs: readonly Pair[]): void {
  if (wrapped.has(dataSource))
    throw new InvalidInputError('the data source has its models already', 'Pass all of them at once.')
  if (dataSource.options.type !== 'postgres')
    refuseCall(`a database of the type ${dataSource.options.type}`, 'Use PostgreSQL.')
  if (dataSource.isInitialized)
    throw new InvalidInputError('the data source is initialized already', 'Pass it to `encrypted` before `initialize`.')
  const { driver } = dataSource
  // All are checked first: if one is missing, nothing is replaced.
  assertMethods(dataSource, ['buildMetadatas', 'createQueryBuilder', 'initialize', 'synchronize'])
  assertMethods(driver, ['createQueryRunner', 'preparePersistentValue'])
  wrapped.add(dataSource)
  const context: Context = {
    tables: { all: [], find: () => undefined },
    prepare: driver.preparePersistentValue.bind(driver),
    ids: createIdMaker(),
    runs: new WeakMap(),
  }
  const adopt = createAdopt((Base, kind, own) => {
    const Extended = extendBuilder(Base as Constructor<Builder>, context, own)
    if (kind === 'SelectQueryBuilder') return extendSelect(Extended as Constructor<SelectBuilder>, context)
    if (kind === 'InsertQueryBuilder') return extendInsert(Extended as Constructor<InsertBuilder>, context)
    return kind === 'UpdateQueryBuilder' ? extendUpdate(Extended as Constructor<UpdateBuilder>, context) : Extended
  })

  replace(dataSource, 'buildMetadatas', (original) => async () => {
    await original()
    context.tables = knowTables(dataSource, pairs)
  })
  // Migrations have run by then.
  replace(dataSource, 'initialize', (original) => async () => {
    await original()
    await assertNoTriggers(dataSource, context).catch((error) => dataSource.destroy().then(() => Promise.reject(error)))
    return dataSource
  })
  // With the option `synchronize`, `initialize` calls it.
  replace(dataSource, 'synchronize', (original) => async (dropsAll?: boolean) => {
    if (!dropsAll) await assertNoDrops(dataSource, context)
    return (original as DataSource['synchronize'])(dropsAll)
  })
  replace(dataSource, 'createQueryBuilder', (original) => {
    return (...args) => adopt(original(...args) as object)
  })
  replace(driver, 'createQueryRunner', (original) => {
    return (...args) => guard(context, original(...args) as QueryRunner)
  })
  replace(driver, 'preparePersistentValue', () => (value: unknown, column: Parameters<Context['prepare']>[1]) => {
    if (value instanceof Pending || value === null || value === undefined) return value
    const known = context.tables.find(column.entityMetadata)
    const name = known?.nameOf(column)
    if (known && name !== undefined && known.sealed.isSealed(name)) {
      const call = `a value for ${known.sealed.name}.${name} that was not encrypted`
      refuseCall(call, 'Use repositories and query builders.')
    }
    return context.prepare(value, column)
  })
}

async function assertNoTriggers(dataSource: DataSource, { tables }: Context): Promise<void> {
  const runner = dataSource.createQueryRunner('master')
  try {
    for (const { sealed, metadata, columnOf } of tables.all) {
      const table = quoteName(metadata.tableName, metadata.schema)
      const nameIn = (column: string) => columnOf(metadata, column).databaseName
      await assertWritable((sql) => runner.query(sql), sealed, { table, nameIn })
    }
  } finally {
    await runner.release()
  }
}

/** @throws InvalidInputError if TypeORM would drop an encrypted column, which is how it changes a type */
async function assertNoDrops(dataSource: DataSource, { tables }: Context): Promise<void> {
  const { upQueries } = await dataSource.driver.createSchemaBuilder().log()
  for (const { query } of upQueries) {
    const [, path = '', column = ''] = /^ALTER TABLE (.+) DROP COLUMN "(.+)"$/.exec(query) ?? []
    const table = tables.all.find(
      ({ metadata, sealedNames }) =>
        sealedNames.has(column.toLowerCase()) && path.endsWith(quoteName(metadata.tableName, metadata.schema)),
    )
    if (!table) continue
    throw new InvalidInputError(
      `synchronize would drop the column ${table.metadata.tableName}.${column} with its values, and add it with another type`,
      'Set synchronize: false, and change the type by ALTER TABLE … ALTER COLUMN … TYPE …, as `npx @eaas/cli init` prints it.',
    )
  }
}

/** Guards the query runner, through which every query goes. */
function guard(context: Context, runner: QueryRunner): QueryRunner {
  const assertText = (sql: string, parameters: readonly unknown[] = []) => {
    assertRaw(context.tables, sql)
    if (parameters.some((one) => one instanceof Pending))
      refuseCall('a parameter of a query builder elsewhere', 'Execute the query builder itself.')
  }
  assertMethods(runner, ['query', 'stream'])
  replace(runner, 'query', (original) => async (sql: string, parameters?: unknown[], ...rest: never[]) => {
    const query = original as (...args: unknown[]) => Promise<{ records?: Row[]; raw?: unknown }>
    const run = parameters && context.runs.get(parameters)
    if (!run) {
      assertText(sql, parameters)
      return query(withoutMarks(sql), parameters, ...rest)
    }
    const runText = (text: string) => (original as (text: string) => Promise<unknown>)(text) as Promise<unknown[]>
    const values = await Promise.all(parameters.map((one) => (one instanceof Pending ? one.resolve(runText) : one)))
    const result = await query(withoutMarks(sql), values, ...rest)
    if (run.opens && run.outputs.length > 0) {
      const records = result.records ?? refuseResult()
      await openReturned(!run.isStep, () => openRows(run.outputs, records))
      hide(run.outputs, records)
    }
    if (run.made && Array.isArray(result.raw)) result.raw = inPlaces(run.made, result.raw as Row[])
    return result
  })
  replace(runner, 'stream', (original) => async (sql: string, parameters?: unknown[], ...rest: never[]) => {
    assertText(sql, parameters)
    return (original as (...args: unknown[]) => unknown)(withoutMarks(sql), parameters, ...rest)
  })
  return runner
}

function refuseResult(): never {
  throw new InvalidInputError(
    'the statement was executed, but TypeORM returned no list of its rows, which would have to be decrypted',
    'Install TypeORM 1, with pg as its driver.',
  )
}
