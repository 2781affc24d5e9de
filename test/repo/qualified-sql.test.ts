// The server's SQL says that the functions it calls are PostgreSQL's. Whoever owns the database can make functions and types of the same
// names elsewhere, and PostgreSQL calls those if they fit the arguments better; a type takes the place of a function with one argument.
import { describe, expect, it } from 'vitest'
import { USED_OPERATORS } from '../../packages/server/src/guard/store/schema.js'
import { parseSource, type SourceFile, sourcesBelow, taggedTemplates } from '../support/sources/source-files.js'

/** What is written as a call and is grammar. */
const GRAMMAR = [
  'coalesce',
  'least',
  'greatest',
  'nullif',
  'extract',
  'any',
  'all',
  'array',
  'exists',
  'in',
  'operator',
]
/** A name without a schema before a parenthesis: lists of columns and values stand behind a space. */
const CALL = /(?<![\w."])([a-z]\w*)\(/g

/** The calls without a schema in a file's SQL. */
function unqualified(file: SourceFile): string[] {
  const queries = ['sql', 'transaction'].flatMap((tag) => taggedTemplates(file, tag))
  return queries.flatMap((query) => {
    const text = withoutValues(query)
    return [...text.matchAll(CALL)]
      .filter(({ 1: name = '', index }) => !GRAMMAR.includes(name) && !isUnnestOfSeveral(name, text.slice(index)))
      .map(([call]) => `${file.path}: ${call}`)
  })
}

/** What PostgreSQL calls in the place of a word. */
const WORDS: readonly [RegExp, string][] = [
  [/\b(?:in|any|all|nullif|case|using|distinct)\b/, '='],
  [/\bbetween\b/, '>='],
  [/\bbetween\b/, '<='],
  [/\blike\b/, '~~'],
  [/\bnot like\b/, '!~~'],
]

/** The operators in a file's SQL. */
function operators(file: SourceFile): string[] {
  const queries = ['sql', 'transaction'].flatMap((tag) => taggedTemplates(file, tag))
  // Without the types of the rows.
  const texts = queries.map((query) => withoutValues(query.slice(query.indexOf('`'))))
  return texts.flatMap((text) => [
    ...[...text.matchAll(/[-+*/<>=~!@#%^&|?]+/g)].map(([operator]) => operator),
    ...WORDS.filter(([word]) => word.test(text)).map(([, operator]) => operator),
  ])
}

/** A query without its comments, texts and values. */
function withoutValues(query: string): string {
  let depth = 0
  const parts = query.split(/(\$\{|[{}])/).map((part) => {
    if (part === '${' || part === '{') depth += 1
    else if (part === '}') depth -= 1
    else return depth === 0 ? part : ''
    return ''
  })
  return parts.join('').replace(/--.*$|'[^']*'/gm, '')
}

/** PostgreSQL reads an `unnest` of several arrays as its own, and only if it has no schema. */
function isUnnestOfSeveral(name: string, text: string): boolean {
  if (name !== 'unnest') return false
  let depth = 0
  for (const character of text) {
    if (character === ',' && depth === 1) return true
    if ('(['.includes(character)) depth += 1
    if (')]'.includes(character)) depth -= 1
    if (character === ')' && depth === 0) return false
  }
  return false
}

/** The folders of SQL. */
const SQL = ['core/store', 'guard/store', 'operate/store', 'embedded'].map((folder) => `packages/server/src/${folder}`)

describe("the server's SQL", () => {
  it('calls no function without its schema', () => {
    const files = SQL.flatMap(sourcesBelow)
    expect(files.flatMap((file) => taggedTemplates(file, 'sql')).length).toBeGreaterThan(100)
    expect(files.flatMap(unqualified)).toEqual([])
  })

  it("uses no operator but those that somebody else's are compared with", () => {
    const used = new Set(SQL.flatMap(sourcesBelow).flatMap(operators))
    expect([...used].sort()).toEqual([...USED_OPERATORS].sort())
  })

  it.each([
    ["sql`select to_regclass('a')`", ['to_regclass(']],
    [`sql\`select count(*) from unnest(\${[f(a, b)]}::text[])\``, ['count(', 'unnest(']],
    ['transaction`select a -- b(\n, max(a) from t`', ['max(']],
    [
      `sql\`select pg_catalog.to_regclass('f(a)'), coalesce(\${{ a: f(1) }}, 1) from unnest(\${a}::text[], \${b}) as s (a, b)\``,
      [],
    ],
  ])('is read: %s', (text, found) => {
    expect(unqualified(parseSource('a.ts', text))).toEqual(found.map((call) => `a.ts: ${call}`))
  })
})
