/** Raw SQL in a query of Kysely cannot be rewritten: it is refused if it names something encrypted. */
import { findTableInStatement, type Mention, namesInSql, refuseCall, refuseExpression } from '@eaas/sdk/adapter'
import { type Node, rawText } from './nodes.js'
import { type Scope, type Source, sealedColumns } from './scope.js'
import type { Models } from './tables.js'

const HINT =
  'Write it by methods of Kysely, or execute it on a Kysely of the dialect itself, which sees what is stored.'

/**
 * Checks raw SQL that is a part of a query. @throws InvalidInputError when it names an encrypted column or
 * its table
 */
export function assertRawPart(models: Models, scope: Scope, raw: Node): void {
  const tables = new Map([...models.keys()].map((table) => [table.toLowerCase(), table]))
  for (const mention of namesInSql(rawText(raw))) {
    const table = tables.get(mention.name)
    if (table !== undefined && !mention.isQualifier) refuseCall(`SQL as text that names the table ${table}`, HINT)
    if (!mention.isQualifier && mention.qualifier === undefined && isWholeRow(scope, mention.name)) {
      refuseCall(`SQL as text that names all columns of ${mention.name}`, HINT)
    }
    const source = findMentioned(scope, mention)
    if (source) refuseExpression(source.instance.table.name, source.column)
  }
}

/** A table's name alone stands for a whole row. */
function isWholeRow(scope: Scope, name: string): boolean {
  for (let at: Scope | undefined = scope; at; at = at.outer) {
    for (const [alias, relation] of at.own) {
      if (alias.toLowerCase() === name) return sealedColumns(relation?.outputs ?? []).length > 0
    }
  }
  return false
}

function findMentioned(scope: Scope, { name, qualifier }: Mention): Source | undefined {
  for (let at: Scope | undefined = scope; at; at = at.outer) {
    const relations = [...at.own].map(([alias, relation]) => [alias.toLowerCase(), relation] as const)
    const named = relations.filter(([alias]) => alias === qualifier)
    for (const [, relation] of named.length > 0 ? named : relations) {
      const found = relation && sealedColumns(relation.outputs).find((column) => column.name.toLowerCase() === name)
      if (found) return found.source
    }
    if (named.length > 0) return undefined
  }
  return undefined
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
