/**
 * The settings that decide which rows the server sees, and in which text form the database and the driver exchange
 * them. The owner of the database, the role or the cluster can change them for new sessions; in another form every row
 * would look forged. So each connection sets them when it begins, if no pooler is in between, and they are checked
 * before anything is judged. The style of intervals is left out, since none is read.
 */
import type { Queryable } from './db.js'

/** The value that is set, and which other values have the same effect: none by default. */
type Format = { value: string; isReadAlike?: (value: string) => boolean }

const FORMATS: Readonly<Record<string, Format>> = {
  DateStyle: { value: 'ISO, MDY', isReadAlike: (value) => value.startsWith('ISO') },
  // A zone may be given with an offset of seconds, which RFC 3339 does not allow.
  TimeZone: { value: 'UTC', isReadAlike: (value) => !/:\d+:\d/.test(value) },
  bytea_output: { value: 'hex' },
  array_nulls: { value: 'on' },
  standard_conforming_strings: { value: 'on' },
  extra_float_digits: { value: '1', isReadAlike: (value) => Number(value) >= 0 },
  client_encoding: { value: 'UTF8' },
  // The tables are compared with texts that the catalogs generate.
  quote_all_identifiers: { value: 'off' },
  // With `off`, row level security fails a statement instead of hiding rows. A pooler gets it with each statement (db.ts).
  row_security: { value: 'off' },
  // With another value, transactions that wait for each other's rows would fail.
  default_transaction_isolation: { value: 'read committed', isReadAlike: (value) => value === 'read uncommitted' },
}

/** The settings that pgbouncer sets on the back end of each transaction. It refuses others at startup. */
const KEPT_BY_POOLERS = ['DateStyle', 'TimeZone', 'standard_conforming_strings']

/** The settings that a connection begins with. The driver adds the encoding of clients. */
export function startupFormats({ isPooled }: { isPooled: boolean }): Record<string, string> {
  const names = isPooled ? KEPT_BY_POOLERS : Object.keys(FORMATS).filter((name) => name !== 'client_encoding')
  return Object.fromEntries(names.map((name) => [name, FORMATS[name]?.value ?? '']))
}

/** Sets the formats in a session: for the embedded database, whose one session serves every connection. */
export const SET_FORMATS = Object.entries(FORMATS)
  .map(([name, { value }]) => `set ${name} = '${value}'`)
  .join('; ')
/** The search path of the sessions of the embedded database. */
export const EMBEDDED_PATH = 'public, pg_temp'

/** A setting with a value with which the server cannot read rows, and what to do about it. */
export type WrongFormat = { name: string; value: string; remedy: string }

export class WrongFormatError extends Error {
  override readonly name = 'WrongFormatError'

  constructor(wrong: readonly WrongFormat[]) {
    const settings = wrong.map(({ name, value }) => `${name} is ${value}`).join(', ')
    super(
      `The database's settings are not those that eaas reads rows by: ${settings}. Nothing was judged by such rows. ` +
        `${wrong.map(({ remedy }) => remedy).join('; ')}. Sessions that are open keep the old value: have a pooler reconnect`,
    )
  }
}

/** @throws WrongFormatError if the session reads or writes text in another form than the driver */
export async function assertFormats(sql: Queryable): Promise<void> {
  const wrong = await findWrongFormats(sql)
  if (wrong.length > 0) throw new WrongFormatError(wrong)
}

/** One cheap statement if all formats are right. */
export async function findWrongFormats(sql: Queryable): Promise<WrongFormat[]> {
  const names = Object.keys(FORMATS)
  const rows = await sql<{ name: string; value: string }[]>`
    select name, pg_catalog.current_setting(name) as value from pg_catalog.unnest(${names}::pg_catalog.text[]) as s (name)`
  const wrong = rows.filter(({ name, value }) => !isRead(name, value))
  return wrong.length === 0 ? [] : findRemedies(sql, wrong)
}

function isRead(name: string, value: string): boolean {
  const format = FORMATS[name]
  return value === format?.value || (format?.isReadAlike?.(value) ?? false)
}

/** Finds what to do about changed settings, by where PostgreSQL has their values from. */
export async function findRemedies(
  sql: Queryable,
  wrong: readonly Omit<WrongFormat, 'remedy'>[],
): Promise<WrongFormat[]> {
  const rows = await sql<SettingRow[]>`
    select name, source, boot_val, pg_catalog.quote_ident(pg_catalog.current_database()) as database, pg_catalog.quote_ident(session_user) as role
    from pg_catalog.pg_settings where name = any(${wrong.map(({ name }) => name)}::text[])`
  return wrong.map(({ name, value }) => {
    const row = rows.find((found) => found.name === name)
    return { name, value, remedy: findRemedy(row ?? { name, source: '', database: '', role: '', boot_val: '' }) }
  })
}

type SettingRow = Record<'name' | 'source' | 'boot_val' | 'database' | 'role', string>

function findRemedy({ name, source, database, role, boot_val }: SettingRow): string {
  const scopes: Record<string, string> = {
    database: `database ${database}`,
    user: `role ${role}`,
    'database user': `role ${role} in database ${database}`,
    global: 'role all',
  }
  if (scopes[source]) return `Reset it: alter ${scopes[source]} reset ${name}`
  if (source === 'client' || source === 'session') {
    return `A client set ${name} in this session: restart what holds the session, the server or the pooler`
  }
  return `The cluster's configuration says so: alter database ${database} set ${name} = '${FORMATS[name]?.value ?? boot_val}'`
}
