/** Finds a table with encrypted columns that a text of one or more SQL statements names. */
import { refuseCall } from './refusals.js'
import { areAmongTables, ENDS_TABLES, isRowName, type Mention, mentionsIn, STARTS_TABLES } from './sql-text.js'
import { clearReadings, isName, isSign, rawWords, readings, type Token } from './sql-tokens.js'

/** A table, and a test for its encrypted columns, in lower case. */
export type NamedTable = readonly [table: string, isSealed: (column: string) => boolean]
const DEFINES = new Set('create alter drop truncate comment grant revoke lock analyze vacuum'.split(' '))
const WRITES = new Set(['insert', 'update', 'merge', 'replace', 'copy'])
const KINDS = new Set('table index view rule function procedure trigger event policy type sequence'.split(' '))
const WITH_BODY = new Set(['view', 'rule', 'function', 'procedure', 'event'])

/**
 * Finds a table with encrypted columns that one of the statements writes, selects a whole row of, or names an encrypted
 * column of. Ignores statements that only define something, unless they contain another one, and statements that count
 * or delete rows by other columns. @throws InvalidInputError if quotes in the text are unclear
 */
export function findTableInStatement(text: string, tables: readonly NamedTable[]): string | undefined {
  for (const tokens of clearReadings(text)) {
    for (const statement of statementsIn(tokens)) {
      const table = findTable(statement, tables)
      if (table !== undefined) return table
    }
  }
  return undefined
}

/** Refuses text in which `findTableInStatement` finds a table. @throws InvalidInputError */
export function assertStatement(text: string, tables: readonly NamedTable[], hint: string): void {
  const table = findTableInStatement(text, tables)
  if (table !== undefined)
    refuseCall(`SQL as text that writes the table ${table}, or names an encrypted column or * of it,`, hint)
}

function statementsIn(tokens: readonly Token[]): Token[][] {
  const statements: Token[][] = [[]]
  for (const token of tokens) {
    if (isSign(token, ';')) statements.push([])
    else if (token.kind !== 'comment') statements.at(-1)?.push(token)
  }
  return statements
}

function findTable(given: readonly Token[], tables: readonly NamedTable[]): string | undefined {
  if (onlyDefines(wordsIn(given))) return undefined
  const tokens = hasQuotedBody(given) ? withBodies(given) : given
  const words = wordsIn(tokens)
  const mentions = mentionsIn(tokens)
  const touches =
    words.some((word) => WRITES.has(word) || word === 'table') || mentions.some(({ name }) => name === '*')
  const isNamed = (name: string) => mentions.some((one) => one.name === name)
  const found = tables.find(([table, isSealed]) => {
    const name = table.toLowerCase()
    if (!isNamed(name)) return false
    return touches || mentions.some((one) => !one.isCounted && isSealed(one.name)) || takesRow(tokens, mentions, name)
  })
  return found?.[0]
}

function wordsIn(tokens: readonly Token[]): string[] {
  return tokens.flatMap(({ kind, text }) => (kind === 'word' ? [text] : []))
}

/** Tells whether a statement only defines something, and contains no other statement, such as the action of a rule. */
function onlyDefines(words: readonly string[]): boolean {
  const [first = ''] = words
  if (first !== 'create' && first !== 'alter') return DEFINES.has(first)
  const kind = words.find((word) => KINDS.has(word)) ?? ''
  if (WITH_BODY.has(kind) || (kind === 'trigger' && !words.includes('execute'))) return false
  return !words.some((word, at) => word === 'as' && !isOfColumn(words, at)) // a table made from a query
}

/** Tells whether an `as` belongs to a column that the database fills, such as `generated always as (…)`. */
function isOfColumn(words: readonly string[], at: number): boolean {
  return words[at + 1] === 'identity' || (words[at - 2] === 'generated' && words[at - 1] === 'always')
}

const RUN_TEXT = new Set(['function', 'procedure', 'execute', 'exec', 'prepare', 'sp_executesql'])

function hasQuotedBody(tokens: readonly Token[]): boolean {
  const words = wordsIn(tokens)
  return words[0] === 'do' || words.some((word) => RUN_TEXT.has(word))
}

/** Replaces literals by their contents, read as SQL. For MySQL, text in double quotes is a literal. */
function withBodies(tokens: readonly Token[]): Token[] {
  return tokens.flatMap((token) => {
    const isBody = token.kind === 'literal' || (token.kind === 'name' && /\s/.test(token.text))
    return isBody ? [token, ...bodyOf(token)] : [token]
  })
}

function bodyOf({ text, isEscaped }: Token): Token[] {
  if (isEscaped) refuseCall('a statement in a literal with escapes', 'Write its letters.')
  const statements = readings(text)
  return statements.length > 0 ? withBodies(statements.flat()) : rawWords(text)
}

const AFTER_TABLE = new Set([
  ...STARTS_TABLES,
  ...ENDS_TABLES,
  ...'on inner left right full cross natural outer tablesample use force ignore partition straight_join'.split(' '),
])

/** Tells whether a query uses a table's row as a value, as `to_jsonb(users)` does, or renames its columns. */
function takesRow(tokens: readonly Token[], mentions: readonly Mention[], table: string): boolean {
  if (!wordsIn(tokens).some((word) => word === 'select' || word === 'returning')) return false
  const among = areAmongTables(tokens)
  const aliases = new Set([table])
  for (const [at, token] of tokens.entries()) {
    if (token.text !== table || !isName(token) || !among[at] || isSign(tokens[at + 1], '.')) continue
    const aliasAt = at + (tokens[at + 1]?.text === 'as' ? 2 : 1)
    const alias = tokens[aliasAt]
    if (!alias || !isName(alias) || (alias.kind === 'word' && AFTER_TABLE.has(alias.text))) continue
    if (isSign(tokens[aliasAt + 1], '(')) return true
    aliases.add(alias.text)
  }
  return mentions.some((mention, at) => {
    const [before, after] = [mentions[at - 1]?.name ?? '', mentions[at + 1]]
    const isCommonTable = after?.name === 'as' && after.isCall
    return aliases.has(mention.name) && isRowName(mention) && !isCommonTable && !['as', 'of'].includes(before)
  })
}
