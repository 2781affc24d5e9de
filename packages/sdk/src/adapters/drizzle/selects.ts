/** Selects of Drizzle: their conditions are rewritten before they are executed, and their rows opened afterwards. */

import { isEaasError } from '../../errors.js'
import type { Row } from '../../input.js'
import { refuseCall } from '../refusals.js'
import { run } from './conditions.js'
import { readSelection } from './results.js'
import { assertFinal, buildChecked, createRewriting, type SelectConfig } from './rewriting.js'
import { columnsIn } from './selections.js'
import type { KnownTables } from './tables.js'

/** A select of Drizzle. Its functions change its state and return it. */
interface Select {
  config: SelectConfig
  execute(placeholders?: Row): Promise<unknown>
}

/** What a select runs at once, or hands out, before its conditions could be rewritten. */
const AT_ONCE = ['prepare', '_prepare', 'toSQL', 'all', 'get', 'values', 'run', 'iterator']

/** Lets `select()`, and what its `from` returns, go through us. */
export function wrapSelect<T extends object>(tables: KnownTables, builder: T): T {
  const wrapped: T = new Proxy(builder, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name)
      if (typeof member !== 'function') return member
      if ('config' in target) {
        const select = target as unknown as Select
        if (name === 'execute') return (placeholders?: Row) => execute(tables, select, placeholders)
        if (name === 'getSQL') return () => buildChecked(tables, select, () => member.call(target))
        if (AT_ONCE.includes(String(name)) && touches(tables, select)) {
          return () => refuseCall(`${String(name)}() of a select`, 'Await the query itself.')
        }
      }
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
  const rewriting = createRewriting(tables)
  rewriting.visit(select, true)
  const open = readSelection(tables, select.config.fields)
  await run(rewriting)
  return open((await select.execute(placeholders)) as Row[])
}

function touches(tables: KnownTables, select: Select): boolean {
  try {
    assertFinal(tables, select)
  } catch (error) {
    if (isEaasError(error)) return true
    throw error
  }
  return columnsIn(select.config.fields).some((column) => tables.findSealed(column))
}
