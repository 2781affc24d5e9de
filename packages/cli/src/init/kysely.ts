/** The tables in the interfaces of a Kysely application, and how they and the database change. */
import { UsageError } from '../io.js'
import { type Application, type Column, type FieldKind, type FoundTable, guide } from './application.js'
import { addIndexes, type Change, convertColumns } from './migration.js'
import { localName, readBrackets, withNames } from './source-text.js'

/** By the type of a member: the field, and the type of its column, about which the interface says no more. */
const TYPES: Readonly<Record<string, readonly [kind: FieldKind, type: string]>> = {
  string: ['text', 'character varying'],
  Date: ['date', 'timestamp'],
  number: ['number', 'double precision'],
  boolean: ['boolean', 'unknown'],
}
const JSON_TYPE = /^JSONColumnType<([^,]+)>$/s

interface Member {
  name: string
  type: string
  at: number
  end: number
  /** The blanks before it, if it has a line of its own. */
  indent: string | undefined
}

interface Declared {
  name: string
  path: string
  members: Member[]
  /** TypeScript's type of the table, if it can be imported. */
  types: { name: string; type: string } | undefined
}

export function readKysely({ code }: Application): FoundTable[] {
  for (const text of code.values()) {
    const [not] = /\bnew (?:Mysql|Sqlite|Mssql)Dialect\b|\bnew CamelCasePlugin\b/.exec(text) ?? []
    if (not && /\bnew Kysely</.test(text))
      throw new UsageError(
        `init knows PostgreSQL by the names of its columns, and there is ${not}: see ${guide('kysely')}`,
      )
  }
  return declarationsOf(code).map(({ name, path, members, types }): FoundTable => {
    const columns = members.map((member) => readMember(member, types !== undefined))
    const typeOf = (column: string) => `${types?.type}['${column}']`
    const id = columns.filter((column) => column.name === 'id').map((column) => column.name)
    return { orm: 'kysely', name, stored: name, path, columns, id, types: { name: types?.name ?? '', typeOf } }
  })
}

function declarationsOf(sources: ReadonlyMap<string, string>): Declared[] {
  const names = new Set([...sources.values()].flatMap((text) => /\bnew Kysely<(\w+)>/.exec(text)?.[1] ?? []))
  return [...names].flatMap((database) => {
    const found = findType(sources, database)
    return (found?.members ?? []).flatMap(({ name, type, at }): Declared[] => {
      if (type.startsWith('{')) {
        const path = found?.path ?? ''
        const members = readMembers(sources.get(path) ?? '', at)
        const types = found?.isExported ? { name: database, type: `${database}['${name}']` } : undefined
        return [{ name, path, members, types }]
      }
      const table = /^\w+$/.test(type) ? findType(sources, type) : undefined
      return table ? [{ name, ...table, types: table.isExported ? { name: type, type } : undefined }] : []
    })
  })
}

/** Finds an interface, or a type alias of an object, in the only source that declares it. */
function findType(sources: ReadonlyMap<string, string>, name: string) {
  const declared = new RegExp(`^(export )?(?:interface ${name}\\s*|type ${name} =\\s*)(?=\\{)`, 'm')
  const places = [...sources].flatMap(([path, text]) => {
    const found = declared.exec(text)
    if (!found) return []
    return [{ path, isExported: found[1] !== undefined, members: readMembers(text, found.index + found[0].length) }]
  })
  return places.length === 1 ? places[0] : undefined
}

function readMembers(source: string, at: number): Member[] {
  return readBrackets(source, at, ';\n').parts.flatMap(({ begin, text }): Member[] => {
    const [head, indent = '', name] = /^(\s*)['"]?(\w+)['"]?\??:\s*/.exec(text) ?? []
    const type = text.slice(head?.length).trim()
    const from = begin + (head?.length ?? 0)
    const own = source[begin - 1] === '\n' ? indent : undefined
    return name === undefined ? [] : [{ name, type, at: from, end: from + type.length, indent: own }]
  })
}

function readMember({ name, type }: Member, isExported: boolean): Column {
  const [json] = JSON_TYPE.exec(type) ?? []
  const plain = type.split('|').map((one) => one.trim())
  const [kind, stored] = json
    ? (['json', 'unknown'] as const) // for a JSON column, drivers only take JSON
    : (TYPES[plain.filter((one) => one !== 'null').join()] ?? [])
  const reasons = [
    name === 'id' && 'is the id',
    kind === undefined &&
      (/^(Generated\w*|ColumnType)</.test(type)
        ? `is ${type}: the database would fill it with plaintext. Take its default away, declare it as the plain type, and give its value in inserts; then run init again`
        : `is ${type}: init takes string, Date, number, boolean and JSONColumnType. Make it one of these first, in the interface and the database: JSONColumnType for a list`),
    json && !isExported && 'is in an interface that is not exported: export it first',
  ]
  return {
    ...{ name, stored: name, isNullable: /\bnull\b/.test(type.replace(/\{.*\}/s, '')), isUnique: false },
    ...{ kind: kind ?? 'text', type: stored ?? 'text' },
    refusal: reasons.find((reason) => typeof reason === 'string'),
    index: { name: `${name}_index`, stored: `${name}_index` },
  }
}

export function changeKysely({ files, code, byHand }: Application, change: Change): void {
  const { table, columns, lacking } = change
  const before = files.get(table.path) ?? ''
  const { members = [] } = declarationsOf(code).find(({ name }) => name === table.name) ?? {}
  let text = before
  for (const { name, type, at, end, indent } of [...members].reverse()) {
    if (!columns.some((column) => column.name === name)) continue
    const column = lacking.find((one) => one.name === name)
    if (column) {
      const added = `${column.index.name}: ${localName(before, 'Generated')}<string | null>`
      const [line = ''] = /^[^\n]*/.exec(text.slice(end)) ?? []
      const to = indent === undefined ? end : end + line.length
      const put = indent === undefined ? `; ${added}` : `\n${indent}${added}${line.startsWith(';') ? ';' : ''}`
      text = text.slice(0, to) + put + text.slice(to)
    }
    text = text.slice(0, at) + (JSON_TYPE.exec(type)?.[1] ?? type) + text.slice(end)
  }
  const add = lacking.length > 0 ? ['type Generated'] : []
  const after = withNames(text, 'kysely', { add, drop: [localName(before, 'JSONColumnType')] })
  files.set(table.path, after ?? text)
  if (!after && add.length > 0) byHand.push(`in ${table.path}: import type { Generated } from 'kysely'`)
  if (columns.some(({ kind }) => kind === 'json'))
    byHand.push('give Kysely objects where the application now gives it JSON.stringify(…): the compiler shows where')
  const converted = convertColumns(change)
  const hasTimes = columns.some(({ kind }) => kind === 'date')
  const zone = hasTimes ? [`SET TIME ZONE '${change.timeZone}';`] : []
  const statements = [...zone, ...converted, ...addIndexes(change)]
  if (statements.length > 0)
    byHand.push(
      `in the database, or in a migration (with UNIQUE where the field is${hasTimes ? `; times without a zone are taken for those of ${change.timeZone}` : ''}): ${statements.join(' ')}`,
    )
}
