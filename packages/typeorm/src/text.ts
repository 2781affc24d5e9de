/**
 * Builders make SQL as text. Where the adapter names an encrypted column, the name gets a mark, which is removed before
 * the query is sent. A name without a mark was written by the application, and is refused.
 */
import {
  assertStatement,
  isNullTest,
  type Mention,
  type NamedRelation,
  namesInSql,
  refuseCall,
  refuseExpression,
  type SealedColumn,
} from '@eaas/sdk/adapter'
import type { Alias } from './internals.js'
import type { KnownTable, KnownTables } from './tables.js'

/** From the private use area: no name and no SQL text contains it. */
export const MARK = '\uE000'

export function withoutMarks(sql: string): string {
  return sql.replaceAll(MARK, '')
}

/** Marks a quoted column, with or without a table before it. */
export function marked(quoted: string): string {
  return quoted.replace(/"(?=(?:[^"]|"")+"$)/, `"${MARK}`)
}

/** Checks the SQL of a builder. @throws InvalidInputError if it names something encrypted that the adapter has not put there */
export function assertBuilt(tables: KnownTables, sql: string, aliases: readonly Alias[]): void {
  const mentions = namesInSql(sql.replaceAll(`${MARK}*`, '')) // `returning *`, which the adapter has opened
  const names = new Set(mentions.map(({ name }) => name))
  const outputs = new Set([...names].filter((name) => name.startsWith(MARK)).map((name) => name.slice(MARK.length)))
  for (const known of tables.all) {
    if (!names.has(known.table)) continue
    const others = othersThan(known, tables, aliases, mentions)
    const rows = new Set(aliases.filter((one) => one.hasMetadata && tables.find(one.metadata) === known).map(lowerName))
    for (const [at, mention] of mentions.entries()) {
      const isColumn = known.sealedNames.has(mention.name) || outputs.has(mention.name)
      if (isColumn && isNullTest(mentions, at)) continue
      if (isColumn && !others.has(mention.qualifier))
        refuseExpression(known.sealed.name, mention.name, hintFor(mention))
      if (rows.has(mention.name) && isRow(mention, mentions[at - 1]?.name, known))
        refuseCall(`a row of ${known.sealed.name} as a value`, 'Select its columns.')
    }
    if (mentions.some(({ name }) => name === '*' || name === 'table'))
      refuseCall(`"*" in a query of ${known.sealed.name}`, 'Select its columns.')
  }
}

function hintFor({ name }: Mention): string {
  return `Search by an object, such as .where({ ${name.replace(MARK, '')}: 'value' }), or select it by itself and compute with it after it is decrypted. To join by it, compare the columns of its indexes.`
}

const BEFORE_A_TABLE = ['from', 'join', 'update', 'into', 'of', 'as', 'only']

/** Tells whether a table's name stands for its row, not for the table, nor as a qualifier of a column. */
function isRow({ qualifier, isQualifier }: Mention, before: string | undefined, { table }: KnownTable): boolean {
  return !isQualifier && qualifier === undefined && before !== table && !BEFORE_A_TABLE.includes(before ?? '')
}

/** Returns the aliases that certainly name other tables. */
function othersThan(
  known: KnownTable,
  tables: KnownTables,
  aliases: readonly Alias[],
  mentions: readonly Mention[],
): Set<string | undefined> {
  const others = new Set<string | undefined>(
    aliases.filter((one) => one.hasMetadata && tables.find(one.metadata) !== known).map(lowerName),
  )
  for (const [at, { name }] of mentions.entries()) {
    if (name !== known.table) continue
    const next = mentions[at + 1]?.name
    others.delete(next === 'as' ? mentions[at + 2]?.name : next)
    others.delete(name)
  }
  return others
}

function lowerName({ name }: Alias): string {
  return name.toLowerCase()
}

export function assertRaw({ all }: KnownTables, sql: string): void {
  const tables = all.map(({ table, sealedNames }) => [table, (column: string) => sealedNames.has(column)] as const)
  const hint =
    'Use repositories and query builders, or execute it on a data source without models, which sees what is stored.'
  assertStatement(withoutMarks(sql), tables, hint)
}

/** Lists what a builder's text can name: columns by property, or as in the database. */
export function relationsOf(tables: KnownTables, aliases: readonly Alias[]): NamedRelation[] {
  return aliases.map((alias) => {
    const columns = alias.hasMetadata ? alias.metadata.columns : []
    const known = alias.hasMetadata ? tables.find(alias.metadata) : undefined
    const named = columns.map((column) => {
      const field = known?.nameOf(column)
      const names = [column.propertyPath, column.databaseName]
      const sealed = known && field !== undefined ? namesOf(known, field, names) : []
      return { sealed, plain: sealed.length > 0 ? [] : names }
    })
    const [sealed, plain] = [named.flatMap((one) => one.sealed), named.flatMap((one) => one.plain)]
    return { alias: alias.name, sealed, plain }
  })
}

export function namesOf({ sealed }: KnownTable, field: string, names: readonly string[]): SealedColumn[] {
  return sealed.isSealed(field) ? names.map((name) => ({ name, model: sealed.name, field })) : []
}
