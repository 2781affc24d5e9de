/** The models of Prisma schemas for PostgreSQL, and how they and the database change. */
import { existsSync, readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { resolvePath } from '../files.js'
import { type Io, UsageError } from '../io.js'
import type { Application, Column, FieldKind, FoundTable } from './application.js'
import { guide, readIfThere, UNREAD_NAME, UNREAD_TABLE } from './application.js'
import { addConstraints, addIndexes, type Change, convertByHand, convertColumns, isConverted } from './migration.js'
import { quoteText, slugOf } from './source-text.js'

const MODEL = /^model\s+(?<name>\w+)\s*\{(?<body>.*?)^\}/gms
const FIELD = /^(?<before>\s+(?<name>\w+)[^\S\n]+)(?<type>\w+)(?<arity>\[\]|\?)?(?<attributes>[^\n]*)$/
const NATIVE = /\s*(@db\.\w+)(?:\([^)]*\))?/
/** The types of columns: the field for their values, and their types in PostgreSQL. */
const TYPES: Readonly<Record<string, readonly [kind: FieldKind, type: string]>> = {
  String: ['text', 'text'],
  'String @db.Text': ['text', 'text'],
  'String @db.VarChar': ['text', 'character varying'],
  DateTime: ['date', 'timestamp without time zone'],
  'DateTime @db.Timestamp': ['date', 'timestamp without time zone'],
  'DateTime @db.Timestamptz': ['date', 'timestamp with time zone'],
  'DateTime @db.Date': ['date', 'date'],
  Int: ['number', 'integer'],
  'Int @db.Integer': ['number', 'integer'],
  'Int @db.SmallInt': ['number', 'smallint'],
  Float: ['number', 'double precision'],
  'Float @db.DoublePrecision': ['number', 'double precision'],
  'Float @db.Real': ['number', 'real'],
  Boolean: ['boolean', 'boolean'],
  'Boolean @db.Boolean': ['boolean', 'boolean'],
  Json: ['json', 'jsonb'],
  'Json @db.JsonB': ['json', 'jsonb'],
  'Json @db.Json': ['json', 'json'],
}
const PROVIDER = /^datasource\s+\w+\s*\{[^}]*provider\s*=\s*"(\w+)"/m

export function readPrisma({ code }: Application): FoundTable[] {
  const schemas = [...code].filter(([path]) => path.endsWith('.prisma'))
  const provider = schemas.flatMap(([, text]) => PROVIDER.exec(text)?.[1] ?? []).find((one) => one !== 'postgresql')
  if (provider) throw new UsageError(`init knows PostgreSQL, and the schema is of ${provider}: see ${guide('prisma')}`)
  return schemas.flatMap(([path, text]) =>
    [...text.matchAll(MODEL)].map(({ groups: { name = '', body = '' } = {} }): FoundTable => {
      const fields = body.split('\n').map((line) => FIELD.exec(line)?.groups ?? {})
      const [stored, schema] = [textIn('@@map', body), textIn('@@schema', body)]
      const id = fields.find(({ attributes }) => /@id\b/.test(attributes ?? ''))?.name
      const keys = namesIn([...body.matchAll(/@relation\([^)]*fields:\s*\[([^\]]*)\]/g)].map(([, list]) => list).join())
      return {
        ...{
          orm: 'prisma',
          name,
          path,
          columns: fields
            .filter((field) => field.name)
            .map((field) => readField(field, keys))
            .map((column) => (stored === '' || schema === '' ? { ...column, refusal: UNREAD_TABLE } : column)),
        },
        ...{ stored: stored ?? name, schema },
        types: { name: 'JsonValue', module: '@prisma/client/runtime/client', typeOf: () => 'JsonValue' },
        id: id ? [id] : namesIn(/@@id\(\[([^\]]*)\]/.exec(body)?.[1]),
      }
    }),
  )
}

function readField(
  { name = '', type = '', arity = '', attributes = '' }: Record<string, string>,
  keys: string[],
): Column {
  const spelled = [type, NATIVE.exec(attributes)?.[1] ?? []].flat().join(' ')
  const [kind, stored] = (arity === '[]' ? undefined : TYPES[spelled]) ?? []
  const column = textIn('@map', attributes) ?? name
  const reasons = [
    column === '' && UNREAD_NAME,
    keys.includes(name) && 'is the key of a relation',
    /@id\b/.test(attributes) && 'is the id',
    kind === undefined &&
      `is ${spelled}${arity}: init takes String, DateTime, Int, Float, Boolean and Json. Make it a ${arity === '[]' ? 'Json' : 'String'} in the schema and the database first`,
    /@default\b/.test(attributes) &&
      'has a default, which would be stored as it is: take it away, give the value in each create, and run init again',
    /@updatedAt\b/.test(attributes) &&
      'has @updatedAt, which Prisma would store as it is: take it away, give the time in each write, and run init again',
  ]
  return {
    ...{ name, isNullable: arity === '?', isUnique: /@unique\b/.test(attributes) },
    ...{ kind: kind ?? 'text', type: stored ?? 'text' },
    stored: column,
    refusal: reasons.find((reason) => typeof reason === 'string'),
    index: { name: `${name}_index`, stored: `${column}_index` },
  }
}

/** The text in an attribute; empty if it was not read completely, undefined without the attribute. */
function textIn(attribute: string, text: string): string | undefined {
  const [found, name = ''] =
    new RegExp(`(?<!@)${attribute}\\((?:(?:\\s*name\\s*:)?\\s*"([^"\\\\]+)"\\s*\\))?`).exec(text) ?? []
  return found === undefined ? undefined : name
}

function namesIn(list = ''): string[] {
  return list.match(/\w+/g) ?? []
}

/** Makes columns `String` where sealed text does not fit, and adds index columns: in the schema, and in a migration. */
export function changePrisma({ files, code, byHand }: Application, change: Change, io: Io): void {
  const { table, columns, lacking } = change
  const { path, stored } = table
  const text = files.get(path) ?? ''
  const found = [...(code.get(path) ?? '').matchAll(MODEL)].find(({ groups }) => groups?.name === table.name)
  const { index: begin = 0, 0: read = '' } = found ?? {}
  const model = text.slice(begin, begin + read.length)
  const isField = read.split('\n').map((line) => FIELD.test(line))
  const lines = model.split('\n').flatMap((line, at) => {
    if (!isField[at]) return line
    const groups = FIELD.exec(line)?.groups ?? {}
    const column = columns.find((one) => one.name === groups.name)
    if (!column) return line
    const changed = isConverted(column) ? asString(groups) : line
    return lacking.includes(column) ? [changed, indexLine(groups, column)] : changed
  })
  lines.splice(-1, 0, ...lacking.filter(({ isUnique }) => !isUnique).map(({ index }) => `  @@index([${index.name}])`))
  const changed = lines.join('\n')
  files.set(path, text.slice(0, begin) + changed + text.slice(begin + model.length))
  if (changed !== model) byHand.push('npx prisma generate')
  const migrations = join(dirname(path), 'migrations')
  if (existsSync(resolvePath(io, migrations))) {
    const ending = `_encrypt_${slugOf(stored)}`
    const stamp = new Date().toISOString().replace(/\D/g, '').slice(0, 14)
    const statements = [...convertColumns(change), ...addIndexes(change), addConstraints(change)].join('\n')
    const fileIn = (folder: string) => join(migrations, folder, 'migration.sql')
    // An earlier run that did not finish may have written it.
    const there = readdirSync(resolvePath(io, migrations)).find(
      (name) => name.slice(14) === ending && [undefined, statements].includes(readIfThere(io, fileIn(name))),
    )
    files.set(fileIn(there ?? stamp + ending), statements)
    byHand.push('npx prisma migrate dev')
  } else if (changed !== model) {
    const converted = convertByHand(change)
    if (converted) byHand.push(`first, since the cast by Prisma could change values, in the database: ${converted}`)
    byHand.push('npx prisma db push, or npx prisma migrate dev')
  }
}

function asString({ before = '', type = '', arity = '', attributes = '' }: Record<string, string>): string {
  const rest = attributes.replace(NATIVE, '')
  return `${before}${`String${arity}`.padEnd(rest.trim() ? `${type}${arity}`.length : 0)}${rest}`
}

function indexLine({ before = '', attributes = '' }: Record<string, string>, { index, isUnique }: Column): string {
  const indent = before.slice(0, before.search(/\S/))
  const end = attributes.endsWith('\r') ? '\r' : ''
  const map = index.name === index.stored ? '' : ` @map(${quoteText(index.stored, '"')})`
  return `${`${indent}${index.name}`.padEnd(before.length - 1)} String?${isUnique ? ' @unique' : ''}${map}${end}`
}
