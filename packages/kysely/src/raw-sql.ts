/** Raw SQL in a query of Kysely cannot be rewritten: it is refused if it names something encrypted. */
import { assertSqlPart, findTableInStatement, namesInSql, refuseCall } from '@eaas/sdk/adapter'
import { type Node, rawText } from './nodes.js'
import { relationsIn, type Scope } from './scope.js'
import type { Models } from './tables.js'

const HINT =
  'Write it by methods of Kysely, or execute it on a Kysely of the dialect itself, which sees what is stored.'

/**
 * Checks raw SQL that is a part of a query. @throws InvalidInputError when it names an encrypted column or
 * its table
 */
export function assertRawPart(models: Models, scope: Scope, raw: Node): void {
  const text = rawText(raw)
  const tables = new Map([...models.keys()].map((table) => [table.toLowerCase(), table]))
  const named = namesInSql(text).find(({ name, isQualifier }) => !isQualifier && tables.has(name))
  if (named) refuseCall(`SQL as text that names the table ${tables.get(named.name)}`, HINT)
  assertSqlPart(text, relationsIn(scope), { hint: HINT })
}

/**
 * Checks a whole statement that is raw SQL. @throws InvalidInputError when it writes such a table, or names
 * an encrypted column
 */
export function assertRawStatement(models: Models, raw: Node): void {
  const tables = [...models].map(([table, { columns, isSealed }]) => {
    const sealed = columns.filter((column) => isSealed(column)).map((column) => column.toLowerCase())
    return [table, (column: string) => sealed.includes(column)] as const
  })
  const table = findTableInStatement(rawText(raw), tables)
  if (table !== undefined) refuseCall(`SQL as text that names the table ${table}`, HINT)
}
