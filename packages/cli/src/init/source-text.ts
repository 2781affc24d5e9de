/** Finds where an expression of TypeScript ends, reads and writes texts, and changes imports in the style of a source. */

/** Strings, comments and regular expressions. What is not closed goes on to the end, so that each character is read once. */
const WHOLE =
  /'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*(?:`|$)|\/\/[^\n]*|\/\*.*?(?:\*\/|$)|(?<=[(,=:[!&|?]\s?)\/(?:[^/\\\n[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\//gs
const TOKEN = new RegExp(`${WHOLE.source}|.`, 'gs')
const IMPORT_END = /^(?:import\b[^'"\n]*|\}[^'"\n]*from\s*)(?<quote>['"])[^'"\n]*['"](?<semicolon>;?)/gm

/** Puts blanks in the place of comments, so that each position stays. */
export function blankComments(text: string): string {
  return text.replaceAll(WHOLE, (token) => (/^\/[/*]/.test(token) ? token.replaceAll(/[^\r\n]/g, ' ') : token))
}

/** The text of a literal without escapes; undefined for any other expression, also for one that only begins with it. */
export function readText(expression: string): string | undefined {
  const [, quote, text] = /^\s*(['"`])((?:(?!\1)[^\\\n])+)\1\s*$/.exec(expression) ?? []
  return quote === '`' && text?.includes('${') ? undefined : text
}

/** The literal of a text. */
export function quoteText(text: string, quote = "'"): string {
  const escaped = JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"')
  return quote + escaped.replaceAll(quote, `\\${quote}`) + quote
}

/** What a name from a schema is in the name of a file or of a function. */
export function slugOf(name: string): string {
  return name.replaceAll(/\W+/g, '_')
}

/** Splits the content of the bracket at a position at its commas, or other separators; `end` is after the closing bracket, or -1. */
export function readBrackets(
  text: string,
  at: number,
  separators = ',',
): { end: number; parts: { begin: number; text: string }[] } {
  const parts: { begin: number; text: string }[] = []
  let [depth, begin] = [0, at + 1]
  const split = (end: number) => {
    if (text.slice(begin, end).trim() !== '') parts.push({ begin, text: text.slice(begin, end) })
    begin = end + 1
  }
  for (const { 0: token, index } of text.slice(at).matchAll(TOKEN)) {
    if ('([{'.includes(token)) depth++
    if (')]}'.includes(token)) depth--
    if (depth === 0 || (separators.includes(token) && depth === 1)) split(at + index)
    if (depth === 0) return { end: at + index + 1, parts }
  }
  return { end: -1, parts: [] }
}

/** Adds imports after the last one. Returns undefined if the source has none. */
export function withImports(text: string, imports: readonly string[]): string | undefined {
  const last = [...text.matchAll(IMPORT_END)].at(-1)
  if (!last?.groups) return undefined
  const { quote = "'", semicolon = '' } = last.groups
  const end = last.index + last[0].length
  const lines = imports.map((line) => `\n${line.replace(/'(.*)'$/, (_, path) => quoteText(path, quote))}${semicolon}`)
  return text.slice(0, end) + lines.join('') + text.slice(end)
}

/**
 * Adds names to those that a source imports of a module, and takes away those that it no longer uses. Returns undefined
 * if it imports no names of it.
 */
export function withNames(
  text: string,
  module: string,
  { add, drop }: { add: readonly string[]; drop: readonly string[] },
): string | undefined {
  const [statement, list = ''] = new RegExp(`\\bimport (?:type )?\\{([^}]*)\\} from ['"]${module}['"]`).exec(text) ?? []
  if (statement === undefined) return undefined
  const rest = blankComments(text.replace(statement, ''))
  const isUsed = (name: string) => !drop.includes(name) || new RegExp(`\\b${name}\\b(?!>)`).test(rest) // not as `$type<boolean>`
  const there = list.split(',').flatMap((one) => one.trim() || [])
  const kept = there.filter((one) => isUsed(one.split(' ').at(-1) ?? ''))
  const names = [...kept, ...new Set(add.filter((one) => !kept.includes(one)))]
  const isSorted = there.every((one, at) => at === 0 || (there[at - 1] ?? '').localeCompare(one) <= 0)
  if (isSorted) names.sort((one, other) => one.localeCompare(other))
  if (names.join() === there.join()) return text
  const [blanks = ' '] = /^\s*/.exec(list) ?? []
  const end = /,?\s*$/.exec(list)?.[0] ?? ' '
  const changed = `${blanks}${names.join(`,${blanks || ' '}`)}${end}`
  return text.replace(statement, () => statement.replace(list, () => changed))
}
