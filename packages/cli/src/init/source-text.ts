/** Finds where an expression of TypeScript ends, and adds imports in the style of a source. */

/** Strings, comments, and single characters. */
const TOKEN = /'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`|\/\/[^\n]*|\/\*.*?\*\/|./gs
const IMPORT_END = /^(?:import\b[^'"\n]*|\}[^'"\n]*from\s*)(?<quote>['"])[^'"\n]*['"](?<semicolon>;?)/gm

/** Splits the content of the bracket at a position at its commas; `end` is after the closing bracket, or -1. */
export function readBrackets(text: string, at: number): { end: number; parts: { begin: number; text: string }[] } {
  const parts: { begin: number; text: string }[] = []
  let [depth, begin] = [0, at + 1]
  const split = (end: number) => {
    if (text.slice(begin, end).trim() !== '') parts.push({ begin, text: text.slice(begin, end) })
    begin = end + 1
  }
  for (const { 0: token, index } of text.slice(at).matchAll(TOKEN)) {
    if ('([{'.includes(token)) depth++
    if (')]}'.includes(token)) depth--
    if (depth === 0 || (token === ',' && depth === 1)) split(at + index)
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
  const lines = imports.map((line) => `\n${line.replaceAll("'", quote)}${semicolon}`)
  return text.slice(0, end) + lines.join('') + text.slice(end)
}
