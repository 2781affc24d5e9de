/** Opens and filters the rows that Prisma returns, and those of their relations. */
import { type Filter, type Row, readPage, refuseCall } from '@eaas/sdk/adapter'
import type { Rewritten } from './args.js'
import type { Running } from './clients.js'
import type { Operation } from './found-rows.js'
import type { KnownModel } from './schema.js'
import { isPlain } from './values.js'

export async function openResult(model: KnownModel, result: unknown): Promise<void> {
  const found = new Map<KnownModel, Row[]>()
  collect(model, result, found)
  await Promise.all([...found].map(([one, rows]) => openRows(one, rows)))
}

function collect(model: KnownModel, result: unknown, found: Map<KnownModel, Row[]>): void {
  if (Array.isArray(result)) for (const one of result) collect(model, one, found)
  else if (typeof result === 'object' && result !== null) {
    const row = result as Row
    const rows = found.get(model) ?? []
    if (rows.length === 0) found.set(model, rows)
    rows.push(row)
    for (const [field, relation] of model.relations) {
      const inner = Object.hasOwn(row, field) ? row[field] : undefined
      if (Array.isArray(inner) || isPlain(inner)) collect(model.get(relation), inner, found)
    }
  }
}

async function openRows({ sealed, relations }: KnownModel, rows: readonly Row[]): Promise<void> {
  if (!sealed) return
  const stored = rows.map((row) => Object.fromEntries(Object.entries(row).filter(([field]) => !relations.has(field))))
  const opened = await sealed.openRows(stored)
  for (const [at, row] of rows.entries()) {
    for (const field of Object.keys(stored[at] ?? {})) if (sealed.isSealed(field)) row[field] = opened[at]?.[field]
  }
}

/** What is selected beyond the request. These fields are hidden, not deleted: computed fields may need them. */
export interface Shape {
  hidden: Set<string>
  inner: Map<string, Shape>
}

export function newShape(): Shape {
  return { hidden: new Set(), inner: new Map() }
}

/** Hides fields of rows, in place: they become properties that are not enumerable. */
export function hide({ hidden, inner }: Shape, result: unknown): void {
  if (Array.isArray(result)) {
    for (const one of result) hide({ hidden, inner }, one)
  } else if (typeof result === 'object' && result !== null) {
    const row = result as Row
    for (const field of hidden) if (Object.hasOwn(row, field)) Object.defineProperty(row, field, { enumerable: false })
    for (const [field, shape] of inner) hide(shape, row[field])
  }
}

/** Reads through an index that finds more rows than match. Returns rows or their number, as the operation does. */
export async function readFiltered(
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
  // All pages use one order, so that each row is read exactly once.
  const unique = new Set([...(sealed?.bind ?? []), ...model.ids])
  const order = [orderBy ?? [], ...[...unique].map((field) => ({ [field]: 'asc' }))].flat()
  const read = async (from: number, size: number | undefined) => {
    const page = size === undefined ? {} : { skip: from, take: size }
    const rows = (await statement('findMany', { ...rest, ...select, ...page, orderBy: order })) as Row[]
    await openResult(model, rows)
    return rows
  }
  const isOne = !isCount && operation !== 'findMany'
  const isRight = (row: Row) => sealed?.searches.matches(row, filters) ?? true
  const rows = await readPage(read, isRight, { skip, take: isOne ? 1 : take })
  if (isCount) return rows.length
  return isOne ? (rows[0] ?? null) : rows
}

function selectOf(sealed: Operation['model']['sealed'], filters: readonly Filter[]): Row {
  const fields = filters.map(({ field }) => field)
  return Object.fromEntries([...fields, ...(sealed?.readsToo(fields) ?? [])].map((field) => [field, true]))
}

function assertPaged(name: string, { take, distinct }: Row, { transaction }: Running): void {
  const hint = 'Read the rows without it, and do so afterwards.'
  if (distinct !== undefined) refuseCall(`distinct of ${name} by such a search`, hint)
  if (Number(take ?? 0) < 0) refuseCall(`a negative take of ${name} by such a search`, 'Turn the order around.')
  if (transaction && transaction.kind !== 'itx')
    refuseCall(`in a list of operations, such a search of ${name}`, 'Pass a function: `$transaction(async (tx) => …)`.')
}
