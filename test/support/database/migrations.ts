// Reads the migrations and the description of the schema, without a database.
import { createHash } from 'node:crypto'
import { cpSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const FOLDER = new URL('../../../packages/server/migrations/', import.meta.url)

/** A folder for each release, with the digests of its migrations, and of each back end what test/custody/released-state.ts wrote. */
export const RELEASED = fileURLToPath(new URL('../../fixtures/released/', import.meta.url))
export const DIGESTS = 'migrations.sha256'

/** Returns the sha256 of each migration, in the order in which they run, as sha256sum prints them. */
export function digestMigrations(): string {
  const names = readdirSync(FOLDER).filter((name) => name.endsWith('.sql'))
  const digest = (name: string) =>
    createHash('sha256')
      .update(readFileSync(new URL(name, FOLDER)))
      .digest('hex')
  return names
    .sort()
    .map((name) => `${digest(name)}  ${name}\n`)
    .join('')
}

/** Makes a folder with the server's migrations and a later one; the caller removes it. */
export function withMigration(sql: string): URL {
  const folder = mkdtempSync(join(tmpdir(), 'eaas-migrations-'))
  cpSync(fileURLToPath(FOLDER), folder, { recursive: true })
  writeFileSync(join(folder, '900-later.sql'), sql)
  return pathToFileURL(`${folder}/`)
}

/** Lists the columns of a table, except computed ones, by schema.txt. @throws when there is no such table */
export function columnsOf(table: string): string[] {
  const lines = readFileSync(new URL('schema.txt', FOLDER), 'utf8').split('\n')
  const prefix = `column ${table}.`
  const columns = lines
    .filter((line) => line.startsWith(prefix) && !line.includes(' generated '))
    .map((line) => line.slice(prefix.length).replace(/ .*/, ''))
  if (columns.length === 0) throw new Error(`schema.txt lists no columns of ${table}`)
  return columns
}

/** The statement that inserts rows of a copy of the table. */
export function insertFrom(table: string, copy: string): string {
  const columns = columnsOf(table).join(', ')
  return `insert into ${table} (${columns}) select ${columns} from ${copy}`
}
