/** Values of PostgreSQL as text, for comparing and writing, and as a model takes them. */
import { counted, encodeBase64 } from '@eaas/protocol'
import { InvalidInputError } from '@eaas/sdk'
import { isKept } from '@eaas/sdk/maintenance'

export interface PostgresColumn {
  name: string
  /** The type without a length, for casts. */
  type: string
  /** A domain's base type, or the type itself. */
  base: string
  maxLength: number | undefined
  isEnum: boolean
}

const JSON_TYPES = ['json', 'jsonb']
const TEXT_TYPES = ['text', 'character varying', 'citext']
/** The shortest envelope has about this many characters. */
const LEAST_LENGTH = 256

export function isJson({ base }: PostgresColumn): boolean {
  return JSON_TYPES.includes(base)
}

export function assertHoldsEnvelopes(found: PostgresColumn): void {
  const { name, base, maxLength } = found
  const column = `the column ${JSON.stringify(name)}`
  const { action, note } = toText(found)
  const hint = `Give it the type text first: alter table … ${action}${note === undefined ? '' : `, ${note}`}; or add a column of that type, and move the values into it in the same way.`
  if (![...JSON_TYPES, ...TEXT_TYPES].includes(base))
    throw new InvalidInputError(`${column} is of type ${base}, which cannot hold an encrypted value`, hint)
  if (maxLength !== undefined && maxLength < LEAST_LENGTH) {
    const message = `${column} holds at most ${counted(maxLength, 'character')}, which no encrypted value fits`
    throw new InvalidInputError(message, hint)
  }
}

/** The action of `alter table` that turns a column into text, with a note where it is not right for all values. */
export function toText({ name, base }: PostgresColumn): { action: string; note?: string } {
  const column = quoteName(name)
  const alter = `alter column ${column} type text`
  if (TEXT_TYPES.includes(base)) return { action: alter }
  if (base === 'bytea') {
    const note = `for a field of bytes(), or convert_from(${column}, 'UTF8') for one of text()`
    return { action: `${alter} using encode(${column}, 'base64')`, note }
  }
  const action = `${alter} using ${fieldText(column, base)}`
  return base === 'timestamp without time zone' ? { action, note: 'if its times are UTC' } : { action }
}

/** The setting that fixes the text of a type, which otherwise depends on the session. */
const CAST_SETTINGS: Readonly<Record<string, readonly [name: string, value: string]>> = {
  real: ['extra_float_digits', '1'],
  'double precision': ['extra_float_digits', '1'],
  interval: ['IntervalStyle', 'postgres'],
}

/**
 * Returns SQL for the text from which a field reads a column's value exactly, whatever the session's settings. JSON has
 * days and times in ISO 8601, and `set_config` acts on the statement or its transaction. Times keep their milliseconds,
 * as drivers return them. A time without a zone is taken for UTC. `timestamp` stands for any type of time; one without
 * a zone is then in the session's zone.
 * @param column as SQL has it
 */
export function fieldText(column: string, base: string): string {
  if (base === 'date') return `to_json(${column})#>>'{}'`
  const [name, value] = CAST_SETTINGS[base] ?? []
  if (name) return `case when set_config('${name}', '${value}', true) <> '' then ${column}::text end`
  if (!base.startsWith('timestamp')) return `${column}::text`
  if (base === 'timestamp') return fieldText(`${column}::timestamptz`, 'timestamp with time zone')
  const time = base === 'timestamp with time zone' ? `${column} at time zone 'UTC'` : column
  return `to_json(date_trunc('milliseconds', ${time}))#>>'{}' || 'Z'`
}

/**
 * Types whose values every driver returns as the text or whole number that PostgreSQL shows, or parses from JSON as
 * `readColumn` does. `character` is missing, since drivers return its padding, and `inet`, since they leave out its
 * mask.
 */
const BOUND_TYPES = [
  ...[...TEXT_TYPES, ...JSON_TYPES, 'name', 'uuid'],
  ...['smallint', 'integer', 'bigint', 'numeric', 'oid'],
]

/** Refuses a column that applications bind in another form: what is sealed here would never open there. @throws */
export function assertBinds({ name, base, isEnum }: PostgresColumn, use = 'the model binds to'): void {
  if (isEnum || BOUND_TYPES.includes(base)) return
  throw new InvalidInputError(
    `${use} the column ${JSON.stringify(name)} of type ${base}, which drivers return otherwise than as its text`,
    'Bind to a column of a type such as text, varchar, uuid, bigint, numeric or an enum, or give this one such a type first.',
  )
}

/** Reads a value for the model: JSON from JSON columns, lists from arrays, text from all others. */
export function readColumn(column: PostgresColumn, text: string | null): unknown {
  const { base } = column
  if (text === null) return null
  if (isJson(column)) {
    const value: unknown = JSON.parse(text)
    return isKept(text, value) ? value : Symbol('JSON with a number that JavaScript cannot hold, or with a name twice')
  }
  // Only indexes are lists. Their values are hexadecimal digits, so none is quoted.
  if (base === 'text[]') return text === '{}' ? [] : text.slice(1, -1).split(',')
  return text
}

/** Writes a row's value. A date becomes ISO 8601, and bytes become base64, in JSON too. */
export function writeColumn({ base }: PostgresColumn, value: unknown): string | null {
  if (value === null || value === undefined) return null
  if (base === 'text[]' && Array.isArray(value)) return `{${value.join(',')}}`
  const plain = value instanceof Date ? value.toISOString() : asText(value)
  return typeof plain === 'string' && !JSON_TYPES.includes(base)
    ? plain
    : JSON.stringify(plain, (_, one) => asText(one))
}

/** Matches NUL and lone surrogates in JSON, which `jsonb` refuses. */
const NOT_IN_JSONB = /(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f])/

export function findUnfit(column: PostgresColumn, value: unknown): string | undefined {
  if (value instanceof Date && !/^(?!0000)\d{4}-/.test(value.toISOString()))
    return 'its value is a date before the year 1 or after 9999, whose text in ISO 8601 PostgreSQL does not read'
  const written = writeColumn(column, value) ?? ''
  const isUnfit = column.base === 'jsonb' ? NOT_IN_JSONB.test(written) : written.includes('\0')
  return isUnfit ? `its value has a character, such as NUL, that no ${column.base} of PostgreSQL holds` : undefined
}

function asText(value: unknown): unknown {
  return value instanceof Uint8Array ? encodeBase64(value) : value
}

export function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
