/** The place where the application makes the ORM's client, and the line there that encrypts. */
import { dirname, extname, join, parse, relative } from 'node:path'
import type { Application, FoundTable } from './application.js'
import { readBrackets, withImports } from './source-text.js'

/** A statement that makes the client, and nothing else with it. */
const CLIENTS = {
  prisma: /^[^\S\n]*(?:export )?const \w+ = (?=new PrismaClient\()/gm,
  drizzle: /^[^\S\n]*(?:export )?const \w+ = (?=drizzle\()/gm,
} as const
/** Where a client is made, surely or not. */
const MENTIONS = { prisma: /\b(?:new|extends) PrismaClient\b/, drizzle: /\bdrizzle\(/ } as const
const STATEMENT_END = /^[^\S\n]*(?:;|\r?\n\s*(?![\s.?])|$)/

interface Place {
  path: string
  begin: number
  end: number
}

/** Finds the only place; undefined where it is not sure. */
function findPlace({ files }: Application, orm: FoundTable['orm']): Place | undefined {
  const places = [...files].flatMap(([path, text]) =>
    [...text.matchAll(CLIENTS[orm])].map((match) => {
      const begin = match.index + match[0].length
      return { path, text, begin, end: readBrackets(text, text.indexOf('(', begin)).end }
    }),
  )
  const [only, other] = places
  return only && !other && only.end > 0 && STATEMENT_END.test(only.text.slice(only.end)) ? only : undefined
}

/** The file of the model: the one that is there, or one beside the client. */
export function modelPath({ sources }: Application, { orm }: FoundTable, name: string): string {
  const there = [...sources.keys()].find((path) => parse(path).name === name)
  const [beside = 'db.ts'] = [...sources].find(([, text]) => MENTIONS[orm].test(text)) ?? []
  return there ?? join(dirname(beside), `${name}${extname(beside).replace('x', '')}`)
}

/** Wraps the client, or says which lines to add. */
export function wrapClient(app: Application, table: FoundTable, model: { name: string; path: string }): void {
  const { orm, name } = table
  const place = findPlace(app, orm)
  const from = place?.path ?? model.path
  const text = app.files.get(from) ?? ''
  const use = `${model.name}(createClient())`
  if ([...app.sources.values()].some((source) => source.includes(use))) return
  const all = new RegExp(
    `import \\* as (\\w+) from ['"]${specifier(app, from, table.path).replace(/(\.\w+)?$/, '(?:\\.\\w+)?')}['"]`,
  )
  const schema = all.exec(text)?.[1]
  const isKnown =
    orm === 'prisma' || schema || table.path === from || new RegExp(`\\{[^}]*\\b${name}\\b[^}]*\\} from`).test(text)
  const imports = [
    `import { createClient } from '@eaas/sdk'`,
    `import { encrypted } from '@eaas/${orm}'`,
    `import ${model.name} from '${specifier(app, from, model.path)}'`,
    ...(isKnown ? [] : [`import { ${name} } from '${specifier(app, from, table.path)}'`]),
  ]
  const before = orm === 'prisma' ? '' : 'encrypted('
  const behind =
    orm === 'prisma'
      ? `.$extends(encrypted({ ${name}: ${use} }))`
      : `, [[${schema ? `${schema}.` : ''}${name}, ${use}]])`
  const after =
    place &&
    withImports(
      `${text.slice(0, place.begin)}${before}${text.slice(place.begin, place.end)}${behind}${text.slice(place.end)}`,
      imports,
    )
  if (after === undefined)
    app.byHand.push(
      'where the client is made:',
      ...imports,
      `${before}${orm === 'prisma' ? 'new PrismaClient(…)' : 'drizzle(…)'}${behind}`,
    )
  else app.files.set(from, after)
}

/** How a source imports another: with the ending that its other imports have. */
function specifier({ sources, isModule }: Application, from: string, to: string): string {
  const path = relative(dirname(from), to).replaceAll('\\', '/')
  const own = /from ['"]\.\.?\/[^'"]*?(\.[cm]?[jt]sx?)?['"]/.exec(sources.get(from) ?? '')
  const compiled = extname(path).replace('t', 'j')
  const ending = own ? own[1] && (own[1].includes('t') ? extname(path) : compiled) : isModule && compiled
  return `${path.startsWith('.') ? '' : './'}${path.slice(0, -extname(path).length)}${ending || ''}`
}
