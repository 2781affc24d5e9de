/** The file that says which fields of a table are encrypted, and the command that encrypts existing rows. */
import { dirname, extname, relative } from 'node:path'
import { quoteWord } from '@eaas/protocol'
import { quoteName } from '../backfill/postgres-values.js'
import { loaderFor, optionWord } from '../model-module.js'
import type { Application, Column, FoundTable } from './application.js'
import { quoteText } from './source-text.js'

export interface ModelFile {
  table: FoundTable
  columns: readonly Column[]
  search: readonly string[]
  name: string
  path: string
}

/** @param importPath how the file imports the table's file */
export function modelFile({ table, columns, search, name, path }: ModelFile, importPath: string): string {
  const isTyped = path.endsWith('ts')
  const { types } = table
  const fields = columns.map((column) => {
    // People write addresses without regard to case, so they are compared so.
    const normalize = /mail/i.test(column.name) && column.kind === 'text' ? ", normalize: ['trim', 'lowercase']" : ''
    const options = search.includes(column.name) ? `{ index: ${quoteText(column.index.name)}${normalize} }` : ''
    const type = isTyped && column.kind === 'json' ? `<NonNullable<${types.typeOf(column.name)}>>` : ''
    return `      ${column.name}: ${column.kind}${type}(${options})${column.isNullable ? '.nullable()' : ''},\n`
  })
  const names = [...(isTyped ? ['type Client'] : []), ...new Set(columns.map(({ kind }) => kind).sort())]
  const hasJson = isTyped && columns.some(({ kind }) => kind === 'json')
  return `import { ${names.join(', ')} } from '@eaas/sdk'
${hasJson ? `import type { ${types.name} } from ${quoteText(types.module ?? importPath)}\n` : ''}
/** The encrypted fields of ${table.name}. \`npx @eaas/cli backfill\` calls it with a client of its own. */
export default function ${name}(eaas${isTyped ? ': Client' : ''}) {
  return eaas.model({
    name: ${quoteText(table.stored)}, // values are bound to it: never change it
    key: ${quoteText(table.stored)},
    bind: [${table.id.map((id) => quoteText(id)).join(', ')}],
    format: 'text',
    acceptPlaintext: true, // until backfill has encrypted the rows that are there
    fields: {
${fields.join('')}    },
  })
}
`
}

/** @param more the options that say what the run does */
export function backfillLine({ table, columns, search, path }: ModelFile, more: string): string {
  const ids = table.columns.filter(({ name }) => table.id.includes(name))
  const indexes = columns.filter(({ name }) => search.includes(name)).map(({ index }) => index)
  const renamed = [...ids, ...columns, ...indexes].filter(({ name, stored }) => name !== stored)
  const parts = [...(table.schema ? [table.schema] : []), table.stored]
  const isPlain = parts.every((part) => /^[\w-]+$/.test(part))
  const words = [quoteWord(path), optionWord('--table', (isPlain ? parts : parts.map(quoteName)).join('.'))]
  words.push(...renamed.map((one) => optionWord('--column', `${one.name}=${one.stored}`)))
  return `${loaderFor(path)}npx @eaas/cli backfill ${words.join(' ')} ${more}`
}

/** How a source imports another: with the extension of its other imports, or of other sources' imports. */
export function specifier({ sources, isModule }: Application, from: string, to: string): string {
  const path = relative(dirname(from), to).replaceAll('\\', '/')
  const texts = [sources.get(from) ?? '', ...sources.values()]
  const own = texts.map((text) => /from ['"]\.\.?\/[^'"]*?(\.[cm]?[jt]sx?)?['"]/.exec(text)).find((found) => found)
  const compiled = extname(path).replace('t', 'j')
  const ending = own ? own[1] && (own[1].includes('t') ? extname(path) : compiled) : isModule && compiled
  return `${path.startsWith('.') ? '' : './'}${path.slice(0, -extname(path).length)}${ending || ''}`
}
