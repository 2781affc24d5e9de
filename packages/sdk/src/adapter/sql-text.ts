/**
 * Finds what SQL text names. Adapters cannot rewrite such text, so they refuse it if it names something encrypted.
 * The text is read as words, without a grammar: anything unclear counts as named.
 */

/** A name in a text of SQL, in lower case and without quotes: databases fold case, each in its own way. */
export interface Mention {
  name: string
  /** The name before its dot, such as that of a table. */
  qualifier: string | undefined
  /** Whether a dot follows it. */
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

/** Removes literals, unless escapes, comments or dollar quotes make it unclear where they end. */
function withoutLiterals(text: string): string {
  return UNCLEAR.test(text) ? text : text.replaceAll(/'(?:[^']|'')*'/g, ' ')
}

/**
 * Tells whether an SQL text closes its quotes and parentheses and has no comment, so that it cannot change what
 * follows it.
 */
export function isClosedSql(text: string): boolean {
  return outermost(text) !== undefined
}

const CLAUSES =
  /[,;]|\b(where|from|returning|set|order|group|having|limit|offset|fetch|union|intersect|except|on|using|output|option|for|window)\b/i

/** Tells whether an SQL text can only be one value: outside of parentheses, it has no second value and no clause. */
export function isOneSqlValue(text: string): boolean {
  const outer = outermost(text)
  return outer !== undefined && !CLAUSES.test(outer)
}

/** Returns what is outside of quotes and parentheses, or undefined if that is unclear. */
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
const KINDS = new Set('table index view rule function procedure trigger event policy type sequence'.split(' '))
/** What is defined with statements or a query inside. */
const WITH_BODY = new Set(['view', 'rule', 'function', 'procedure', 'event'])

/** Tells whether a statement only defines something, with no other statement inside, such as the action of a rule. */
function onlyDefines(names: readonly string[]): boolean {
  const [first = ''] = names
  if (first !== 'create' && first !== 'alter') return DEFINES.has(first)
  const kind = names.find((name) => KINDS.has(name)) ?? ''
  if (WITH_BODY.has(kind) || (kind === 'trigger' && !names.includes('execute'))) return false
  return !names.some((name, at) => name === 'as' && names[at + 1] !== 'identity') // a table that is made by a query
}

/** Tells whether a literal may hold the statements inside of one. */
function hasQuotedBody(text: string): boolean {
  return /(^|;)\s*(do\b|create\s+(or\s+replace\s+)?(function|procedure)\b)/i.test(text)
}

/** Splits statements where it is clear which semicolons end one. */
function statementsIn(bare: string): string[] {
  const isUnclear = UNCLEAR.test(bare) || (bare.match(/"[^"]*"|`[^`]*`/g) ?? []).some((name) => name.includes(';'))
  return isUnclear ? [bare] : bare.split(';')
}

/**
 * Finds a table with encrypted columns that a statement, or one of several, writes, selects all columns of, or names
 * an encrypted column of. Ignores a statement that only defines something, unless another is inside, and one that
 * counts or deletes rows by other columns.
 */
export function findTableInStatement(
  text: string,
  tables: readonly (readonly [table: string, isSealed: (column: string) => boolean])[],
): string | undefined {
  for (const statement of hasQuotedBody(text) ? [text] : statementsIn(withoutLiterals(text))) {
    const names = namesIn(statement).map(({ name }) => name)
    const isOne = !statement.trim().replace(/;$/, '').includes(';')
    if (isOne && onlyDefines(names)) continue
    const touches = names.some((name) => WRITES.has(name)) || selectsAll(statement)
    for (const [table, isSealed] of tables) {
      if (names.includes(table.toLowerCase()) && (touches || names.some(isSealed))) return table
    }
  }
  return undefined
}
