/** Source text: where a TypeScript expression ends, literals, imports in the source's style, and diffs. */
import { basename } from 'node:path'

/** Strings, comments and regular expressions. An unclosed one extends to the end, so that each character is read once. */
const WHOLE =
  /'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*(?:`|$)|\/\/[^\n]*|\/\*.*?(?:\*\/|$)|(?<=[(,=:[!&|?]\s?)\/(?:[^/\\\n[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\//gs
const TOKEN = new RegExp(`${WHOLE.source}|.`, 'gs')
const IMPORT_END = /^(?:import\b[^'"\n]*|\}[^'"\n]*from\s*)(?<quote>['"])[^'"\n]*['"](?<semicolon>;?)/gm

/** Puts blanks in place of comments, so that positions stay. */
export function blankComments(text: string): string {
  return text.replaceAll(WHOLE, (token) => (/^\/[/*]/.test(token) ? token.replaceAll(/[^\r\n]/g, ' ') : token))
}

/** The text of a literal without escapes; undefined for any other expression, even one that begins with a literal. */
export function readText(expression: string): string | undefined {
  const [, quote, text] = /^\s*(['"`])((?:(?!\1)[^\\\n])+)\1\s*$/.exec(expression) ?? []
  return quote === '`' && text?.includes('${') ? undefined : text
}

export function quoteText(text: string, quote = "'"): string {
  const escaped = JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"')
  return quote + escaped.replaceAll(quote, `\\${quote}`) + quote
}

export function slugOf(name: string): string {
  return name.replaceAll(/\W+/g, '_')
}

/** Splits the content of the bracket at a position, at its commas or other separators. `end` is after the closing bracket, or -1. */
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

/** Adds missing imports after the source's last one. Returns undefined if it has none. */
export function withImports(text: string, imports: readonly string[]): string | undefined {
  const last = [...text.matchAll(IMPORT_END)].at(-1)
  if (!last?.groups) return undefined
  const { quote = "'", semicolon = '' } = last.groups
  const end = last.index + last[0].length
  const code = blankComments(text)
  const isThere = (line: string) => {
    const [, name, module] = /^import \{ (\w+) \} from '(.*)'/.exec(line) ?? []
    return [...code.matchAll(/^import \{([^}]*)\} from ['"]([^'"\n]*)['"]/gm)].some(
      ([, list = '', from]) => from === module && list.split(',').some((one) => one.trim() === name),
    )
  }
  const lines = imports
    .filter((line) => !isThere(line))
    .map((line) => `\n${line.replace(/'(.*)'$/, (_, path) => quoteText(path, quote))}${semicolon}`)
  return text.slice(0, end) + lines.join('') + text.slice(end)
}

/** The source's name for an export of a module. */
export function localName(source: string, exported: string): string {
  return new RegExp(`\\bimport [^;'"]*\\b${exported} as (\\w+)`).exec(source)?.[1] ?? exported
}

/** Adds and drops names in a source's imports; undefined if none takes them. A name to add may begin with `type`. */
export function withNames(
  text: string,
  module: string,
  { add, drop }: { add: readonly string[]; drop: readonly string[] },
): string | undefined {
  const statements = [
    ...text.matchAll(new RegExp(`\\bimport (type )?(?:\\w+, )?\\{([^}]*)\\} from ['"]${module}['"]`, 'g')),
  ].map(([all, type, list = '']) => ({ all, type, list, names: list.split(',').flatMap((one) => one.trim() || []) }))
  const bare = (name: string) => /^(?:type )?(\w+)/.exec(name)?.[1] ?? ''
  const imported = statements.flatMap(({ names }) => names.map(bare))
  const lacking = [...new Set(add)].filter((one) => !imported.includes(bare(one)))
  // `import type` cannot take a value.
  const into = statements.find(({ type }) => !type || lacking.every((one) => one.startsWith('type ')))
  if (!into && (lacking.length > 0 || statements.length === 0)) return undefined
  const rest = blankComments(statements.reduce((left, { all }) => left.replace(all, ''), text))
  const isUsed = (name: string) => !drop.includes(name) || new RegExp(`\\b${name}\\b(?!>)`).test(rest) // not as `$type<boolean>`
  return statements.reduce((changed, statement) => {
    const { all, type, list, names: there } = statement
    const kept = there.filter((one) => isUsed(one.split(' ').at(-1) ?? ''))
    const names = [...kept, ...(statement === into ? lacking.map((one) => (type ? bare(one) : one)) : [])]
    const order = (one: string, other: string) => bare(one).localeCompare(bare(other))
    if (there.every((one, at) => at === 0 || order(there[at - 1] ?? '', one) <= 0)) names.sort(order)
    if (names.join() === there.join()) return changed
    const [blanks = ' '] = /^\s*/.exec(list) ?? []
    const end = /,?\s*$/.exec(list)?.[0] ?? ' '
    const put = `${blanks}${names.join(`,${blanks || ' '}`)}${end}`
    return changed.replace(all, () => all.replace(`{${list}}`, () => `{${put}}`))
  }, text)
}

const CONTEXT = 3

type Line = { sign: ' ' | '+' | '-'; text: string }

/** Shows a change as a unified diff. It reads ahead to find differences, since most changes add lines. */
export function unifiedDiff(path: string, before: string | undefined, after: string): string[] {
  const lines = compare(linesOf(before ?? ''), linesOf(after))
  const context = basename(path).startsWith('.env') ? 0 : CONTEXT // other lines may be secrets
  const isShown = lines.map((_, at) =>
    lines.slice(Math.max(0, at - context), at + context + 1).some(({ sign }) => sign !== ' '),
  )
  const shown = [before === undefined ? '--- /dev/null' : `--- a/${path}`, `+++ b/${path}`]
  let [old, now] = [0, 0]
  for (const [at, { sign, text }] of lines.entries()) {
    if (isShown[at] && !isShown[at - 1]) {
      const end = isShown.indexOf(false, at)
      const hunk = lines.slice(at, end === -1 ? undefined : end)
      const range = (from: number, without: string) => {
        const count = hunk.filter((line) => line.sign !== without).length
        return `${count === 0 ? from : from + 1},${count}`
      }
      shown.push(`@@ -${range(old, '+')} +${range(now, '-')} @@`)
    }
    if (isShown[at]) shown.push(sign + text)
    if (sign !== '+') old++
    if (sign !== '-') now++
  }
  return shown
}

function linesOf(text: string): string[] {
  return text === '' ? [] : text.replace(/\n$/, '').split('\n')
}

function compare(before: readonly string[], after: readonly string[]): Line[] {
  const as = (sign: Line['sign'], texts: readonly string[]) => texts.map((text): Line => ({ sign, text }))
  let end = 0
  while (end < Math.min(before.length, after.length) && before.at(-1 - end) === after.at(-1 - end)) end++
  const changed = after.slice(0, after.length - end)
  const lines: Line[] = []
  let now = 0
  for (const text of before.slice(0, before.length - end)) {
    const found = changed.indexOf(text, now)
    if (found === -1) lines.push({ sign: '-', text })
    else {
      lines.push(...as('+', changed.slice(now, found)), { sign: ' ', text })
      now = found + 1
    }
  }
  return [...lines, ...as('+', changed.slice(now)), ...as(' ', before.slice(before.length - end))]
}
