/** The file that says which fields of a table are encrypted, and the command that encrypts existing rows. */
import { loaderFor } from '../model-module.js'
import type { Column, FoundTable } from './application.js'

export interface ModelFile {
  table: FoundTable
  columns: readonly Column[]
  /** The names of those to search by. */
  search: readonly string[]
  /** The name of its function, and its path. */
  name: string
  path: string
}

export function modelFile({ table, columns, search, name, path }: ModelFile): string {
  const isTyped = path.endsWith('ts')
  const fields = columns.map((column) => {
    // Addresses are compared without regard to case, as people write them.
    const normalize = /mail/i.test(column.name) ? ", normalize: ['trim', 'lowercase']" : ''
    const options = search.includes(column.name) ? `{ index: '${column.index.name}'${normalize} }` : ''
    return `      ${column.name}: text(${options})${column.isNullable ? '.nullable()' : ''},\n`
  })
  return `import { ${isTyped ? 'type Client, ' : ''}text } from '@eaas/sdk'

/** The encrypted fields of ${table.name}. \`npx @eaas/cli backfill\` calls it with a client of its own. */
export default function ${name}(eaas${isTyped ? ': Client' : ''}) {
  return eaas.model({
    name: '${table.stored}', // values are bound to it: never change it
    key: '${table.stored}',
    bind: [${table.id.map((id) => `'${id}'`).join(', ')}],
    format: 'text',
    acceptPlaintext: true, // until backfill has encrypted the rows that are there
    fields: {
${fields.join('')}    },
  })
}
`
}

/** @param more the options that say what it does */
export function backfillLine({ table, columns, search, path }: ModelFile, more: string): string {
  const ids = table.columns.filter(({ name }) => table.id.includes(name))
  const indexes = columns.filter(({ name }) => search.includes(name)).map(({ index }) => index)
  const renamed = [...ids, ...columns, ...indexes].filter(({ name, stored }) => name !== stored)
  return `${loaderFor(path)}npx @eaas/cli backfill ${path} --table ${table.stored}${renamed.map((one) => ` --column ${one.name}=${one.stored}`).join('')} ${more}`
}
