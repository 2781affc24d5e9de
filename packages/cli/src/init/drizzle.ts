/** The tables of Drizzle schemas, and how they and the database change. */
import { type Application, type Column, type FieldKind, type FoundTable, UNREAD_NAME } from './application.js'
import { type Change, convertByHand, isConverted } from './migration.js'
import { localName, quoteText, readBrackets, readText, withNames } from './source-text.js'

const TABLE =
  /^(?:export )?const (?<name>\w+) = (?<maker>[\w.]+|(?:\w+\.)?pgSchema\([^()]*\)\.table)(?<call>\(\s*['"`](?<stored>[^'"`\\$]+)['"`],\s*(?:\(\w+\) => \()?)(?=\{)/gm
const PROPERTY = /^(?<before>\s*)(?<head>(?<name>\w+):\s*)(?<callee>[\w.]+)(?=\()/
const BUILDERS = 'drizzle-orm/pg-core'
/** Functions that make tables: of a schema, or with a prefix or suffix on their names. */
const SCHEMA = /^(?:\w+\.)?pgSchema\(\s*['"`]([^'"`\\$]+)['"`]\s*\)/
const CREATOR = /^(?:\w+\.)?pgTableCreator\(\s*\(?(\w+)\)?\s*=>\s*`([^`\\$]*)\$\{\1\}([^`\\$]*)`\s*,?\s*\)/
/** Calls that change the stored value, or the adapter's work, from that of the plain type. */
const NOT_PLAIN = /\.(references|array|default\w*|\$onUpdate\w*|\$type|generated\w*)\b/
/** Advice about these calls, by the beginning of their names. */
const REMEDIES: Readonly<Record<string, string>> = {
  references: 'and the database cannot compare encrypted values with those of another table',
  array: 'which init does not take: make it jsonb() first, in the schema and the database',
  default: 'which the database would store unencrypted: put $defaultFn(() => …) in its place, and run init again',
  $onUpdate: 'which init does not take: give the value in each update, and run init again',
  generated: 'which the database would fill: make the value in the application, and run init again',
  $type: 'which init does not take: take it away, and run init again',
  enum: 'which init does not take: take it away, and run init again',
}
/** The builders of columns with their modes: the field for their values, and their types in PostgreSQL. */
const TYPES: Readonly<Record<string, readonly [kind: FieldKind, type: string]>> = {
  text: ['text', 'text'],
  varchar: ['text', 'character varying'],
  numeric: ['text', 'numeric'],
  'numeric string': ['text', 'numeric'],
  decimal: ['text', 'numeric'],
  'decimal string': ['text', 'numeric'],
  uuid: ['text', 'uuid'],
  timestamp: ['date', 'timestamp without time zone'],
  'timestamp date': ['date', 'timestamp without time zone'],
  date: ['text', 'date'],
  'date string': ['text', 'date'],
  'date date': ['date', 'date'],
  smallint: ['number', 'smallint'],
  integer: ['number', 'integer'],
  'bigint number': ['number', 'bigint'],
  real: ['number', 'real'],
  doublePrecision: ['number', 'double precision'],
  boolean: ['boolean', 'boolean'],
  json: ['json', 'json'],
  jsonb: ['json', 'jsonb'],
}
const TYPE_NAMES: Readonly<Record<string, string>> = { date: 'Date', number: 'number', boolean: 'boolean' }

interface Property {
  column: Column
  /** The function that makes the column, such as `text`, under the source's name for it, and its position. */
  callee: string
  at: number
  indent: string
  quoted: string | undefined
  /** The name for its index's column, if Drizzle would generate another one. */
  indexName: string | undefined
  /** The positions after its call, and after the whole property. */
  called: number
  end: number
}

export function readDrizzle({ code, settings }: Application): FoundTable[] {
  return [...code].flatMap(([path, text]) =>
    [...text.matchAll(TABLE)].flatMap((found): FoundTable[] => {
      const { name = '', maker = '', stored = '' } = found.groups ?? {}
      const made = readMaker(text, maker, code)
      if (!made) return []
      const properties = readProperties(text, found.index + found[0].length, isSnakeCase({ code, settings }))
      const ids = properties.filter(({ called, end }) => /\.primaryKey\(/.test(text.slice(called, end)))
      const columns = properties.map(({ column }) => column)
      const typeOf = (column: string) => `typeof ${name}.$inferSelect.${column}`
      return [
        {
          ...{ orm: 'drizzle', name, path, columns, id: ids.map(({ column }) => column.name) },
          ...{ stored: made.before + stored + made.after, schema: made.schema, types: { name, typeOf } },
        },
      ]
    }),
  )
}

/** Finds how a function names tables, in its source or in others; undefined if it makes none, or init cannot read it. */
function readMaker(text: string, maker: string, code: ReadonlyMap<string, string>) {
  const [head = '', method] = maker.split(/\.(?=\w+$)/)
  const plain = { before: '', after: '', schema: undefined }
  if (method === 'pgTable' || maker === localName(text, 'pgTable')) return plain
  const declared = new RegExp(`\\bconst ${/^\w+$/.exec(head)} =\\s*(.*(?:\\n[^\\S\\n].*)*)`)
  const find = (some: Iterable<string>) => new Set([...some].flatMap((source) => declared.exec(source)?.[1] ?? []))
  const [own] = find([text])
  const [made = head, other] = own ? [own] : find(code.values())
  if (other !== undefined) return undefined // only its import says which
  const schema = SCHEMA.exec(made)?.[1]
  if (method === 'table') return schema && { ...plain, schema }
  const [, , before = '', after = ''] = (!method && CREATOR.exec(made)) || []
  return before || after ? { ...plain, before, after } : undefined
}

/** Whether Drizzle generates the names of columns that have none. */
function isSnakeCase({ code, settings }: Pick<Application, 'code' | 'settings'>): boolean {
  return [...code, ...settings].some(([, text]) => /\bcasing:\s*['"`]snake_case/.test(text))
}

/** As Drizzle does with `casing`. */
function toSnakeCase(name: string): string {
  return (name.match(/[\da-z]+|[A-Z]+(?![a-z])|[A-Z][\da-z]+/g) ?? []).join('_').toLowerCase()
}

function readProperties(source: string, at: number, isSnake: boolean): Property[] {
  const casing = (name: string) => (isSnake ? toSnakeCase(name) : name)
  const properties = readBrackets(source, at).parts.flatMap(({ begin, text }): Property[] => {
    const { before = '', head = '', name, callee = '' } = PROPERTY.exec(text)?.groups ?? {}
    if (name === undefined) return []
    const start = begin + before.length + head.length
    const call = readBrackets(source, start + callee.length)
    const end = begin + text.trimEnd().length
    const [first = '', ...others] = call.parts.map((part) => part.text.trim())
    const stored = readText(first)
    const options = stored === undefined ? first : others.join()
    const chain = source.slice(call.end, end)
    const type = readType(source, callee, options, chain)
    const isRead = stored !== undefined || /^(\{|$)/.test(first)
    return [
      {
        column: {
          ...{
            name,
            stored: isRead ? (stored ?? casing(name)) : '',
            isNullable: !/\.notNull\(/.test(chain),
            isUnique: /\.unique\(/.test(chain),
          },
          ...(isRead ? type : { ...type, refusal: UNREAD_NAME }),
          index: { name: '', stored: '' },
        },
        ...{ callee, at: start, indent: /\n[^\S\n]*$/.exec(before)?.[0] ?? ' ', called: call.end, end },
        quoted: stored === undefined ? undefined : first,
        indexName: undefined,
      },
    ]
  })
  // Index columns are named as the other columns are.
  const some = (pattern: RegExp, key: 'name' | 'stored') => properties.some(({ column }) => pattern.test(column[key]))
  const isQuoted = properties.some(({ quoted }) => quoted !== undefined)
  const end = isSnake || some(/_/, 'stored') || (isQuoted && !some(/[a-z][A-Z]/, 'stored')) ? '_index' : 'Index'
  return properties.map((one) => {
    const index = { name: one.column.name + (some(/_/, 'name') ? '_index' : 'Index'), stored: one.column.stored + end }
    const isGiven = one.quoted !== undefined || casing(index.name) !== index.stored
    return { ...one, column: { ...one.column, index }, indexName: isGiven ? index.stored : undefined }
  })
}

/** Finds what a column holds, or why init refuses it. */
function readType(source: string, callee: string, options: string, chain: string) {
  const name = callee.split('.').at(-1) ?? ''
  const builder = new RegExp(`\\b(\\w+) as ${name}\\b`).exec(source)?.[1] ?? name
  const mode = /\bmode:\s*['"`](\w+)/.exec(options)?.[1]
  const [kind, type] = TYPES[mode ? `${builder} ${mode}` : builder] ?? []
  const not =
    (/\benum\b/.test(options) && 'enum') ||
    NOT_PLAIN.exec(kind === 'json' ? chain.replace(/\.\$type\b/, '') : chain)?.[1]
  const remedy = Object.entries(REMEDIES).find(([start]) => not?.startsWith(start))?.[1]
  const other = builder === 'timestamp' ? "give it mode: 'date'" : 'make it text(), in the schema and the database,'
  const reasons = [
    /\.primaryKey\(/.test(chain) && 'is the id',
    not && `has ${not}, ${remedy}`,
    kind === undefined &&
      `has ${builder}()${mode ? ` in mode ${mode}` : ''}, which init does not take: ${other} first, and run init again`,
  ]
  return {
    kind: kind ?? 'text',
    type: (/\bwithTimezone:\s*true/.test(options) ? type?.replace('without', 'with') : type) ?? 'text',
    refusal: reasons.find((reason) => typeof reason === 'string'),
  }
}

/** Makes columns `text()` where sealed text does not fit, and adds index columns and indexes. */
export function changeDrizzle(app: Application, change: Change): void {
  const { files, code, byHand } = app
  const { table, columns, lacking } = change
  const { name, stored, path } = table
  const [before = '', read = ''] = [files.get(path), code.get(path)]
  const found = [...read.matchAll(TABLE)].find((one) => one.groups?.name === name)
  const { index: start = 0, 0: head = '', groups: { call = '' } = {} } = found ?? {}
  const isOf = (some: readonly Column[]) => (one: Property) => some.some((column) => column.name === one.column.name)
  const properties = readProperties(read, start + head.length, isSnakeCase(app)).filter(isOf(columns))
  const added = properties.filter(isOf(lacking))
  const builders = added.map(({ column }) => (column.isUnique ? 'uniqueIndex' : 'index'))
  const [, all] = new RegExp(`\\bimport \\* as (\\w+) from ['"]${BUILDERS}['"]`).exec(before) ?? []
  const called = (builder = '') => (all ? `${all}.${builder}` : localName(before, builder))
  const quote = head.includes('"') ? '"' : "'"
  const makeIndexes = (param: string) =>
    added.map(({ column: { index } }, at) => {
      return `${called(builders[at])}(${quoteText(`${stored}_${index.stored}_idx`, quote)}).on(${param}.${index.name})`
    })
  const extras = added.length > 0 ? extrasOf(before, start + head.length - call.length, added) : undefined
  const edits = properties.flatMap((one) => [
    ...(isConverted(one.column) ? [{ at: one.at, end: one.called, put: asText(before, one) }] : []),
    ...(added.includes(one) ? [indexColumn(before, one)] : []),
  ])
  if (extras) edits.push(extras(makeIndexes))
  const text = edits
    .sort((one, other) => other.at - one.at)
    .reduce((text, { at, end, put }) => text.slice(0, at) + put + text.slice(end), before)
  const isPlain = properties.some(({ column, callee }) => isConverted(column) && !callee.includes('.'))
  const imported = [
    ...(isPlain && localName(before, 'text') === 'text' ? ['text'] : []),
    ...(extras && !all ? builders : []),
  ]
  const after = withNames(text, BUILDERS, { add: imported, drop: properties.map(({ callee }) => callee) })
  files.set(path, after ?? text)
  if (!after && imported.length > 0) byHand.push(`in ${path}: import ${imported.join(', ')} from '${BUILDERS}'`)
  if (!extras)
    for (const one of makeIndexes('table')) byHand.push(`in ${path}: ${one}, in the third argument of pgTable()`)
  const converted = convertByHand(change)
  if (converted)
    byHand.push(
      `first, since the cast by drizzle-kit could change values, in the database or in a migration by drizzle-kit generate --custom: ${converted}`,
    )
  if (edits.length > 0) byHand.push('npx drizzle-kit generate, and npx drizzle-kit migrate; or npx drizzle-kit push')
}

type Edit = { at: number; end: number; put: string }

function textCall(source: string, { callee, quoted = '' }: Property, name = quoted): string {
  return `${callee.includes('.') ? callee.replace(/\w+$/, 'text') : localName(source, 'text')}(${name})`
}

function asText(source: string, property: Property): string {
  const type = TYPE_NAMES[property.column.kind]
  return `${textCall(source, property)}${type ? `.$type<${type}>()` : ''}`
}

function indexColumn(source: string, property: Property): Edit {
  const { column, quoted, indent, end, indexName } = property
  const quote = quoted?.[0] ?? (/(["'])drizzle-orm/.exec(source)?.[1] || "'")
  const name = indexName === undefined ? '' : quoteText(indexName, quote)
  const added = `${column.index.name}: ${textCall(source, property, name)}`
  const remark = /^,[^\S\n]*\/\/[^\n]*/.exec(source.slice(end))?.[0] // a comment on the same line belongs to it
  const at = end + (remark?.length ?? 0)
  return { at, end: at, put: `${remark ? '' : ','}${indent}${added}${remark ? ',' : ''}` }
}

/**
 * Finds where a table's indexes are declared; undefined if that place has another form. Not `.unique()`: for that,
 * `drizzle-kit push` asks whether to truncate the table, while it adds an index here without a question.
 * @param at the bracket of pgTable()
 */
function extrasOf(source: string, at: number, added: readonly Property[]) {
  const [, columns, extras] = readBrackets(source, at).parts
  const edit = (at: number, put: string): Edit => ({ at, end: at, put })
  const declared = columns?.text.trimEnd() ?? ''
  if (columns && !extras && /[})]$/.test(declared)) {
    const end = columns.begin + declared.length
    return (make: (param: string) => string[]) => edit(end, `, (table) => [${make('table').join(', ')}]`)
  }
  const [head, param = '', open] = /^\s*\(?(\w+)\)?\s*=>\s*(\[|\(\{)/.exec(extras?.text ?? '') ?? []
  if (!extras || head === undefined) return undefined
  const from = extras.begin + head.length - 1
  const last = readBrackets(source, from).parts.at(-1)
  if (/\/[/*]/.test(last?.text ?? '')) return undefined // an addition would become part of the comment
  const end = last ? last.begin + last.text.trimEnd().length : from + 1
  const blanks = /^\s*\n\s*/.exec(last?.text ?? '')?.[0] ?? ' '
  return (make: (param: string) => string[]) => {
    const lines = make(param).map((one, at) => (open === '[' ? one : `${added[at]?.column.index.name}: ${one}`))
    return edit(end, (last ? [''] : []).concat(lines).join(`,${blanks}`))
  }
}
