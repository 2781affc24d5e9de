/** What `backfill` and `inspect-table` share: the application's model, and its table in PostgreSQL. */
import { counted } from '@eaas/protocol'
import { type Command, Option } from 'commander'
import { addServiceOptions, collect, type DecryptingOptions, readNames, readPairs } from './arguments.js'
import type { Sdk } from './backfill/backfill.js'
import { constrainWith } from './backfill/constrain.js'
import { type Plan, type PlanOptions, planWith } from './backfill/plan.js'
import type { AnyModel, BackfillProgress, ConstrainReport, InspectReport, TableSource } from './backfill.js'
import { postgresTable } from './backfill.js'
import { findKeyId, withClient } from './connection.js'
import { ArgumentsError, CommandError, type Io, tell } from './io.js'
import { findSdk, loadModule } from './model-module.js'
import { DATABASE_HELP, DRIVERS, type Driver, openDatabase } from './postgres-driver.js'

export const MODULE_HELP =
  "the application's own module. It exports a model, which has its own client, or a function that gets a client of the service and the id of --key, and returns the model: function users(eaas, keyId) { return eaas.model({ ... }) }"

export interface TableOptions extends DecryptingOptions {
  table: string
  export: string
  key?: string
  /** Undefined if the command does not create keys. */
  createKey?: boolean | undefined
  mayCallNothing?: boolean
  decrypts?: boolean
  column?: string[]
  keyColumns?: string[]
  batchSize?: string
  rowsPerSecond?: string
  driver?: Driver
  json?: boolean
}

/** Adds the options of a command on a table. @param addService adds the options to reach the keys */
export function addTableOptions(command: Command, addService = addServiceOptions): Command {
  command
    .requiredOption(
      '--table <name>',
      'the table, with its schema if that is not on the search path: crm.users. A part with a dot is quoted as in SQL: crm."users.old"',
    )
    .option('--export <name>', 'the export of the module', 'default')
    .option('--key <name>', 'name or id of the key, whose id a function gets as its second argument')
    .option(
      '--column <name=column>',
      "a column whose name differs from the model's: emailIndex=email_index. May be repeated",
      collect,
    )
    .option(
      '--key-columns <a,b>',
      'the columns by which pages are read, unique together and never null; those of the primary key by default',
      collect,
    )
    .option('--batch-size <n>', 'rows that are read and written at a time; 200 by default')
    .option('--rows-per-second <n>', 'how many rows to read a second, at most')
    .addOption(
      new Option(
        '--driver <name>',
        'pg or postgres; by default the first of these that the application has installed',
      ).choices(DRIVERS),
    )
    .option('--json', 'print the report as JSON')
  return addService(command).addHelpText('after', DATABASE_HELP)
}

export interface OpenTable {
  /** The copy of the SDK that made the model. */
  sdk: Sdk
  model: AnyModel
  table: TableSource
  speed: { batchSize: number | undefined; rowsPerSecond: number | undefined }
  /** Makes the table refuse plaintext, see `constrainTable`. */
  constrain(options: { dryRun: boolean }): Promise<ConstrainReport>
  /** Plans the steps to encrypt the table, and tells which are done. Changes nothing. */
  plan(options: Omit<PlanOptions, 'columns'>): Promise<Plan>
  /** What distinguishes this table, read with this model, from all others. */
  identity: Record<string, unknown>
  get(name: string): unknown
}

/** Loads the model, connects, and closes everything at the end. */
export async function withTable<T>(
  io: Io,
  file: string,
  given: TableOptions,
  run: (open: OpenTable) => Promise<T>,
): Promise<T> {
  const { table, export: name, key, createKey, decrypts, mayCallNothing = false } = given
  if (createKey && key === undefined) throw new ArgumentsError('--create-key needs --key <name>')
  const columns = readPairs('column', given.column)
  const keyColumns = readNames('key-columns', given.keyColumns)
  const speed = {
    batchSize: readCount('batch-size', given.batchSize),
    rowsPerSecond: readCount('rows-per-second', given.rowsPerSecond),
  }
  const module = await loadModule(io, file)
  const exported = module.get(name)
  const database = await openDatabase(io, module.path, given.driver)
  const runWith = async (exported: unknown) => {
    const { sdk, model } = await findSdk(module, exported)
    return run({
      sdk,
      model,
      table: postgresTable(database.query, table, { columns, key: keyColumns.length === 0 ? undefined : keyColumns }),
      speed,
      constrain: ({ dryRun }) => constrainWith(sdk, model, { query: database.query, table }, { columns, dryRun }),
      plan: (options) => planWith(sdk, model, { query: database.query, table }, { columns, ...options }),
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
    if (typeof exported === 'function')
      return await withClient(io, given, { verify: true, mayCallNothing }, async (eaas) => {
        const keyId = key === undefined ? undefined : await findKeyId(eaas, key, io, { create: createKey, decrypts })
        return runWith(await callExport(() => exported(eaas, keyId), keyId))
      })
    if (key !== undefined)
      throw new ArgumentsError('--key is for a function: the export is no function, and a model has its key')
    if (given.kit !== undefined)
      throw new ArgumentsError('--kit is for a function: the export is no function, and a model has its own client')
    return await runWith(exported)
  } finally {
    await database.close()
  }
}

// The model's message speaks of a client, which the user of the command does not have.
async function callExport(make: () => unknown, keyId: string | undefined): Promise<unknown> {
  try {
    return await make()
  } catch (error) {
    if (keyId !== undefined || !(error instanceof Error) || error.message !== 'keyId is missing') throw error
    throw new ArgumentsError('the function takes the id of a key: give --key <name>')
  }
}

function readCount(option: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new ArgumentsError(`--${option} must be a whole number, from 1`)
  return Number(text)
}

export function describeProgress({ rows, rowsPerSecond, secondsLeft, failed, ahead }: BackfillProgress): string {
  const first = ahead === 0 ? '' : `, ${ahead} without an index done before`
  const left = secondsLeft === undefined ? '' : `, ${describeSeconds(secondsLeft)} left`
  return `${counted(rows, 'row')}, ${rowsPerSecond} a second${left}${first}${failed === 0 ? '' : `, ${failed} failed`}`
}

function describeSeconds(seconds: number): string {
  const [hours, minutes] = [Math.floor(seconds / 3_600), Math.floor(seconds / 60) % 60]
  return hours > 0 ? `${hours} h ${minutes} min` : minutes > 0 ? `${minutes} min ${seconds % 60} s` : `${seconds} s`
}

/** Shows failed rows on standard error, by cause. @throws CommandError if there are any */
export function assertNoFailures(
  io: Io,
  { failed, causes }: Pick<InspectReport, 'failed' | 'causes'>,
  what: string,
): void {
  let left = failed
  for (const { rows, keys, field, code, message } of causes) {
    left -= rows
    const some = `${keys.join(', ')}${rows > keys.length ? ' and so on' : ''}`
    const which = rows === 1 ? `row ${some}` : `${counted(rows, 'row')} (${some})`
    tell(io, `${which}${field === undefined ? '' : `, ${field}`}: ${code}: ${message}`)
  }
  if (left > 0) tell(io, `${counted(left, 'more row failed, which is', 'more rows failed, which are')} not listed`)
  if (failed > 0) throw new CommandError(`rows that ${what}: ${failed}`)
}
