/**
 * What SQL that is written as text names. Adapters cannot rewrite such text, so they refuse it where it names something encrypted. It is
 * read as words, without a grammar: whatever is unclear counts as named.
 */

/** A name in a text of SQL, in lower case and without quotes: databases fold case, each in its own way. */
export interface Mention {
  name: string
  /** The name before its dot, such as that of a table. */
  qualifier: string | undefined
  /** Whether it stands before a dot itself. */
  isQualifier: boolean
}

/** Lists the names in a text of SQL, keywords among them. */
export function namesInSql(text: string): Mention[] {
  return namesIn(withoutLiterals(text))
}

function namesIn(text: string): Mention[] {
  const tokens = text
    .toLowerCase()
    .match(/"[^"]*"|`[^`]*`|[\p{L}\p{N}_?][\p{L}\p{N}_$]*|\./gu)
    ?.map((token) => token.replaceAll(/^["`]|["`]$/g, ''))
  return (tokens ?? []).flatMap((name, at, all) => {
    if (name === '.') return []
    return [{ name, qualifier: all[at - 1] === '.' ? all[at - 2] : undefined, isQualifier: all[at + 1] === '.' }]
  })
}

const UNCLEAR = /\\|--|\/\*|\$\w*\$/

/** Leaves literals in, where escapes, comments or dollar quotes leave it unclear where they end. */
function withoutLiterals(text: string): string {
  return UNCLEAR.test(text) ? text : text.replaceAll(/'(?:[^']|'')*'/g, ' ')
}

/** Whether the quotes and parentheses of a text of SQL are closed, without a comment, so that what stands after it stays what it is. */
export function isClosedSql(text: string): boolean {
  return outermost(text) !== undefined
}

const CLAUSES =
  /[,;]|\b(where|from|returning|set|order|group|having|limit|offset|fetch|union|intersect|except|on|using|output|option|for|window)\b/i

/** Whether a text of SQL can only be one value: no further value or clause is in it, outside of parentheses. */
export function isOneSqlValue(text: string): boolean {
  const outer = outermost(text)
  return outer !== undefined && !CLAUSES.test(outer)
}

/** What stands outside of quotes and parentheses; undefined where that is unclear. */
function outermost(text: string): string | undefined {
  if (/\\|--|\/\*|#|\$\w*\$/.test(text)) return undefined
  const bare = text.replaceAll(/'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`/g, ' ? ')
  if (/['"`]/.test(bare)) return undefined
  let depth = 0
  let outer = ''
  for (const sign of bare) {
    if (sign === ')' && --depth < 0) return undefined
    if (depth === 0) outer += sign
    if (sign === '(') depth++
  }
  return depth === 0 ? outer : undefined
}

/** Tells whether a text of SQL selects all columns of a table. */
export function selectsAll(text: string): boolean {
  return /(?:\b(?:select|distinct|all|returning)|[,.])\s*\*|\btable\s/i.test(withoutLiterals(text))
}

const DEFINES = new Set([
  'create',
  'alter',
  'drop',
  'truncate',
  'comment',
  'grant',
  'revoke',
  'lock',
  'analyze',
  'vacuum',
])
const WRITES = new Set(['insert', 'update', 'merge', 'replace', 'copy'])

/** Splits statements where it is clear which semicolons end one. */
function statementsIn(bare: string): string[] {
  const isUnclear = UNCLEAR.test(bare) || (bare.match(/"[^"]*"|`[^`]*`/g) ?? []).some((name) => name.includes(';'))
  return isUnclear ? [bare] : bare.split(';')
}

/**
 * Finds the table with encrypted columns that a statement, or one of several, writes, or of which it names an encrypted column or selects all.
 * Statements that define tables are left alone, and so is what counts or deletes rows by other columns.
 */
export function findTableInStatement(
  text: string,
  tables: readonly (readonly [table: string, isSealed: (column: string) => boolean])[],
): string | undefined {
  for (const statement of statementsIn(withoutLiterals(text))) {
    const names = namesIn(statement).map(({ name }) => name)
    const isOne = !statement.trim().replace(/;$/, '').includes(';')
    if (isOne && DEFINES.has(names[0] ?? '')) continue
    const touches = names.some((name) => WRITES.has(name)) || selectsAll(statement)
    for (const [table, isSealed] of tables) {
      if (names.includes(table.toLowerCase()) && (touches || names.some(isSealed))) return table
    }
  }
  return undefined
}
