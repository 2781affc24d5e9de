/** Splits SQL text into tokens as each database would: they disagree about where a literal or a comment ends. */
import { refuseCall } from './refusals.js'

export interface Token {
  kind: 'word' | 'name' | 'literal' | 'sign' | 'comment'
  /** A word or quoted name in lower case, since databases fold case; the content of a literal; or a sign. */
  text: string
  /** Whether a literal may write letters as numbers. */
  isEscaped?: boolean
}

export function isName(token: Token | undefined): boolean {
  return token?.kind === 'word' || token?.kind === 'name'
}

export function isSign(token: Token | undefined, text: string): boolean {
  return token?.kind === 'sign' && token.text === text
}

type Kind = Token['kind'] | 'space' | 'unclosed' | 'unclear'

interface Dialect {
  rules: readonly (readonly [Kind, RegExp])[]
  /** Whether a block comment may contain others. */
  nestsComments: boolean
}

const SPACE = ['space', /\s+/y] as const
const LINE = ['comment', /--[^\r\n]*/y] as const
const TEXT = ['literal', /[bnx]?'[^']*(?:''[^']*)*'/iy] as const
const QUOTED = ['name', /"[^"]*(?:""[^"]*)*"/y] as const
const TICKED = ['name', /`[^`]*(?:``[^`]*)*`/y] as const
const WORD = ['word', /[\p{L}\p{N}_?][\p{L}\p{N}_$]*/uy] as const
const OPEN = ['unclosed', /['"]/y] as const

const DIALECTS: readonly Dialect[] = [
  {
    // PostgreSQL
    rules: [
      SPACE,
      LINE,
      ['unclear', /u&"/iy], // a name that may write letters as numbers
      // A literal may continue on the next line, with the same escapes.
      ['literal', /e'[^'\\]*(?:(?:''|\\[\s\S])[^'\\]*)*'(?:(?:\s|--[^\r\n]*)*'[^'\\]*(?:(?:''|\\[\s\S])[^'\\]*)*')*/iy],
      ['literal', /u&'[^']*(?:''[^']*)*'/iy],
      TEXT,
      ['literal', /(\$(?:[\p{L}_][\p{L}\p{N}_]*)?\$)[\s\S]*?\1/uy],
      ['unclosed', /\$(?:[\p{L}_][\p{L}\p{N}_]*)?\$/uy],
      QUOTED,
      WORD,
      OPEN,
    ],
    nestsComments: true,
  },
  {
    // MySQL
    rules: [
      SPACE,
      ['comment', /(?:--(?=\s|$)|#)[^\r\n]*/y],
      ['space', /\/\*M?!\d*|\*\//y], // around SQL that MySQL executes
      ['literal', /[bnx]?'[^'\\]*(?:(?:''|\\[\s\S])[^'\\]*)*'/iy],
      ['name', /"[^"\\]*(?:(?:""|\\[\s\S])[^"\\]*)*"/y],
      TICKED,
      WORD,
      ['unclosed', /['"`]/y],
    ],
    nestsComments: false,
  },
  {
    // SQLite
    rules: [SPACE, LINE, TEXT, QUOTED, TICKED, ['name', /\[[^\]]*\]/y], WORD, OPEN, ['unclosed', /[`[]/y]],
    nestsComments: false,
  },
  {
    // SQL Server
    rules: [SPACE, LINE, TEXT, QUOTED, ['name', /\[[^\]]*(?:\]\][^\]]*)*\]/y], WORD, OPEN, ['unclosed', /\[/y]],
    nestsComments: true,
  },
]

/** In text without these, all databases find the same tokens. */
const DIFFER = /[\\#[`]|\$(?!\d)|--|\/\*|u&/i
const ESCAPED = /^(?:e|u&)'[\s\S]*\\[\da-fxu+]/i

/** Reads a text as each database would, except those for which a quote does not end: they would not execute it. */
export function readings(text: string): Token[][] {
  const all = DIFFER.test(text) ? DIALECTS : DIALECTS.slice(0, 1)
  return all.flatMap((dialect) => {
    const tokens = read(text, dialect)
    return tokens ? [tokens] : []
  })
}

/** The same for text that must be clear. @throws InvalidInputError if no database finds the end of a quote */
export function clearReadings(text: string): Token[][] {
  const found = readings(text)
  if (found.length > 0) return found
  return refuseCall('SQL as text in which a quote does not end', 'Write values as parameters, and names in quotes.')
}

function read(text: string, { rules, nestsComments }: Dialect): Token[] | undefined {
  const tokens: Token[] = []
  for (let at = 0; at < text.length; ) {
    const [kind, length] = next(text, at, rules, nestsComments)
    const part = text.slice(at, at + length)
    at += length
    if (kind === 'unclosed') return undefined
    if (kind === 'unclear') refuseCall('SQL as text with U&"…"', 'Write the name in plain quotes.')
    if (kind === 'space') continue
    const isEscaped = kind === 'literal' && ESCAPED.test(part)
    tokens.push({ kind, text: textOf(kind, part), ...(isEscaped ? { isEscaped } : {}) })
  }
  return tokens
}

function next(text: string, at: number, rules: Dialect['rules'], nestsComments: boolean): [kind: Kind, length: number] {
  for (const [kind, rule] of rules) {
    rule.lastIndex = at
    const found = rule.exec(text)
    if (found) return [kind, found[0].length]
  }
  return text.startsWith('/*', at) ? ['comment', endOfComment(text, at, nestsComments) - at] : ['sign', 1]
}

function endOfComment(text: string, at: number, nestsComments: boolean): number {
  const marks = nestsComments ? /\/\*|\*\//g : /\*\//g
  marks.lastIndex = at + 2
  for (let depth = 1; depth > 0; ) {
    const mark = marks.exec(text)
    if (!mark) return text.length
    depth += mark[0] === '/*' ? 1 : -1
  }
  return marks.lastIndex
}

function textOf(kind: Token['kind'], part: string): string {
  if (kind === 'word') return part.toLowerCase()
  if (kind === 'name') {
    const end = part.at(-1) ?? ''
    return part
      .slice(1, -1)
      .replaceAll(end + end, end)
      .toLowerCase()
  }
  return kind === 'literal' ? bodyOf(part) : part
}

function bodyOf(part: string): string {
  const [dollars] = /^\$[^$]*\$/.exec(part) ?? []
  if (dollars !== undefined) return part.slice(dollars.length, -dollars.length)
  return part.slice(part.indexOf("'") + 1, -1).replaceAll("''", "'")
}

export function rawWords(text: string): Token[] {
  const words = text.toLowerCase().match(new RegExp(WORD[1].source, 'gu')) ?? []
  return words.map((word) => ({ kind: 'word', text: word }))
}
