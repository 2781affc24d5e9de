/** Selects of Drizzle: their conditions are rewritten before they are executed, and their rows opened afterwards. */
import { is, SQL, Subquery } from 'drizzle-orm'
import type { Row } from '../../input.js'
import { refuseCall, refuseExpression, refuseOrder } from '../refusals.js'
import { assertNoSealed, rewrite, type SelectConfig } from './conditions.js'
import { readSelection } from './results.js'
import type { KnownTables } from './tables.js'

/** A select of Drizzle. Its functions change its state and return it. */
interface Select {
  config: SelectConfig
  execute(placeholders?: Row): Promise<unknown>
}

/** What a select runs at once, or hands out as SQL, before its conditions could be rewritten. */
const AT_ONCE = ['prepare', '_prepare', 'toSQL', 'all', 'get', 'values', 'run', 'iterator']

/** Lets `select()`, and what its `from` returns, go through us. */
export function wrapSelect<T extends object>(tables: KnownTables, builder: T): T {
  const wrapped: T = new Proxy(builder, {
    get(target, name) {
      if ('config' in target) {
        const select = target as unknown as Select
        if (name === 'execute') return (placeholders?: Row) => execute(tables, select, placeholders)
        if (name === 'getSQL' || name === 'as') assertRewritten(tables, select)
        if (
          AT_ONCE.includes(String(name)) &&
          typeof Reflect.get(target, name) === 'function' &&
          touches(tables, select)
        ) {
          return () => refuseCall(`${String(name)}() of a select`, 'Await the query itself.')
        }
      }
      const member: unknown = Reflect.get(target, name)
      if (typeof member !== 'function') return member
      // Called on the wrapped one: what returns itself is still wrapped, and `then` finds our `execute`.
      return (...args: unknown[]) => {
        const result: unknown = member.apply(wrapped, args)
        if (result === target) return wrapped // joins and set operators are bound to the builder itself
        return name === 'from' && typeof result === 'object' && result !== null ? wrapSelect(tables, result) : result
      }
    },
  })
  return wrapped
}

async function execute(tables: KnownTables, select: Select, placeholders?: Row): Promise<unknown> {
  await prepare(tables, select)
  const open = readSelection(tables, select.config.fields)
  return open((await select.execute(placeholders)) as Row[])
}

/** Rewrites the conditions of a select and of the queries inside it. Rewriting them once more changes nothing. */
export async function prepare(tables: KnownTables, query: unknown): Promise<void> {
  if (typeof query !== 'object' || query === null || is(query, Subquery)) return
  const { config } = query as Partial<Select>
  if (typeof config !== 'object' || !('fields' in config)) return
  assertNoSealed(tables, config.orderBy, refuseOrder)
  assertNoSealed(tables, config.groupBy, refuseOrder)
  if (config.distinct) assertNoSealed(tables, Object.values(config.fields), refuseExpression)
  const visit = (inner: unknown) => prepare(tables, inner)
  config.where = await rewrite(tables, config.where, visit)
  config.having = await rewrite(tables, config.having, visit)
  await visit(config.table)
  for (const join of config.joins ?? []) {
    join.on = await rewrite(tables, join.on, visit)
    await visit(join.table)
  }
  for (const { rightSelect, orderBy } of config.setOperators ?? []) {
    assertNoSealed(tables, orderBy, refuseOrder)
    await visit(rightSelect)
  }
}

/** Refuses to make SQL of a select whose conditions were not rewritten. */
function assertRewritten(tables: KnownTables, { config }: Select): void {
  for (const part of [config.where, config.having, ...(config.joins ?? []).map(({ on }) => on)]) {
    assertNoSealed(tables, part, (model, field) =>
      refuseCall(
        `a subquery that searches by ${model}.${field}`,
        'Search by the column of its index, with the value that `index` of the model makes.',
      ),
    )
  }
}

function touches(tables: KnownTables, { config }: Select): boolean {
  let found = false
  const note = (() => {
    found = true
  }) as () => never
  const parts = [config.where, config.having, config.orderBy, ...(config.joins ?? []).map(({ on }) => on)]
  assertNoSealed(tables, parts, note)
  const visit = (fields: Row) => {
    for (const field of Object.values(fields)) {
      assertNoSealed(tables, field, note)
      if (
        typeof field === 'object' &&
        field !== null &&
        !is(field, SQL) &&
        Object.getPrototypeOf(field) === Object.prototype
      )
        visit(field as Row)
    }
  }
  visit(config.fields)
  return found
}
