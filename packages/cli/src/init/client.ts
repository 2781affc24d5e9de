/** Finds where the application creates the ORM's client, and adds the line that encrypts. */
import { dirname, extname, join, parse } from 'node:path'
import type { Application, FoundTable } from './application.js'
import { specifier } from './model-file.js'
import { blankComments, localName, quoteText, readBrackets, withImports } from './source-text.js'

/** A statement that creates the client and does nothing else. */
const CLIENTS = {
  prisma: /^[^\S\n]*(?:export )?const \w+ = (?=new PrismaClient\()/gm,
  drizzle: /^[^\S\n]*(?:export )?const \w+ = (?=drizzle\()/gm,
  kysely: /^[^\S\n]*(?:export )?const \w+ = (?=new Kysely<\w+>\(\{)/gm,
  typeorm: /^[^\S\n]*(?:export )?const \w+ = (?=new DataSource\()/gm,
} as const
const MENTIONS = {
  prisma: /\b(?:new|extends) PrismaClient\b/,
  drizzle: /\bdrizzle\(/,
  kysely: /\bnew Kysely\b/,
  typeorm: /\bnew DataSource\b/,
} as const
/** The example shown to the user if the client is not found. */
const EXAMPLES = {
  prisma: 'new PrismaClient(…)',
  drizzle: 'drizzle(…)',
  kysely: 'new PostgresDialect(…)',
  typeorm: 'new DataSource(…)',
} as const
const STATEMENT_END = /^[^\S\n]*(?:;|\r?\n\s*(?![\s.?])|$)/

type Place = { path: string; begin: number; end: number }

interface Client extends Place {
  statement: { begin: number; end: number }
  prefix: string
}

/** Finds the only place where the client is created; undefined if that is not certain. */
function findClient({ files }: Application, orm: FoundTable['orm']): Client | undefined {
  const places = [...files].flatMap(([path, text]) =>
    [...blankComments(text).matchAll(CLIENTS[orm])].map((match) => {
      const begin = match.index + match[0].length
      return { path, text, begin, end: readBrackets(text, text.indexOf('(', begin)).end }
    }),
  )
  const [only, other] = places
  if (!only || other || only.end <= 0 || !STATEMENT_END.test(only.text.slice(only.end))) return undefined
  if (/(?<![@-])\beaas\b(?!-)/.test(only.text)) return undefined // the name of our client
  return orm === 'kysely' ? findDialect(only) : { ...only, statement: only, prefix: '' }
}

/** Finds the dialect in \`new Kysely<Database>({ dialect })\`. */
function findDialect(made: Place & { text: string }): Client | undefined {
  for (const { begin, text } of readBrackets(made.text, made.text.indexOf('{', made.begin)).parts) {
    const [head, colon] = /^\s*dialect\s*(?:(:)\s*|$)/.exec(text) ?? []
    if (head === undefined) continue
    const from = begin + (colon ? head.length : text.search(/\S/))
    const prefix = colon ? '' : 'dialect: '
    return { ...made, begin: from, end: begin + text.trimEnd().length, statement: made, prefix }
  }
  return undefined
}

/** The path of the model's file: that of an existing one, or one next to the client. */
export function modelPath({ sources }: Application, { orm }: FoundTable, name: string): string {
  const there = [...sources.keys()].find((path) => parse(path).name === name)
  const [beside = 'db.ts'] = [...sources].find(([, text]) => MENTIONS[orm].test(text)) ?? []
  return there ?? join(dirname(beside), `${name}${extname(beside).replace('x', '')}`)
}

/** Finds the models of earlier tables in the call of `encrypted`: the position after the last one. */
function findModels({ files }: Application, orm: FoundTable['orm']): (Place & { separator: string }) | undefined {
  const places = [...files]
    .filter(([, text]) => text.includes(`@eaas/${orm}`))
    .flatMap(([path, text]) =>
      [...text.matchAll(/\bencrypted(?:<\w+>)?(?=\()/g)].map(({ index }) => ({ path, text, index })),
    )
  const [only, other] = places
  if (!only || other) return undefined
  const { path, text, index } = only
  const list = readBrackets(text, text.indexOf('(', index)).parts.at(-1)
  const isList = /^\s*[[{]/.test(list?.text ?? '')
  const last = isList && list ? readBrackets(text, list.begin + list.text.search(/\S/)).parts.at(-1) : undefined
  if (!last) return undefined
  const end = last.begin + last.text.trimEnd().length
  return { path, begin: end, end, separator: `,${/^\s*\n\s*/.exec(last.text)?.[0] ?? ' '}` }
}

const withoutExtension = (path: string) => path.replace(/\.\w+$/, '')

/** Adds the model to the client, or says which lines to add. */
export function wrapClient(app: Application, table: FoundTable, model: { name: string; path: string }): void {
  const { orm, name } = table
  const isUsed = new RegExp(`(?<!function )\\b${model.name}\\(`)
  if ([...app.sources.values()].some((source) => isUsed.test(source))) return
  const models = findModels(app, orm)
  const made = models ? undefined : findClient(app, orm)
  const place = models ?? made
  const from = place?.path ?? model.path
  const text = app.files.get(from) ?? ''
  const module = withoutExtension(specifier(app, from, table.path))
  const all = [...text.matchAll(/import \* as (\w+) from ['"]([^'"]+)['"]/g)]
  const schema = all.find(([, , path = '']) => [path, withoutExtension(path)].includes(module))?.[1]
  const isNamed = orm === 'prisma' || orm === 'kysely'
  const [there] = new RegExp(`\\bimport (?:type )?(?:\\w+, )?\\{[^}]*\\b${name}\\b[^}]*\\} from`).exec(text) ?? []
  const isKnown = isNamed || schema || table.path === from || there
  const imports = [
    ...(models ? [] : [`import { createClient } from '@eaas/sdk'`, `import { encrypted } from '@eaas/${orm}'`]),
    `import ${model.name} from '${specifier(app, from, model.path)}'`,
    ...(isKnown ? [] : [`import { ${name} } from '${specifier(app, from, table.path)}'`]),
  ]
  const client = models ? (/\bconst (\w+) = createClient\(/.exec(text)?.[1] ?? 'createClient()') : 'eaas'
  const given = `${model.name}(${client})`
  const entry = isNamed
    ? `${/^\w+$/.test(name) ? name : quoteText(name)}: ${given}`
    : `[${schema ? `${schema}.${name}` : localName(there ?? '', name)}, ${given}]`
  const wrap = (expression: string) => {
    if (orm === 'prisma') return `${expression}.$extends(encrypted({ ${entry} }))`
    return orm === 'kysely'
      ? `encrypted<${/\bnew Kysely<(\w+)>/.exec(text)?.[1] ?? 'Database'}>(${expression}, { ${entry} })`
      : `encrypted(${expression}, [${entry}])`
  }
  const changed = models ? splice(text, models, models.separator + entry) : made && wrapAt(text, made, wrap)
  // A second import of a name that is already imported as a type does not compile.
  const isType = !isNamed && new RegExp(`\\btype (\\{[^}]*\\b)?${name}\\b`).test(there ?? '')
  const after = changed && !isType ? withImports(changed, imports) : undefined
  if (after === undefined)
    app.byHand.push('where the client is made:', ...imports, 'const eaas = createClient()', wrap(EXAMPLES[orm]))
  else app.files.set(from, after)
}

function splice(text: string, { begin, end }: Place, put: string): string {
  return text.slice(0, begin) + put + text.slice(end)
}

/** Wraps the expression that creates the ORM's client, and adds a line before its statement that creates ours. */
function wrapAt(text: string, client: Client, wrap: (expression: string) => string): string {
  const { begin, end, statement, prefix } = client
  const wrapped = splice(text, client, prefix + wrap(text.slice(begin, end)))
  const line = text.lastIndexOf('\n', statement.begin) + 1
  const indent = /^[^\S\n]*/.exec(text.slice(line))?.[0] ?? ''
  const semicolon = /^[^\S\n]*;/.test(text.slice(statement.end)) ? ';' : ''
  return splice(wrapped, { ...client, begin: line, end: line }, `${indent}const eaas = createClient()${semicolon}\n`)
}
