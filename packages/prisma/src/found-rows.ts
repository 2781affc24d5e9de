/**
 * Updates whose condition does not determine the row that values are bound to. One transaction finds the rows and
 * changes each one with values sealed to it. Each change repeats the condition next to the id: like an update of
 * Prisma's, it skips a row that another transaction changed meanwhile.
 */
import { assertOnlyFound, type Row } from '@eaas/sdk/adapter'
import { type Rewritten, rewriteArgs } from './args.js'
import { inTransaction, type Running, type Statement } from './clients.js'
import { needsRow } from './data.js'
import { boundTo, hasNested, selectOf, withNestedRows } from './nested-rows.js'
import { newShape } from './results.js'
import type { KnownModel } from './schema.js'
import { isPlain } from './values.js'
import { rewriteWhere } from './where.js'

export type Operation = { model: KnownModel; operation: string; args: Row }

const MANY = ['updateMany', 'updateManyAndReturn']

export function isByFoundRows({ model, operation, args }: Operation): boolean {
  const changes = operation === 'upsert' ? args.update : args.data
  if (!['update', 'upsert', ...MANY].includes(operation)) return false
  return needsRow(model, changes, args.where) || hasNested(model, changes)
}

/** Runs an update or an upsert. Returns Prisma's result, and the arguments of its query. */
export async function changeFound(running: Running, operation: Operation): Promise<Rewritten & { result: unknown }> {
  const isRetried = operation.operation === 'upsert' && running.transaction === undefined
  const run = () => inTransaction(running, operation.model.name, (statement) => change(statement, operation))
  return run().catch((error: { code?: unknown }) => {
    // Another call inserted the row after this one had not found it.
    if (isRetried && error.code === 'P2002') return run()
    throw error
  })
}

async function change(statement: Statement, { model, operation, args }: Operation) {
  const seal = (name: string, given: Row, row?: Row) => rewriteArgs({ model, operation: name, args: given }, row)
  const run = async (name: string, rewritten: Rewritten) => ({
    ...rewritten,
    result: await statement(name, rewritten.args),
  })
  // Once for all rows: the service may have to make the index.
  const where = await rewriteWhere(model, args.where)
  if (MANY.includes(operation)) {
    const { limit, ...others } = args
    if (Number(limit) < 0) return run(operation, await seal(operation, { where: { OR: [] }, data: {}, limit })) // Prisma refuses it
    const take = limit === undefined ? {} : { take: limit }
    const rows = (await statement('findMany', { where, select: selectOf(model), ...take })) as Row[]
    const sealed = rows.map((row) =>
      seal(operation, { ...others, where: { AND: [where ?? {}, boundTo(model, row)] } }, row),
    )
    const all: (Rewritten & { result: unknown })[] = []
    for (const one of await Promise.all(sealed)) {
      const changed = await run(operation, one)
      if (model.sealed) assertOnlyFound(model.sealed, 1, countOf(changed.result))
      all.push(changed)
    }
    const last = all.at(-1) ?? { args, shape: newShape(), filters: [] }
    if (operation === 'updateManyAndReturn') return { ...last, result: all.flatMap(({ result }) => result as Row[]) }
    const count = all.reduce((sum, { result }) => sum + countOf(result), 0)
    return { ...last, result: { count } }
  }
  const select = selectOf(model)
  const found = { where, ...(Object.keys(select).length > 0 ? { select } : {}) }
  const row = (await statement('findUnique', found)) as Row | null
  const { create, update, ...others } = args
  if (row) {
    const own = isPlain(where) ? where : {}
    const both = model.sealed ? { ...own, AND: [...[own.AND ?? []].flat(), boundTo(model, row)] } : own
    const changes = operation === 'upsert' ? update : args.data
    const data = await withNestedRows(model, changes, async (field, inner) => {
      const parent = (await statement('findUnique', { where: both, select: { [field]: inner } })) as Row | null
      return [parent?.[field] ?? []].flat() as Row[]
    })
    return run('update', await seal('update', { ...others, where: both, data }, row))
  }
  if (operation === 'update') return run('update', await seal('update', { ...others, data: {} })) // fails as Prisma does
  const { where: _, ...rest } = others
  return run('create', await seal('create', { ...rest, data: create }))
}

function countOf(result: unknown): number {
  return Array.isArray(result) ? result.length : (result as { count: number }).count
}
