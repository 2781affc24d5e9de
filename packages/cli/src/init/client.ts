/** Finds where the application makes the ORM's client, and adds the line there that encrypts. */
import { dirname, extname, join, parse, relative } from 'node:path'
import type { Application, FoundTable } from './application.js'
import { readBrackets, withImports } from './source-text.js'

/** A statement that makes the client, and nothing else with it. */
const CLIENTS = {
  prisma: /^[^\S\n]*(?:export )?const \w+ = (?=new PrismaClient\()/gm,
  drizzle: /^[^\S\n]*(?:export )?const \w+ = (?=drizzle\()/gm,
} as const
/** Where a client is made, possibly or certainly. */
const MENTIONS = { prisma: /\b(?:new|extends) PrismaClient\b/, drizzle: /\bdrizzle\(/ } as const
const STATEMENT_END = /^[^\S\n]*(?:;|\r?\n\s*(?![\s.?])|$)/

interface Place {
  path: string
  begin: number
  end: number
}

/** Finds the only place where the client is made; undefined if that is not certain. */
function findPlace({ files }: Application, orm: FoundTable['orm']): Place | undefined {
  const places = [...files].flatMap(([path, text]) =>
    [...text.matchAll(CLIENTS[orm])].map((match) => {
      const begin = match.index + match[0].length
      return { path, text, begin, end: readBrackets(text, text.indexOf('(', begin)).end }
    }),
  )
  const [only, other] = places
  if (!only || other || only.end <= 0 || !STATEMENT_END.test(only.text.slice(only.end))) return undefined
  return /(?<![@-])\beaas\b(?!-)/.test(only.text) ? undefined : only // the name of our client
}

/** The path of the model's file: that of an existing one, or one next to the client. */
export function modelPath({ sources }: Application, { orm }: FoundTable, name: string): string {
  const there = [...sources.keys()].find((path) => parse(path).name === name)
  const [beside = 'db.ts'] = [...sources].find(([, text]) => MENTIONS[orm].test(text)) ?? []
  return there ?? join(dirname(beside), `${name}${extname(beside).replace('x', '')}`)
}

/** Finds where `encrypted` gets the models of tables that were set up before: the position after the last model. */
function findModels({ files }: Application, orm: FoundTable['orm']): (Place & { separator: string }) | undefined {
  const places = [...files]
    .filter(([, text]) => text.includes(`@eaas/${orm}`))
    .flatMap(([path, text]) => [...text.matchAll(/\bencrypted(?=\()/g)].map(({ index }) => ({ path, text, index })))
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

/** Gives the model to the client, or says which lines to add. */
export function wrapClient(app: Application, table: FoundTable, model: { name: string; path: string }): void {
  const { orm, name } = table
  const isUsed = new RegExp(`(?<!function )\\b${model.name}\\(`)
  if ([...app.sources.values()].some((source) => isUsed.test(source))) return
  const models = findModels(app, orm)
  const place = models ?? findPlace(app, orm)
  const from = place?.path ?? model.path
  const text = app.files.get(from) ?? ''
  const all = new RegExp(
    `import \\* as (\\w+) from ['"]${specifier(app, from, table.path).replace(/(\.\w+)?$/, '(?:\\.\\w+)?')}['"]`,
  )
  const schema = all.exec(text)?.[1]
  const isKnown =
    orm === 'prisma' || schema || table.path === from || new RegExp(`\\{[^}]*\\b${name}\\b[^}]*\\} from`).test(text)
  const imports = [
    ...(models ? [] : [`import { createClient } from '@eaas/sdk'`, `import { encrypted } from '@eaas/${orm}'`]),
    `import ${model.name} from '${specifier(app, from, model.path)}'`,
    ...(isKnown ? [] : [`import { ${name} } from '${specifier(app, from, table.path)}'`]),
  ]
  const client = models ? (/\bconst (\w+) = createClient\(/.exec(text)?.[1] ?? 'createClient()') : 'eaas'
  const entry =
    orm === 'prisma'
      ? `${name}: ${model.name}(${client})`
      : `[${schema ? `${schema}.` : ''}${name}, ${model.name}(${client})]`
  const wrap = (made: string) =>
    orm === 'prisma' ? `${made}.$extends(encrypted({ ${entry} }))` : `encrypted(${made}, [${entry}])`
  const after =
    place && withImports(models ? splice(text, models, models.separator + entry) : wrapAt(text, place, wrap), imports)
  if (after === undefined)
    app.byHand.push(
      'where the client is made:',
      ...imports,
      'const eaas = createClient()',
      wrap(orm === 'prisma' ? 'new PrismaClient(…)' : 'drizzle(…)'),
    )
  else app.files.set(from, after)
}

function splice(text: string, { begin, end }: Place, put: string): string {
  return text.slice(0, begin) + put + text.slice(end)
}

/** Wraps the expression that makes the ORM's client, and adds a line before it that makes ours. */
function wrapAt(text: string, place: Place, wrap: (made: string) => string): string {
  const wrapped = splice(text, place, wrap(text.slice(place.begin, place.end)))
  const line = text.lastIndexOf('\n', place.begin) + 1
  const indent = /^[^\S\n]*/.exec(text.slice(line))?.[0] ?? ''
  const semicolon = /^[^\S\n]*;/.test(text.slice(place.end)) ? ';' : ''
  return splice(wrapped, { ...place, begin: line, end: line }, `${indent}const eaas = createClient()${semicolon}\n`)
}

/** How a source imports another: with the ending that its other imports have, or those of other sources. */
function specifier({ sources, isModule }: Application, from: string, to: string): string {
  const path = relative(dirname(from), to).replaceAll('\\', '/')
  const texts = [sources.get(from) ?? '', ...sources.values()]
  const own = texts.map((text) => /from ['"]\.\.?\/[^'"]*?(\.[cm]?[jt]sx?)?['"]/.exec(text)).find((found) => found)
  const compiled = extname(path).replace('t', 'j')
  const ending = own ? own[1] && (own[1].includes('t') ? extname(path) : compiled) : isModule && compiled
  return `${path.startsWith('.') ? '' : './'}${path.slice(0, -extname(path).length)}${ending || ''}`
}
