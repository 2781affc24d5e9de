/** Reads by an index that finds more rows than match: the rows are opened and filtered, then pages are counted. */
import { type Filter, type Row, readPage, refuseCall } from '@eaas/sdk/adapter'
import type { Rewritten } from './args.js'
import type { Running } from './clients.js'
import type { Operation } from './found-rows.js'
import { openResult } from './results.js'
import type { Schema } from './schema.js'

/** Returns the opened rows, or their number, as the operation does. */
export async function readFiltered(
  schema: Schema,
  running: Running,
  { model, operation, args: asked }: Operation,
  { args, filters }: Rewritten,
): Promise<unknown> {
  const { skip, take, orderBy, ...rest } = args as { skip?: number; take?: number; orderBy?: unknown }
  assertPaged(model.name, args, running)
  const statement = running.statementIn(running.transaction)
  const { sealed } = model
  const isCount = operation === 'count'
  if (isCount && asked.select !== undefined) refuseCall('count of fields by such a search', 'Count the rows alone.')
  const select = isCount ? { select: selectOf(model.sealed, filters) } : {}
  // One order for all reads, so that each row is read exactly once.
  const unique = new Set([...(sealed?.bind ?? []), ...model.ids])
  const order = [orderBy ?? [], ...[...unique].map((field) => ({ [field]: 'asc' }))].flat()
  const read = async (from: number, size: number | undefined) => {
    const page = size === undefined ? {} : { skip: from, take: size }
    const rows = (await statement('findMany', { ...rest, ...select, ...page, orderBy: order })) as Row[]
    await openResult(schema, model, rows)
    return rows
  }
  const isOne = !isCount && operation !== 'findMany'
  const isRight = (row: Row) => sealed?.searches.matches(row, filters) ?? true
  const rows = await readPage(read, isRight, { skip, take: isOne ? 1 : take })
  if (isCount) return rows.length
  return isOne ? (rows[0] ?? null) : rows
}

/** What a count must read to filter its rows. */
function selectOf(sealed: Operation['model']['sealed'], filters: readonly Filter[]): Row {
  const fields = filters.map(({ field }) => field)
  return Object.fromEntries([...fields, ...(sealed?.readsToo(fields) ?? [])].map((field) => [field, true]))
}

function assertPaged(name: string, { take, distinct }: Row, { transaction }: Running): void {
  const hint = 'Read the rows without it, and do so afterwards.'
  if (distinct !== undefined) refuseCall(`distinct of ${name} by such a search`, hint)
  if (Number(take ?? 0) < 0) refuseCall(`a negative take of ${name} by such a search`, 'Turn the order around.')
  if (transaction && transaction.kind !== 'itx') {
    refuseCall(`in a list of operations, such a search of ${name}`, 'Pass a function: `$transaction(async (tx) => …)`.')
  }
}
