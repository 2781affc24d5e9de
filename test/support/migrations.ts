// Reads a table's columns from the SQL of the migrations, without a database.
import { readdirSync, readFileSync } from 'node:fs'

const FOLDER = new URL('../../packages/server/migrations/', import.meta.url)
const COLUMN = /^\s*(?!primary\b|unique\b|check\b|foreign\b|constraint\b)([a-z_]+) /gm

/** The columns of a table after all migrations. @throws when there is no such table, or a migration alters it in a way unknown here */
export function columnsOf(table: string): string[] {
  const statements = readdirSync(FOLDER)
    .filter((name) => name.endsWith('.sql'))
    .sort()
    .flatMap((name) => readFileSync(new URL(name, FOLDER), 'utf8').replaceAll(/--.*$/gm, '').split(';'))
    .map((statement) => statement.trim())
  const create = statements.find((statement) => new RegExp(`^create table ${table} \\(`).test(statement))
  if (!create) throw new Error(`no migration creates ${table}`)
  const columns = new Set(names(create.slice(create.indexOf('(') + 1), COLUMN))
  for (const statement of statements.filter((other) => new RegExp(`^alter table ${table}\\b`).test(other))) {
    if (/\brename\b|\bdrop column\b/.test(statement)) throw new Error(`this cannot be read yet: ${statement}`)
    for (const name of names(statement, /\badd column (?:if not exists )?([a-z_]+)/g)) columns.add(name)
  }
  return [...columns]
}

function names(text: string, pattern: RegExp): string[] {
  return [...text.matchAll(pattern)].map(([, name = '']) => name)
}
