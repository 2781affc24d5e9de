/** TypeORM entities that are classes with decorators, and how they and the database change. */
import { UsageError } from '../io.js'
import type { Application, Column, FieldKind, FoundTable } from './application.js'
import { guide, UNREAD_NAME, UNREAD_TABLE } from './application.js'
import { addIndexes, type Change, convertColumns, indexName, isConverted } from './migration.js'
import { localName, quoteText, readBrackets, readText, withNames } from './source-text.js'

const ENTITY = /@Entity\((?<args>[^)]*)\)(?:\s*@\w+\([^)]*\))*\s*(?:export )?class (?<name>\w+)[^{]*(?=\{)/g
const COLUMN =
  /(?<above>(?:@\w+\([^()]*\)\s*)*)@(?<decorator>Column|(?:Primary|PrimaryGenerated|CreateDate|UpdateDate|DeleteDate|Version)Column)(?=\()/g
const PROPERTY =
  /^(?<below>(?:\s*@\w+\([^()]*\))*)\s*(?:(?:public|readonly|declare)\s+)*(?<name>\w+)[!?]?:\s*(?<type>[^;=\n]+?)[^\S\n]*(?:=[^;\n]*)?(?<end>;|$)[^\n]*/m
/** The types that TypeORM chooses for properties without one. */
const DEFAULTS: Readonly<Record<string, string>> = {
  string: 'varchar',
  number: 'integer',
  boolean: 'boolean',
  Date: 'timestamp',
}
/** By the type of a column: the field, the type of its property, and its type in PostgreSQL. */
const TYPES: Readonly<Record<string, readonly [kind: FieldKind, property: string, type: string]>> = {
  text: ['text', 'string', 'text'],
  varchar: ['text', 'string', 'character varying'],
  'character varying': ['text', 'string', 'character varying'],
  timestamp: ['date', 'Date', 'timestamp without time zone'],
  'timestamp without time zone': ['date', 'Date', 'timestamp without time zone'],
  timestamptz: ['date', 'Date', 'timestamp with time zone'],
  'timestamp with time zone': ['date', 'Date', 'timestamp with time zone'],
  date: ['text', 'string', 'date'],
  int: ['number', 'number', 'integer'],
  integer: ['number', 'number', 'integer'],
  smallint: ['number', 'number', 'smallint'],
  bigint: ['text', 'string', 'bigint'], // TypeORM returns strings
  numeric: ['text', 'string', 'numeric'],
  decimal: ['text', 'string', 'numeric'],
  real: ['number', 'number', 'real'],
  'double precision': ['number', 'number', 'double precision'],
  boolean: ['boolean', 'boolean', 'boolean'],
  json: ['json', '', 'json'],
  jsonb: ['json', '', 'jsonb'],
}
/** Options that change the stored value, or the adapter's work. */
const NOT_PLAIN = /\b(default|transformer|array|enum|generatedType|asExpression|insert|update)\s*:/
const REMEDIES: Readonly<Record<string, string>> = {
  default: 'which the database would store unencrypted: give the property an initial value instead',
  array: 'make it jsonb first',
  generatedType: 'make its value in the application first',
  asExpression: 'make its value in the application first',
}
/** Options that a column loses with its type. */
const OF_TYPE = /^\s*(type|length|precision|scale|width|collation)\s*:/

/** Finds the option `synchronize` of a data source, unless it is false. */
const SYNCHRONIZES = /\bsynchronize\b['"]?\s*(?::\s*(?!false\b)|[,}])/

interface Property {
  column: Column
  /** The decorator's call: the positions of its bracket, and after the call. */
  at: number
  called: number
  options: string[]
  /** The position after the property's line, and how its statement ends. */
  end: number
  semicolon: string
}

export function readTypeorm({ code, settings }: Application): FoundTable[] {
  const own = [...code].filter(([, text]) => /from ['"]typeorm['"]/.test(text))
  for (const [, text] of [...own, ...settings]) {
    const [, type] = /\bnew DataSource\(\s*\{[^}]*?\btype:\s*['"](\w+)['"]/.exec(text) ?? []
    if (type && type !== 'postgres')
      throw new UsageError(`init knows PostgreSQL, and the data source is of ${type}: see ${guide('typeorm')}`)
  }
  return own.flatMap(([path, text]) =>
    [...text.matchAll(ENTITY)].map((found): FoundTable => {
      const { args = '', name = '' } = found.groups ?? {}
      const properties = readProperties(text, found)
      const given = readBrackets(`(${args})`, 0).parts.map((part) => part.text)
      const { stored = inSnakeCase(name), schema } = readNames(given)
      const isRead = stored !== '' && schema !== ''
      return {
        ...{ orm: 'typeorm', name, path, stored, schema },
        columns: properties.map(({ column }) => (isRead ? column : { ...column, refusal: UNREAD_TABLE })),
        id: properties.filter(({ column }) => column.refusal === 'is the id').map(({ column }) => column.name),
        types: { name, typeOf: (column) => `${name}['${column}']` },
      }
    }),
  )
}

/** The names in `@Entity()`. An empty one was not read completely. */
function readNames([first = '', second = first]: string[]) {
  const options = second.trim().startsWith('{') ? readBrackets(second.trim(), 0).parts.map(({ text }) => text) : []
  const isNamed = first !== '' && !first.trim().startsWith('{')
  return { stored: isNamed ? (readText(first) ?? '') : textOf('name', options), schema: textOf('schema', options) }
}

/** The text of an option; empty if it was not read completely, undefined without the option. */
function textOf(name: string, options: readonly string[]): string | undefined {
  const head = new RegExp(`^\\s*['"]?${name}\\b['"]?\\s*:?`)
  const option = options.find((one) => head.test(one))
  return option === undefined ? undefined : (readText(option.replace(head, '')) ?? '')
}

function inSnakeCase(name: string): string {
  return name
    .replaceAll(/([A-Z])([A-Z])([a-z])/g, '$1_$2$3')
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1_$2')
    .toLowerCase()
}

function readProperties(source: string, found: RegExpExecArray): Property[] {
  const begin = found.index + found[0].length
  const { end } = readBrackets(source, begin)
  const body = source.slice(begin, end)
  return [...body.matchAll(COLUMN)].flatMap(
    ({ index, 0: head, groups: { above = '', decorator = '' } = {} }): Property[] => {
      const at = begin + index + head.length
      const call = readBrackets(source, at)
      const property = PROPERTY.exec(source.slice(call.end, end))
      const { below = '', name, type = '', end: semicolon = '' } = property?.groups ?? {}
      if (property?.index !== 0 || name === undefined) return []
      const [first = '', ...others] = call.parts.map((part) => part.text.trim())
      const given = /^['"]([^'"]+)['"]$/.exec(first)?.[1]
      const object = given === undefined ? first : (others[0] ?? '')
      const options = object.startsWith('{') ? readBrackets(object, 0).parts.map((part) => part.text) : []
      const option = (key: string) => new RegExp(`\\b${key}:\\s*['"]?([^'",}\\n]+)`).exec(object)?.[1]?.trim()
      const declared = type
        .split('|')
        .map((one) => one.trim())
        .filter((one) => !/^(null|undefined)$/.test(one))
      const stored = given ?? option('type') ?? DEFAULTS[declared.join()] ?? type
      const [kind, expected, postgres] = TYPES[stored] ?? []
      const isBounded = postgres !== 'character varying' || option('length') !== undefined
      const storedName = textOf('name', options)
      const not = NOT_PLAIN.exec(object)?.[1]
      const reasons = [
        storedName === '' && UNREAD_NAME,
        decorator.startsWith('Primary') && 'is the id',
        decorator !== 'Column' && `has @${decorator}`,
        kind === undefined &&
          `is ${stored}: init takes text, varchar, timestamps, dates, numbers, booleans and JSON. Make it text in the entity and the database first, or jsonb for a list`,
        kind !== 'json' &&
          declared.join('|') !== expected &&
          `is ${stored} and declared as ${type}: declare it as ${expected} first, which TypeORM returns`,
        not && `has ${not}, ${REMEDIES[not] ?? 'which init does not keep: take it away first'}; then run init again`,
      ]
      return [
        {
          column: {
            ...{ name, stored: storedName ?? name, isNullable: option('nullable') === 'true' },
            isUnique: option('unique') === 'true' || /@Index\(.*\bunique:\s*true/s.test(above + below),
            ...{ kind: kind ?? 'text', type: isBounded ? (postgres ?? 'text') : 'text' },
            refusal: reasons.find((reason) => typeof reason === 'string'),
            index: { name: `${name}_index`, stored: `${storedName ?? name}_index` },
          },
          ...{ at, called: call.end, options, end: call.end + property[0].length, semicolon },
        },
      ]
    },
  )
}

/** Makes the columns `text`, and adds indexes. @throws UsageError if the application would drop columns when it starts */
export function changeTypeorm({ files, code, settings, byHand }: Application, change: Change): void {
  const { table, columns, lacking } = change
  const [synchronized] = [...code, ...settings].find(([, text]) => SYNCHRONIZES.test(text)) ?? []
  if (synchronized !== undefined && columns.some(isConverted))
    throw new UsageError(
      `${synchronized} has synchronize, with which TypeORM would drop these columns and their values to change their type. Set synchronize: false there first, and run init again`,
    )
  const { name, path } = table
  const [before = '', read = ''] = [files.get(path), code.get(path)]
  const found = [...read.matchAll(ENTITY)].find((one) => one.groups?.name === name)
  const quote = /from (['"])typeorm/.exec(before)?.[1] ?? "'"
  let text = before
  for (const one of (found ? readProperties(read, found) : []).reverse()) {
    const { column, at, called, end, semicolon } = one
    if (!columns.some((wanted) => wanted.name === column.name)) continue
    const { index, isUnique } = column
    if (lacking.some((wanted) => wanted.name === column.name)) {
      const unique = isUnique ? ', { unique: true }' : ''
      const renamed = index.name === index.stored ? '' : ` name: ${quoteText(index.stored, quote)},`
      const lines = [
        '',
        `@${localName(before, 'Index')}(${quoteText(indexName(table, column), quote)}${unique})`,
        `@Column({ type: ${quote}text${quote},${renamed} nullable: true })`,
        `${index.name}?: string | null${semicolon}`,
      ]
      const [, indent = ''] = /^([^\S\n]*)/.exec(text.slice(text.lastIndexOf('\n', at) + 1)) ?? []
      text = text.slice(0, end) + lines.map((line) => `\n${line && indent + line}`).join('') + text.slice(end)
    }
    if (!isConverted(column)) continue
    const kept = one.options.map((option) => option.trim()).filter((option) => option && !OF_TYPE.test(option))
    text = `${text.slice(0, at)}({ ${[`type: ${quote}text${quote}`, ...kept].join(', ')} })${text.slice(called)}`
  }
  const after = lacking.length > 0 ? withNames(text, 'typeorm', { add: ['Index'], drop: [] }) : text
  files.set(path, after ?? text)
  if (after === undefined) byHand.push(`in ${path}: import { Index } from 'typeorm'`)
  const converted = convertColumns(change)
  const statements = [...converted, ...addIndexes(change)]
  if (converted.length > 0)
    byHand.push(
      `before the application starts, in the database or in a migration, since TypeORM itself would drop these columns to change their type (times without a zone are taken for those of ${change.timeZone}): ${statements.join(' ')}`,
    )
  else if (statements.length > 0) byHand.push('npx typeorm migration:generate, and npx typeorm migration:run')
}
