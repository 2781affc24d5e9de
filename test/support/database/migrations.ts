// Reads a table's columns from the SQL of the migrations, without a database.
import { cpSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const FOLDER = new URL('../../../packages/server/migrations/', import.meta.url)
const ADDED = /\badd column (?:if not exists )?([a-z_]+) ([^,]*)/g
const COLUMN = /^\s*(?!primary\b|unique\b|check\b|foreign\b|constraint\b)([a-z_]+) /gm

/** Makes a folder with the server's migrations and a later one; the caller removes it. */
export function withMigration(sql: string): URL {
  const folder = mkdtempSync(join(tmpdir(), 'eaas-migrations-'))
  cpSync(fileURLToPath(FOLDER), folder, { recursive: true })
  writeFileSync(join(folder, '900-later.sql'), sql)
  return pathToFileURL(`${folder}/`)
}

/**
 * Lists the columns of a table after all migrations, except computed ones. @throws when there is no such table, or a
 * migration alters it in a way unknown here
 */
export function columnsOf(table: string): string[] {
  const create = statements().find((statement) => new RegExp(`^create table ${table} \\(`).test(statement))
  if (!create) throw new Error(`no migration creates ${table}`)
  const columns = new Set(names(create.slice(create.indexOf('(') + 1), COLUMN))
  for (const statement of alterations(table)) {
    if (/\brename\b|\bdrop column\b/.test(statement)) throw new Error(`this cannot be read yet: ${statement}`)
    for (const [, name = '', definition = ''] of statement.matchAll(ADDED)) {
      if (!definition.includes('generated always')) columns.add(name)
    }
  }
  return [...columns]
}

/** The statement that inserts rows of a copy of the table. */
export function insertFrom(table: string, copy: string): string {
  const columns = columnsOf(table).join(', ')
  return `insert into ${table} (${columns}) select ${columns} from ${copy}`
}

function statements(): string[] {
  return readdirSync(FOLDER)
    .filter((name) => name.endsWith('.sql'))
    .sort()
    .flatMap((name) => readFileSync(new URL(name, FOLDER), 'utf8').replaceAll(/--.*$/gm, '').split(';'))
    .map((statement) => statement.trim())
}

function alterations(table: string): string[] {
  return statements().filter((statement) => new RegExp(`^alter table ${table}\\b`).test(statement))
}

function names(text: string, pattern: RegExp): string[] {
  return [...text.matchAll(pattern)].map(([, name = '']) => name)
}
