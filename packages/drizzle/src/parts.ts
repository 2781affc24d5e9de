/** Divides an insert of many rows among several statements, where encryption adds more parameters than one may have. */
import { divideRows, MOST_PARAMETERS, type Row, refuseParameters } from '@eaas/sdk/adapter'
import { entityKind } from 'drizzle-orm'
import { mergeResults } from './merged-results.js'
import { type Builder, type Call, type Database, isExpression, isSync, type Written } from './written.js'

/** A builder of an insert. Those of SQLite also have the method that runs it at once. */
interface Insert {
  session: object
  toSQL(): { params: readonly unknown[] }
}

/** Runs a write. An insert of more rows than one statement takes is several in one transaction, in their order. */
export async function runCalls({ on, method, table, known }: Written, calls: readonly Call[]): Promise<unknown> {
  const rows = (calls.find(([name]) => name === 'values')?.[1][0] ?? []) as readonly Row[]
  const build = (some: readonly Row[], inner = on) => {
    return calls.reduce<Builder>((builder, [name, args]) => {
      return builder[name]?.(...(name === 'values' ? [some] : args)) as Builder
    }, inner[method](table))
  }
  const insert = build(rows)
  if (rows.length < 2) return insert
  const most = mostOf(insert)
  const alone = (row: Row) => countIn(build([row]))
  const width = Object.keys(known.columns).length
  const costOf = (row: Row) => (Object.values(row).some(isExpression) ? alone(row) : width)
  const parts = divideRows(rows, costOf, most - alone(rows[0] as Row)) // also has what is not of a row
  // A row may need fewer, since PostgreSQL has a word for what it leaves out.
  if (parts.length === 1 || countIn(insert) <= most) return insert
  const refuse = () => refuseParameters(known.sealed.name, { rows: rows.length, count: countIn(insert), most })
  if (!on.transaction) return refuse()
  if (isSync(on)) {
    const run = calls.some(([name]) => name === 'returning') ? 'all' : 'run'
    return on.transaction((inner) => mergeResults(parts.map((part) => build(part, inner)[run]?.() as unknown)))
  }
  let isBegun = false
  const insertAll = async (inner: Database) => {
    isBegun = true
    const results: unknown[] = []
    for (const part of parts) results.push(await build(part, inner))
    return mergeResults(results)
  }
  return on.transaction(insertAll).catch((error: unknown) => {
    throw !isBegun && hasNoTransactions(error) ? refuse() : error
  })
}

function countIn(insert: Builder): number {
  return (insert as unknown as Insert).toSQL().params.length
}

/** The most parameters of a statement of Cloudflare's databases, D1 and those of durable objects. */
const MOST_OF_CLOUDFLARE = 100

function mostOf(insert: Builder): number {
  const { session } = insert as unknown as Insert
  const kind = String((session.constructor as { [entityKind]?: string })[entityKind])
  if (/^SQLite(D1|DO)Session/.test(kind)) return MOST_OF_CLOUDFLARE
  const isSqlite = 'run' in insert
  return isSqlite ? MOST_PARAMETERS.sqlite : MOST_PARAMETERS.postgres
}

/** Tells whether a driver has refused to begin a transaction: those that send each query by HTTP do. */
function hasNoTransactions(error: unknown): boolean {
  const { message, cause } = error as Error
  const text = `${message} ${(cause as Error | undefined)?.message}`
  return /no transactions|transactions are not supported|storage\.transaction/i.test(text)
}
