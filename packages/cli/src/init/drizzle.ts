/** The tables of Drizzle schemas, and what changes in them and in the database. */
import { type Application, type Column, type FieldKind, type FoundTable, guide, UNREAD_NAME } from './application.js'
import { type Change, convertTimes, isConverted } from './migration.js'
import { quoteText, readBrackets, readText, withNames } from './source-text.js'

const TABLE =
  /^(?:export )?const (?<name>\w+) = pgTable(?<call>\(\s*['"`](?<stored>[^'"`\\$]+)['"`],\s*(?:\(\w+\) => \()?)(?=\{)/gm
const PROPERTY = /^(?<before>\s*)(?<head>(?<name>\w+):\s*)(?<callee>[\w.]+)(?=\()/
const BUILDERS = 'drizzle-orm/pg-core'
/** Calls with which the adapter's work, or the stored value, differs from that of the plain type. */
const NOT_PLAIN = /\.(primaryKey|references|array|\$?default\w*|\$onUpdate\w*|\$type|generated\w*)\b/
/** The builders of columns, with their mode: the field for their values, and what PostgreSQL calls their types. */
const TYPES: Readonly<Record<string, readonly [kind: FieldKind, type: string]>> = {
  text: ['text', 'text'],
  varchar: ['text', 'character varying'],
  timestamp: ['date', 'timestamp without time zone'],
  'timestamp date': ['date', 'timestamp without time zone'],
  date: ['text', 'date'],
  'date string': ['text', 'date'],
  'date date': ['date', 'date'],
  smallint: ['number', 'smallint'],
  integer: ['number', 'integer'],
  real: ['number', 'real'],
  doublePrecision: ['number', 'double precision'],
  boolean: ['boolean', 'boolean'],
  json: ['json', 'json'],
  jsonb: ['json', 'jsonb'],
}
/** What TypeScript calls the values of a field that are not text. */
const TYPE_NAMES: Readonly<Record<string, string>> = { date: 'Date', number: 'number', boolean: 'boolean' }

interface Property {
  column: Column
  /** What makes the column: `text`, or the name that the source has for it, and its position. */
  callee: string
  at: number
  /** The blanks before it. */
  indent: string
  /** The quoted name of the column, if it is given. */
  quoted: string | undefined
  /** The positions after its call, and after its last character. */
  called: number
  end: number
}

export function readDrizzle({ code }: Application): FoundTable[] {
  return [...code].flatMap(([path, text]) =>
    [...text.matchAll(TABLE)].map((found): FoundTable => {
      const { name = '', stored = '' } = found.groups ?? {}
      const properties = readProperties(text, found.index + found[0].length)
      const ids = properties.filter(({ called, end }) => /\.primaryKey\(/.test(text.slice(called, end)))
      const columns = properties.map(({ column }) => column)
      const typeOf = (column: string) => `typeof ${name}.$inferSelect.${column}`
      return {
        orm: 'drizzle',
        name,
        stored,
        path,
        columns,
        id: ids.map(({ column }) => column.name),
        types: { name, typeOf },
      }
    }),
  )
}

function readProperties(source: string, at: number): Property[] {
  return readBrackets(source, at).parts.flatMap(({ begin, text }): Property[] => {
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
            stored: isRead ? (stored ?? name) : '',
            isNullable: !/\.notNull\(/.test(chain),
            isUnique: /\.unique\(/.test(chain),
          },
          ...(isRead ? type : { ...type, refusal: UNREAD_NAME }),
          index: { name: `${name}Index`, stored: stored === undefined ? `${name}Index` : `${stored}_index` },
        },
        ...{ callee, at: start, indent: /\n[^\S\n]*$/.exec(before)?.[0] ?? ' ', called: call.end, end },
        quoted: stored === undefined ? undefined : first,
      },
    ]
  })
}

/** Finds what a column holds, or why init does not take it. */
function readType(source: string, callee: string, options: string, chain: string) {
  const name = callee.split('.').at(-1) ?? ''
  const builder = new RegExp(`\\b(\\w+) as ${name}\\b`).exec(source)?.[1] ?? name
  const mode = /\bmode:\s*['"`](\w+)/.exec(options)?.[1]
  const [kind, type] = TYPES[mode ? `${builder} ${mode}` : builder] ?? []
  const not =
    (kind === undefined && `${builder}()${mode ? ` in mode ${mode}` : ''}`) ||
    (/\benum\b/.test(options) && 'enum') ||
    NOT_PLAIN.exec(kind === 'json' ? chain.replace(/\.\$type\b/, '') : chain)?.[1]
  return {
    kind: kind ?? 'text',
    type: (/\bwithTimezone:\s*true/.test(options) ? type?.replace('without', 'with') : type) ?? 'text',
    refusal: not ? `has ${not}, which init does not take: see ${guide('drizzle')}` : undefined,
  }
}

/** Makes `text()` of the columns that sealed text does not fit in, and adds those of indexes, and the indexes. */
export function changeDrizzle({ files, code, byHand }: Application, change: Change): void {
  const { table, columns, lacking } = change
  const { name, stored, path } = table
  const [before = '', read = ''] = [files.get(path), code.get(path)]
  const found = [...read.matchAll(TABLE)].find((one) => one.groups?.name === name)
  const { index: start = 0, 0: head = '', groups: { call = '' } = {} } = found ?? {}
  const isOf = (some: readonly Column[]) => (one: Property) => some.some((column) => column.name === one.column.name)
  const properties = readProperties(read, start + head.length).filter(isOf(columns))
  const added = properties.filter(isOf(lacking))
  const builders = added.map(({ column }) => (column.isUnique ? 'uniqueIndex' : 'index'))
  const quote = head.includes('"') ? '"' : "'"
  const makeIndexes = (param: string) =>
    added.map(({ column: { index } }, at) => {
      return `${builders[at]}(${quoteText(`${stored}_${index.stored}`, quote)}).on(${param}.${index.name})`
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
  const imported = [...(isPlain && localName(before, 'text') === 'text' ? ['text'] : []), ...(extras ? builders : [])]
  const after = withNames(text, BUILDERS, { add: imported, drop: properties.map(({ callee }) => callee) })
  files.set(path, after ?? text)
  if (!after && imported.length > 0) byHand.push(`in ${path}: import ${imported.join(', ')} from '${BUILDERS}'`)
  if (!extras)
    for (const one of makeIndexes('table')) byHand.push(`in ${path}: ${one}, in the third argument of pgTable()`)
  const converted = convertTimes(change)
  if (converted)
    byHand.push(
      `first, since drizzle-kit would leave out the zone of times, in the database or in a migration by drizzle-kit generate --custom: ${converted}`,
    )
  if (edits.length > 0) byHand.push('npx drizzle-kit generate, and npx drizzle-kit migrate; or npx drizzle-kit push')
}

interface Edit {
  at: number
  end: number
  put: string
}

/** The name that a source gives a builder of columns. */
function localName(source: string, builder: string): string {
  return new RegExp(`\\b${builder} as (\\w+)`).exec(source)?.[1] ?? builder
}

function textCall(source: string, { callee, quoted = '' }: Property, name = quoted): string {
  return `${callee.includes('.') ? callee.replace(/\w+$/, 'text') : localName(source, 'text')}(${name})`
}

function asText(source: string, property: Property): string {
  const type = TYPE_NAMES[property.column.kind]
  return `${textCall(source, property)}${type ? `.$type<${type}>()` : ''}`
}

/** The column of an index, behind that of its field. */
function indexColumn(source: string, property: Property): Edit {
  const { column, quoted, indent, end } = property
  const name = quoted && quoteText(column.index.stored, quoted[0])
  const added = `${column.index.name}: ${textCall(source, property, name)}`
  const remark = /^,[^\S\n]*\/\/[^\n]*/.exec(source.slice(end))?.[0] // it belongs to the line
  const at = end + (remark?.length ?? 0)
  return { at, end: at, put: `${remark ? '' : ','}${indent}${added}${remark ? ',' : ''}` }
}

/**
 * Finds where the indexes of a table are declared: `drizzle-kit push` adds them there without a question, while for
 * `.unique()` it asks whether to truncate the table. Undefined if that place has another form.
 *
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
  if (/\/[/*]/.test(last?.text ?? '')) return undefined // it would become a part of the comment
  const end = last ? last.begin + last.text.trimEnd().length : from + 1
  const blanks = /^\s*\n\s*/.exec(last?.text ?? '')?.[0] ?? ' '
  return (make: (param: string) => string[]) => {
    const lines = make(param).map((one, at) => (open === '[' ? one : `${added[at]?.column.index.name}: ${one}`))
    return edit(end, (last ? [''] : []).concat(lines).join(`,${blanks}`))
  }
}
