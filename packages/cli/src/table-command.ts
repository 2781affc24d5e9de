/** What `backfill` and `inspect-table` share: a model of the application, and its table in PostgreSQL. */

import { type Arguments, readPairs, SERVICE_OPTIONS } from './arguments.js'
import type { Sdk } from './backfill/backfill.js'
import { type AnyModel, type BackfillProgress, postgresTable, type RowFailure, type TableSource } from './backfill.js'
import { CONNECTION_HELP, findKeyId, withClient } from './connection.js'
import { ArgumentsError, CommandError, type Io, tell } from './io.js'
import { findSdk, loadModule } from './model-module.js'
import { DATABASE_HELP, openDatabase } from './postgres-driver.js'

export const TABLE_HELP = `
  --table <name>        the table, with its schema where that is not on the search path: crm.users. A part with a dot is quoted as in SQL: crm."users.old"
  --export <name>       the export of the module; default, if not set
  --key <name>          name or id of the key, whose id a function gets as its second argument
  --column <name=column> a column whose name differs from the model's: emailIndex=email_index. May be repeated
  --key-columns <a,b>   the columns by which pages are read, unique together and never null; those of the primary key by default
  --batch-size <n>      rows that are read and written at a time; 200 by default
  --rows-per-second <n> at most so many
  --json                print the report as JSON

The module is the application's own. It exports a model, or a function that is called with a client of the service below, and with the id of --key,
and returns the model: function users(eaas, keyId) { return eaas.model({ ... }) }. A model that is exported has a client of its own.
${DATABASE_HELP}
${CONNECTION_HELP}`

export const TABLE_OPTIONS = {
  ...SERVICE_OPTIONS,
  table: { type: 'string' },
  export: { type: 'string' },
  key: { type: 'string' },
  column: { type: 'string', multiple: true },
  'key-columns': { type: 'string', multiple: true },
  'batch-size': { type: 'string' },
  'rows-per-second': { type: 'string' },
  driver: { type: 'string' },
} as const

export interface OpenTable {
  /** The copy of the SDK that made the model. */
  sdk: Sdk
  model: AnyModel
  table: TableSource
  /** The values of the options that `backfill` and `inspectTable` share. */
  speed: { batchSize: number | undefined; rowsPerSecond: number | undefined }
  /** What tells this table, read by this model, from all others. */
  identity: Record<string, unknown>
  /** Another export of the module. */
  get(name: string): unknown
}

/** Loads the model, connects, and closes everything at the end. */
export async function withTable<T>(io: Io, given: Arguments, run: (open: OpenTable) => Promise<T>): Promise<T> {
  const [file] = given.positionals
  if (file === undefined) throw new ArgumentsError('name the module that exports the model')
  const table = given.get('table')
  const columns = readPairs('column', given.list('column'))
  const keyColumns = given.names('key-columns')
  const speed = { batchSize: findCount(given, 'batch-size'), rowsPerSecond: findCount(given, 'rows-per-second') }
  const name = given.find('export') ?? 'default'
  const module = await loadModule(io, file)
  const exported = module.get(name)
  const database = await openDatabase(io, module.path, given.find('driver'))
  const runWith = async (exported: unknown) => {
    const { sdk, model } = await findSdk(module, exported)
    return run({
      sdk,
      model,
      table: postgresTable(database.query, table, {
        columns,
        key: keyColumns.length === 0 ? undefined : keyColumns,
      }),
      speed,
      identity: {
        database: database.identity,
        table,
        module: module.path,
        export: name,
        columns,
        key: keyColumns,
        model: sdk.describeModel(model),
      },
      get: module.get,
    })
  }
  try {
    if (typeof exported === 'function') {
      return await withClient(io, given, { verify: true }, async (eaas) => {
        const key = given.find('key')
        return runWith(await exported(eaas, key === undefined ? undefined : await findKeyId(eaas, key, io)))
      })
    }
    if (given.find('key') !== undefined) {
      throw new ArgumentsError('--key is for a function: the export is no function, and a model has its key')
    }
    return await runWith(exported)
  } finally {
    await database.close()
  }
}

function findCount(given: Arguments, option: string): number | undefined {
  const text = given.find(option)
  if (text === undefined) return undefined
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new ArgumentsError(`--${option} must be a whole number, from 1`)
  return Number(text)
}

/** Shows what a bar has beside it. */
export function describeProgress({ rows, rowsPerSecond, secondsLeft, failed }: BackfillProgress): string {
  const left = secondsLeft === undefined ? '' : `, ${describeSeconds(secondsLeft)} left`
  return `${rows} rows, ${rowsPerSecond} a second${left}${failed === 0 ? '' : `, ${failed} failed`}`
}

function describeSeconds(seconds: number): string {
  const [hours, minutes] = [Math.floor(seconds / 3_600), Math.floor(seconds / 60) % 60]
  return hours > 0 ? `${hours} h ${minutes} min` : minutes > 0 ? `${minutes} min ${seconds % 60} s` : `${seconds} s`
}

/** Shows the rows that failed on standard error. @throws CommandError if there are any */
export function assertNoFailures(io: Io, failed: number, failures: readonly RowFailure[], what: string): void {
  for (const { key, field, code, message } of failures) {
    tell(io, `row ${key}${field === undefined ? '' : `, ${field}`}: ${code}: ${message}`)
  }
  if (failed > failures.length) tell(io, `${failed - failures.length} more rows failed, which are not listed`)
  if (failed > 0) throw new CommandError(`${failed} rows ${what}`)
}
