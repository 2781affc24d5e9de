/**
 * Queries of Drizzle that encrypt nothing: their conditions are rewritten before they are executed, and their
 * rows opened afterwards.
 */

import { isEaasError } from '@eaas/sdk'
import { type Row, refuseCall, rememberCaller, runFor } from '@eaas/sdk/adapter'
import { run } from './conditions.js'
import { readSelection } from './results.js'
import {
  assertFinal,
  buildChecked,
  createRewriting,
  rewriteBuilder,
  type SelectConfig,
  type WriteConfig,
} from './rewriting.js'
import { columnsIn } from './selections.js'
import type { KnownTables } from './tables.js'

/** A query of Drizzle. Its functions change its state and return it. */
interface Query {
  config: SelectConfig | WriteConfig
  execute(placeholders?: Row): Promise<unknown>
}

/** What a query runs at once, or hands out, before its conditions could be rewritten. */
const AT_ONCE = ['prepare', '_prepare', 'toSQL', 'all', 'get', 'values', 'run', 'iterator']

/** The functions that make a query of what began one, such as `select()` or `update(table)`. */
const BEGIN = ['from', 'values', 'set', 'select']

/** Lets a query go through us: a select, or a write of a table without a model. */
export function wrapBuilder<T extends object>(tables: KnownTables, builder: T, atCaller = rememberCaller()): T {
  const wrapped: T = new Proxy(builder, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name)
      if (typeof member !== 'function') return member
      if ('config' in target) {
        const query = target as unknown as Query
        if (name === 'execute') {
          return (placeholders?: Row) => runFor(atCaller, () => execute(tables, query, placeholders))
        }
        if (name === 'getSQL') return () => buildChecked(tables, query.config, () => member.call(target))
        if (AT_ONCE.includes(String(name)) && touches(tables, query)) {
          return () => refuseCall(`${String(name)}() of such a query`, 'Await the query itself.')
        }
      }
      // Called on the wrapped one: what returns itself is still wrapped, and `then` finds our `execute`.
      return (...args: unknown[]) => {
        const result: unknown = member.apply(wrapped, args)
        if (result === target) return wrapped // joins and set operators are bound to the builder itself
        return BEGIN.includes(String(name)) && typeof result === 'object' && result !== null
          ? wrapBuilder(tables, result, atCaller)
          : result
      }
    },
  })
  return wrapped
}

async function execute(tables: KnownTables, query: Query, placeholders?: Row): Promise<unknown> {
  const rewriting = createRewriting(tables)
  rewriteBuilder(rewriting, query.config)
  const open = readSelection(tables, selectionOf(query))
  await run(rewriting)
  return open((await query.execute(placeholders)) as Row[])
}

function touches(tables: KnownTables, query: Query): boolean {
  try {
    assertFinal(tables, query.config)
  } catch (error) {
    if (isEaasError(error)) return true
    throw error
  }
  return columnsIn(selectionOf(query)).some((column) => tables.findSealed(column))
}

function selectionOf({ config }: Query): Row {
  return ('fields' in config ? config.fields : config.returningFields) ?? {}
}
