/**
 * Check constraints with which a database refuses plaintext in a model's sealed columns. Each allows null, and
 * envelopes in the model's form (envelope-text.md 1, envelope.md 1, compact-rows.md 1). A constraint checks nothing but
 * the form.
 */
import { createHash } from 'node:crypto'
import { InvalidInputError, type RowFormat } from '@eaas/sdk'
import { type AnyModel, assertOptions, type DescribedModel, describeModel, readMembers } from '@eaas/sdk/maintenance'
import { columnNames } from './table.js'

export const DIALECTS = ['postgresql', 'mysql', 'sqlite'] as const
export type Dialect = (typeof DIALECTS)[number]

export interface SealedCheck {
  name: string
  /** The condition, for the schema of an ORM. */
  condition: string
  /** `constraint … check (…)`, as in `create table` and after `alter table … add`. */
  definition: string
}

export interface SealedColumn {
  column: string
  /** The path from the column, which holds an object, to the value. */
  path: readonly string[]
  format: RowFormat
  type: 'json' | 'text'
}

export interface SealedCheckOptions {
  dialect: Dialect
  /** The table's name without a schema: the constraints are named after it. */
  table: string
  /** The names of columns in the database, if they differ from those of the model. */
  columns?: Readonly<Record<string, string>> | undefined
  /** By the model's column names: `text` for text or varchar, the default if the model's format is text; otherwise `json`. */
  types?: Readonly<Record<string, SealedColumn['type']>> | undefined
}

/**
 * Makes the constraints of a model's table, for a migration or a schema of your own. Does not use the network.
 * `constrainTable` adds them to a table of PostgreSQL that is in use.
 *
 * @throws InvalidInputError when an option is wrong
 * @example
 * ```ts
 * const checks = sealedChecks(users, { dialect: 'mysql', table: 'users' })
 * for (const { definition } of checks) await connection.query(`alter table users add ${definition}`)
 * ```
 */
export function sealedChecks(model: AnyModel, options: SealedCheckOptions): SealedCheck[] {
  const names = ['dialect', 'table', 'columns', 'types'] satisfies (keyof SealedCheckOptions)[]
  assertOptions('sealedChecks()', options, names)
  const { dialect, table } = options
  if (!DIALECTS.includes(dialect)) throw new InvalidInputError(`dialect must be one of ${DIALECTS.join(', ')}`)
  if (typeof table !== 'string' || table === '') throw new InvalidInputError('table must be a name')
  const described = describeModel(model)
  const columns = readMembers('columns', options.columns ?? {}, columnNames(described.table))
  const types = readMembers('types', options.types ?? {}, described.table.fields)
  if (Object.values(types).some((type) => !['text', 'json'].includes(type)))
    throw new InvalidInputError('types must be text or json', undefined, { option: 'types' })
  const fallback = isTextFormat(described.format) ? 'text' : 'json'
  const find = (name: string) => ({ column: columns[name] ?? name, type: types[name] ?? fallback }) as const
  return makeSealedChecks(dialect, table, sealedColumns(described, find))
}

/** Lists the sealed values of a model's rows. @param find returns a column's name and type in the database */
export function sealedColumns(
  { fields, format, table }: Pick<DescribedModel, 'fields' | 'format' | 'table'>,
  find: (column: string) => Pick<SealedColumn, 'column' | 'type'>,
): SealedColumn[] {
  const heads = new Set(fields.map((name) => name.split('.')[0]))
  const seals = table.fields.filter((name) => !heads.has(name)) // the seal of the row
  return [...fields, ...seals].map((name) => {
    const [head = '', ...path] = name.split('.')
    return { ...find(head), path, format }
  })
}

/** @param table its name, without a schema */
export function makeSealedChecks(dialect: Dialect, table: string, columns: readonly SealedColumn[]): SealedCheck[] {
  const sql = SQL[dialect]
  return columns.map((one) => {
    const name = checkName([table, one.column, ...one.path, 'sealed'].join('_'))
    const condition = makeCondition(sql, one)
    return { name, condition, definition: `constraint ${sql.name(name)} check (${condition})` }
  })
}

/**
 * Writes a PostgreSQL migration that adds the constraints if the table holds no plaintext. Otherwise it adds none, not
 * even `not valid`: every update of a plaintext row would fail, even one of other columns.
 * @param table its name in SQL
 */
export function addSealedChecks(table: string, checks: readonly SealedCheck[]): string {
  const adds = checks.map(({ definition }) => `    add ${definition}`).join(',\n')
  // A name may contain the quote, and the rest of the name would then be SQL.
  let quote = '$$'
  for (let at = 1; `${table}${adds}`.includes(quote); at++) quote = `$eaas${at}$`
  return `-- The database refuses plaintext in these columns from here on. To a table that has some, this adds nothing:
-- npx @eaas/cli backfill with --constrain does, when it is encrypted.
do ${quote} begin
  alter table ${table}
${adds};
exception when check_violation then null;
end ${quote};
`
}

/** PostgreSQL cuts a name after 63 bytes, and two columns may begin alike. */
const MAX_NAME_BYTES = 63
const HASH_DIGITS = 8

function checkName(name: string): string {
  if (Buffer.byteLength(name) <= MAX_NAME_BYTES) return name
  const hash = createHash('sha256').update(name).digest('hex').slice(0, HASH_DIGITS)
  let head = name
  while (Buffer.byteLength(head) > MAX_NAME_BYTES - HASH_DIGITS - 1) head = [...head].slice(0, -1).join('')
  return `${head}_${hash}`
}

/** Tells whether a constraint, as PostgreSQL shows it, is one that `makeSealedChecks` made, even if it was renamed. */
export function isSealedCheck(definition: string): boolean {
  return (
    definition.includes(`^eaas[.](${ENVELOPE_TEXT.kinds.join('|')})`) ||
    (definition.includes("'ciphertext'") && definition.includes("'iv'"))
  )
}

/** How a text begins after `eaas.`, and its minimum length. No pattern has a backslash, which MySQL reads as an escape. */
type TextForm = { kinds: readonly string[]; least: number }

/** How a dialect writes the parts of a condition. A row passes where its condition gives null. */
interface Sql {
  name(name: string): string
  isEnvelopeText(text: string, form: TextForm): string
  /** Whether a text is base64 of at least this many characters, or of exactly as many. */
  isBase64(text: string, length: number, exactly?: boolean): string
  /** The column as JSON, where `ifJson` lets the condition apply. */
  json(column: string): string
  /** Applies a condition to a column that must hold JSON, whether its type is text or the database has no JSON type. */
  ifJson(column: string, type: SealedColumn['type'], condition: string): string
  /** The JSON value at a path; null if there is none. */
  at(json: string, path: readonly string[]): string
  /** The text of a JSON string; null for JSON null; for any other value, text that is not an envelope. */
  text(json: string): string
  member(json: string, name: string): string
  hasOnly(json: string, names: readonly string[]): string
  /** Whether a value is an object, JSON null or missing. */
  isObject(json: string): string
}

/** The prefix; `key_id`, `key_version` and a length; a wrapped key; an iv; a tag: 51 bytes (envelope-text.md 1). */
const ENVELOPE_TEXT: TextForm = { kinds: ['1', '2', '2s'], least: 'eaas.1.'.length + 68 }
/** An iv and a tag, in a compact row. */
const FIELD_TEXT: TextForm = { kinds: ['c'], least: 'eaas.c.'.length + 38 }
/** In base64: a tag of 16 bytes without padding, and an iv of 12 bytes. */
const LEAST_CIPHERTEXT = 22
const IV = 16
const ENVELOPE = [
  ...['ciphertext', 'iv', 'wrapped_key', 'key_id', 'key_version'],
  ...['envelope_version', 'commitment', 'application_secret'],
]

function makeCondition(sql: Sql, { column, path, format, type }: SealedColumn): string {
  const name = sql.name(column)
  if (type === 'text' && path.length === 0 && isTextFormat(format)) return makeTextCondition(sql, name, format)
  const json = sql.json(name)
  const value = path.length === 0 ? json : sql.at(json, path)
  // Every parent must be an object, since a value in its place could be plaintext.
  const parents = path.map((_, at) => sql.isObject(at === 0 ? json : sql.at(json, path.slice(0, at))))
  return sql.ifJson(name, type, [...parents, makeJsonCondition(sql, value, format)].join(' and '))
}

function makeJsonCondition(sql: Sql, value: string, format: SealedColumn['format']): string {
  const text = sql.text(value)
  if (isTextFormat(format)) return `(${makeTextCondition(sql, text, format)})`
  const isPair = (ciphertext: string, iv: string, names: readonly string[]) =>
    `${sql.isBase64(sql.member(value, ciphertext), LEAST_CIPHERTEXT)} and ${sql.isBase64(sql.member(value, iv), IV, true)} and ${sql.hasOnly(value, names)}`
  const full = `${isPair('ciphertext', 'iv', ENVELOPE)} and ${sql.isBase64(sql.member(value, 'wrapped_key'), 2)}`
  // A compact model also keeps whole envelopes that were there before.
  const forms = format === 'compact' ? `${isPair('c', 'i', ['c', 'i'])} or ${full}` : full
  return `(${text} is null or (${forms}) is true)`
}

function makeTextCondition(sql: Sql, text: string, format: RowFormat): string {
  // A compact model also keeps whole envelopes that were there before.
  const forms = format === 'text' ? [ENVELOPE_TEXT] : [ENVELOPE_TEXT, FIELD_TEXT]
  return forms.map((form) => sql.isEnvelopeText(text, form)).join(' or ')
}

/** Whether a model's fields are in text columns. */
export const isTextFormat = (format: RowFormat) => format === 'text' || format === 'compact-text'
const base64 = (length: number, exactly = false) => `'^[A-Za-z0-9+/]{${length}${exactly ? '' : ','}}=?=?$'`
const literal = (text: string) => `'${text.replaceAll("'", "''")}'`
const jsonPath = (path: readonly string[]) => ['$', ...path.map((one) => JSON.stringify(one))].join('.')

// In a text column, `null` as text is plaintext: only an object counts as JSON.
const ifJsonValid: Sql['ifJson'] = (column, type, condition) =>
  `case when json_valid(${column})${type === 'text' ? ` and ${column} like '{%'` : ''} then ${condition} else ${column} is null end`

const SQL: Readonly<Record<Dialect, Sql>> = {
  postgresql: {
    name: (name) => `"${name.replaceAll('"', '""')}"`,
    // ::text, since citext compares without regard to case.
    isEnvelopeText: (text, { kinds, least }) =>
      `${text}::text ~ '^eaas[.](${kinds.join('|')})[.][A-Za-z0-9_-]{${least - 'eaas.1.'.length},}$'`,
    isBase64: (text, length, exactly) => `${text} ~ ${base64(length, exactly)}`,
    json: (column) => `${column}::jsonb`,
    ifJson: (column, type, condition) =>
      type === 'json'
        ? condition
        : `case when ${column}::text ~ '^[[:space:]]*[{]' then ${condition} else ${column} is null end`,
    at: (json, path) => `(${json} #> array[${path.map(literal).join(', ')}])`,
    text: (json) => `(${json} #>> '{}')`,
    member: (json, name) => `(${json} ->> ${literal(name)})`,
    hasOnly: (json, names) =>
      `case jsonb_typeof(${json}) when 'object' then ${json} - array[${names.map(literal).join(', ')}] = '{}' end`,
    isObject: (json) => `coalesce(jsonb_typeof(${json}), 'null') in ('object', 'null')`,
  },
  mysql: {
    name: (name) => `\`${name.replaceAll('`', '``')}\``,
    // A collation may ignore case. No long text is matched as a whole, since a limit might abort that.
    isEnvelopeText: (text, { kinds, least }) =>
      `convert(${text} using utf8mb4) collate utf8mb4_bin regexp '^eaas[.](${kinds.join('|')})[.]' and char_length(${text}) >= ${least} and ${text} not regexp '[^A-Za-z0-9_.-]'`,
    isBase64: (text, length, exactly) =>
      `char_length(${text}) ${exactly ? '=' : '>='} ${length} and ${text} not regexp '[^A-Za-z0-9+/=]'`,
    json: (column) => column,
    ifJson: ifJsonValid,
    at: (json, path) => `json_extract(${json}, ${literal(jsonPath(path)).replaceAll('\\', '\\\\')})`,
    text: (json) => `if(json_type(${json}) = 'NULL', null, json_unquote(${json}))`,
    member: (json, name) => `json_unquote(json_extract(${json}, ${literal(jsonPath([name]))}))`,
    hasOnly: (json, names) =>
      `json_type(${json}) = 'OBJECT' and json_length(json_remove(${json}, ${names.map((one) => literal(jsonPath([one]))).join(', ')})) = 0`,
    isObject: (json) => `coalesce(json_type(${json}), 'NULL') in ('OBJECT', 'NULL')`,
  },
  sqlite: {
    name: (name) => `"${name.replaceAll('"', '""')}"`,
    isEnvelopeText: (text, { kinds, least }) =>
      `(${kinds.map((version) => `${text} glob 'eaas.${version}.*'`).join(' or ')}) and length(${text}) >= ${least} and ${text} not glob '*[^A-Za-z0-9_.-]*'`,
    isBase64: (text, length, exactly) =>
      `length(${text}) ${exactly ? '=' : '>='} ${length} and ${text} not glob '*[^A-Za-z0-9+/=]*'`,
    json: (column) => column,
    ifJson: ifJsonValid,
    at: (json, path) => `(${json} -> ${literal(jsonPath(path))})`,
    text: (json) => `json_extract(${json}, '$')`,
    member: (json, name) => `json_extract(${json}, ${literal(jsonPath([name]))})`,
    hasOnly: (json, names) => `json_remove(${json}, ${names.map((one) => literal(jsonPath([one]))).join(', ')}) = '{}'`,
    isObject: (json) => `coalesce(json_type(${json}), 'null') in ('object', 'null')`,
  },
}
