/** Adds constraints that refuse plaintext to a PostgreSQL table in use. */
import { setTimeout } from 'node:timers/promises'
import { ContentError, isEaasError } from '@eaas/sdk'
import type { AnyModel } from '@eaas/sdk/maintenance'
import * as sdk from '@eaas/sdk/maintenance'
import type { Sdk } from './backfill.js'
import { openPostgres, type PostgresQuery } from './postgres.js'
import { type Ask, getColumn, readTable } from './postgres-columns.js'
import { assertHoldsEnvelopes, isJson, quoteName } from './postgres-values.js'
import { makeSealedChecks, type SealedCheck, sealedColumns } from './sealed-checks.js'
import { columnNames } from './table.js'

export interface ConstrainOptions {
  /** The names of columns in the database, if they differ from those of the model. */
  columns?: Readonly<Record<string, string>> | undefined
  /** Only returns the SQL: neither looks for plaintext nor adds anything. */
  dryRun?: boolean | undefined
}

/** What `constrainTable` did; with `dryRun`, what it would have done. */
export interface ConstrainReport {
  constraints: string[]
  /** The SQL that adds them, which also fits a migration. */
  statements: string[]
}

/**
 * Makes PostgreSQL refuse plaintext in the columns that a model seals: adds a check constraint to each, which only null
 * and envelopes in the model's form pass. The table must not hold plaintext, and the caller needs its owner's rights.
 * Replaces constraints of the same names. The table is locked only briefly, and a statement waits for the lock 200 ms
 * at a time. The rows are checked without a lock that the application would wait for.
 *
 * @param table as for `postgresTable`
 * @throws ContentError when a column holds anything else; InvalidInputError when an option or the table is wrong;
 * DatabaseError (`E_DATABASE`) when the database fails
 * @example
 * ```ts
 * const { constraints } = await constrainTable(users, query, 'users')
 * ```
 */
export async function constrainTable(
  model: AnyModel,
  query: PostgresQuery,
  table: string,
  options: ConstrainOptions = {},
): Promise<ConstrainReport> {
  return constrainWith(sdk, model, { query, table }, options)
}

export async function constrainWith(
  { describeModel }: Pick<Sdk, 'describeModel'>,
  model: AnyModel,
  { query, table }: { query: PostgresQuery; table: string },
  options: ConstrainOptions,
): Promise<ConstrainReport> {
  sdk.assertOptions('constrainTable()', options, ['columns', 'dryRun'] satisfies (keyof ConstrainOptions)[])
  const { columns = {}, dryRun = false } = options
  sdk.assertFlag('dryRun', dryRun)
  const { ask, name } = openPostgres(query, table)
  const found = await readTable(ask, name)
  const described = describeModel(model)
  const renamed = sdk.readMembers('columns', columns, columnNames(described.table))
  const find = (head: string) => {
    const column = getColumn(found, renamed[head] ?? head)
    assertHoldsEnvelopes(column)
    return { column: column.name, type: isJson(column) ? 'json' : 'text' } as const
  }
  const checks = makeSealedChecks('postgresql', found.table, sealedColumns(described, find))
  const names = checks.map((check) => quoteName(check.name))
  // One statement drops and adds, so that plaintext is refused throughout.
  const drops = names.map((one) => `drop constraint if exists ${one}`)
  const add = `alter table ${name} ${[...drops, ...checks.map(({ definition }) => `add ${definition} not valid`)].join(', ')}`
  const validate = `alter table ${name} ${names.map((one) => `validate constraint ${one}`).join(', ')}`
  if (!dryRun) {
    await assertSealed(ask, name, checks)
    await atOnce(ask, add)
    await ask(validate).catch(async (error) => {
      // Dropped again: otherwise updates of plaintext rows that another program wrote meanwhile would fail.
      await atOnce(ask, `alter table ${name} ${drops.join(', ')}`)
      await assertSealed(ask, name, checks)
      throw error
    })
  }
  return { constraints: checks.map((check) => check.name), statements: [add, validate] }
}

/** @throws ContentError naming the constraints whose columns hold anything but envelopes in the model's form */
async function assertSealed(ask: Ask, table: string, checks: readonly SealedCheck[]): Promise<void> {
  const counts = checks.map(({ condition }) => `count(*) filter (where not (${condition}))`).join(', ')
  const [found] = (await ask(`select json_build_array(${counts})::text as r from ${table}`)) as [number[]]
  const other = checks.flatMap(({ name }, at) => (found[at] ? [`${name}: ${found[at]}`] : []))
  if (other.length === 0) return
  throw new ContentError(
    `rows hold what these constraints would refuse: ${other.join(', ')}`,
    'Look at them with inspect-table. `seal` encrypts plaintext, `reseal` brings envelopes of another `format` into that of the model.',
  )
}

const LOCK_NOT_AVAILABLE = '55P03'
const LOCK_MS = 200
const MAX_TRIES = 20
const PAUSE_MS = 500

/** Locks the table briefly, in several attempts: the application's calls queue behind a statement that waits for the lock. */
async function atOnce(ask: Ask, statement: string): Promise<void> {
  const body = `begin perform set_config('lock_timeout', '${LOCK_MS}ms', true); ${statement}; end`
  for (let tries = 1; ; tries++) {
    try {
      await ask(`do '${body.replaceAll("'", "''")}'`)
      return
    } catch (error) {
      const isLocked = isEaasError(error) && error.code === 'E_DATABASE' && error.sqlState === LOCK_NOT_AVAILABLE
      if (!isLocked || tries === MAX_TRIES) throw error
      await setTimeout(PAUSE_MS)
    }
  }
}
