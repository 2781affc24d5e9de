/** The table of settings, from which come the variables, `--help`, the file of EAAS_CONFIG and its schema, `eaas config show`. */
import { LOG_LEVELS, type LogLevel } from '@eaas/audit/node'
import * as z from 'zod/mini'

/** A quarter of what a KEK may wrap, which is 2^32 for random ivs (NIST SP 800-38D, 8.3). */
const ROTATE_AFTER_WRAPS = 2 ** 30
const LEAST_WRAPS = 100

interface Options {
  unset?: string // what happens without the setting, in words; by default the help names no default
  /**
   * refuse an empty value, such as that of an unset `$VARIABLE`: a server would use another database or root key than
   * intended, let in clients that it should not, or purge entries without an archive
   */
  neverEmpty?: boolean
  /** `whole`: in the file of EAAS_CONFIG, a file with the value is named instead; `part`: the value may contain one. Neither is shown. */
  secret?: 'whole' | 'part'
}

export interface Setting<Value = unknown> extends Options {
  help: string // its text in `--help` and in the schema, without the default
  /** Reads a variable's text; undefined: it is not set. @throws ConfigError */
  read: (text: string | undefined, name: string) => Value
  schema: z.ZodMiniType // the form of the value in the file
  expected: string // the expected form, in messages
  join?: (list: readonly unknown[]) => string // makes the variable's text from a list in the file
}

/** Thrown for an invalid value of a setting; the message names the setting, and never contains a secret. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
}

// Named, since the compiler writes the members of other unions in the order in which it happened to read the files.
export type DatabasePooler = 'auto' | 'transaction' | 'none'
export type TenantsPerAppend = 'many' | 'one'

const ITEM = z.string().check(z.regex(/^[^,]+$/))
const TEXT = z.string().check(z.minLength(1))

function text(help: string, options: Options = {}): Setting<string | undefined> {
  return { help, ...options, read: (text) => text, schema: TEXT, expected: 'a text that is not empty' }
}

const filled = (help: string, options: Options = {}) => text(help, { ...options, neverEmpty: true })

function textOr(otherwise: string, help: string, options: Options = {}): Setting<string> {
  return { ...text(help, { ...options, unset: otherwise }), read: (text = otherwise) => text }
}

function program(help: string): Setting<string | undefined> {
  const schema = z.union([TEXT, z.array(z.string()).check(z.minLength(1))])
  const expected = 'a text, or a list of a program and its arguments'
  return { ...filled(help, { secret: 'part' }), schema, expected, join: JSON.stringify }
}

/** Separated by commas in the variable. */
function list(help: string, options: Options = { unset: 'none' }): Setting<string[]> {
  const parts = (text: string) => text.split(',').map((part) => part.trim())
  const read = (text = '') => parts(text).filter(Boolean)
  const expected = 'a list of texts without commas, such as ["a", "b"]'
  return { help, ...options, read, schema: z.array(ITEM), expected, join: (items) => items.join(',') }
}

type Range = { otherwise: number; least: number; most: number; unset?: string }

function number(help: string, { otherwise, least, most, unset = String(otherwise) }: Range): Setting<number> {
  const what = `a whole number from ${least} to ${most}`
  const read = (text = String(otherwise), name = '') => {
    if (/^\d+$/.test(text) && Number(text) >= least && Number(text) <= most) return Number(text)
    throw new ConfigError(`${name} must be ${what}, got ${text}`)
  }
  const schema = z.int().check(z.minimum(least), z.maximum(most))
  return { help, unset, read, schema, expected: `${what}, without quotation marks` }
}

/** One of these values, which the help lists at its end. */
function choice<const Value extends string>(
  help: string,
  values: readonly Value[],
  { otherwise }: { otherwise: Value },
): Setting<Value> {
  const expected = `one of ${values.join(', ')}`
  const read = (text: string = otherwise, name = '') => {
    const value = values.find((known) => known === text)
    if (value === undefined) throw new ConfigError(`${name} must be ${expected}, got ${text}`)
    return value
  }
  return { help: `${help}${values.join(', ')}`, unset: otherwise, read, schema: z.enum(values), expected }
}

const SETTINGS = {
  EAAS_CONFIG: filled(
    'a JSON file with settings other than secrets, each under its name in lower case without EAAS_; a variable overrides it',
    { unset: 'none' },
  ),
  EAAS_DATABASE_URL: filled(
    'URL of PostgreSQL, postgres://user:password@host:port/database, with several hosts separated by commas',
    { unset: 'an embedded database', secret: 'whole' },
  ),
  EAAS_DATABASE_URL_FILE: filled('a file with the URL of PostgreSQL, which each new connection reads again'),
  EAAS_DATABASE_POOLER: choice<DatabasePooler>(
    'mode of the pooler in front of PostgreSQL; with auto, the server detects it: ',
    ['auto', 'transaction', 'none'],
    { otherwise: 'auto' },
  ),
  EAAS_DATABASE_APPENDS: choice<TenantsPerAppend>(
    "to how many tenants' logs one statement may append (a database that spans machines always has one): ",
    ['many', 'one'],
    { otherwise: 'many' },
  ),
  EAAS_START_WAIT_SECONDS: number('how many seconds a starting server tries to reach PostgreSQL, 0 for one attempt', {
    otherwise: 60,
    least: 0,
    most: 3_600,
  }),
  EAAS_DATA_DIR: textOr('.eaas', 'directory of the embedded database and its root key', { neverEmpty: true }),
  EAAS_ROOT_KEY: filled('the root key, base64 of 32 bytes', {
    unset: 'root.key in the data directory, embedded database only',
    secret: 'whole',
  }),
  EAAS_ROOT_KEY_FILE: filled('a file that holds the root key'),
  EAAS_ROOT_KEY_COMMAND: program('a program that prints the root key, with its arguments; no shell is used'),
  EAAS_ROOT_KEY_SHARES: list(
    'files with shares of the root key, separated by commas; or the word ask, to enter the shares on the terminal',
    { neverEmpty: true },
  ),
  EAAS_ROOT_KEY_EXEC: program(
    'a program that uses the root key, with its arguments; the server adds wrap or unwrap, writes to its standard input and reads its standard output',
  ),
  EAAS_ROOT_KEY_TRANSIT: filled(
    'URL of a Transit key of OpenBao or Vault that is the root key: https://host:8200/v1/transit/keys/NAME',
    { secret: 'part' },
  ),
  EAAS_ROOT_KEY_TRANSIT_TOKEN_FILE: text('a file with the token for OpenBao or Vault'),
  EAAS_ROOT_KEY_TRANSIT_APPROLE_FILE: text(
    'a file with an AppRole to use instead of a token: role_id and secret_id, one per line',
  ),
  EAAS_ROOT_KEY_AWS_KMS: filled(
    'the ARN of the AWS KMS key that is the root key; needs the package @aws-sdk/client-kms',
  ),
  EAAS_HOST: textOr('127.0.0.1', 'address to listen on'),
  EAAS_PORT: number('port to listen on, 0 for any free port', { otherwise: 8420, least: 0, most: 65_535 }),
  EAAS_SOCKET: text('path of a unix socket to listen on instead of an address', { unset: 'none' }),
  EAAS_SOCKET_MODE: textOr('660', 'file mode of the socket, which limits who may connect'),
  EAAS_TLS_CERT_FILE: filled('a file with the certificate chain for TLS, in PEM', { unset: 'none, plain HTTP' }),
  EAAS_TLS_KEY_FILE: filled(
    'a file with the private key for TLS, in PEM; the server reads both files again when they change, and at SIGHUP',
  ),
  EAAS_TLS_CLIENT_CA_FILE: filled(
    'a file with authorities, in PEM; besides its API key, each client must show a certificate that one of them issued',
    { unset: 'none' },
  ),
  EAAS_TLS_MIN_VERSION: choice('the earliest version of TLS that clients may use: ', ['1.3', '1.2'], {
    otherwise: '1.3',
  }),
  EAAS_TRUST_PROXY: list(
    'addresses or CIDR ranges, separated by commas, of proxies whose X-Forwarded-For the server trusts; unix for proxies that connect to EAAS_SOCKET',
  ),
  EAAS_CORS_ORIGINS: list(
    'origins of pages that may call the API, such as https://app.example.org, separated by commas',
  ),
  EAAS_OPERATOR_API: choice(
    'whether the server serves /admin/v1 to the API keys of operators (eaas operator-key); let only operators reach it: ',
    ['off', 'on'],
    { otherwise: 'off' },
  ),
  EAAS_CONSOLE: choice('whether the server serves the web console at /console: ', ['off', 'on'], { otherwise: 'on' }),
  EAAS_DESTROY_WINDOW_DAYS: number('days between the request to destroy a key and its destruction, 0 for at once', {
    otherwise: 7,
    least: 0,
    most: 3_650,
  }),
  EAAS_ROTATE_AFTER_WRAPS: number(
    `DEKs that a version of a key wraps before the server rotates the key, ${LEAST_WRAPS} to ${ROTATE_AFTER_WRAPS}`,
    { otherwise: ROTATE_AFTER_WRAPS, least: LEAST_WRAPS, most: ROTATE_AFTER_WRAPS },
  ),
  EAAS_AUDIT_RETENTION_MONTHS: number(
    'months after which servers purge audit entries for good, 0 to keep them; see eaas purge --help',
    { otherwise: 60, least: 0, most: 1_200 },
  ),
  EAAS_AUDIT_ARCHIVE_DIR: filled('directory to which the server exports entries before it purges them', {
    unset: 'none',
  }),
  EAAS_CHECKPOINT_FILE: text(
    'file for signed checkpoints, which the server compares with the database at each start; - for standard output, none for no checkpoints',
    { unset: 'checkpoints in the data directory; with PostgreSQL in $STATE_DIRECTORY, if that is set' },
  ),
  EAAS_CHECKPOINT_MINUTES: number('minutes between two checkpoints of a growing log', {
    otherwise: 60,
    least: 1,
    most: 10_080,
  }),
  EAAS_WITNESSES: list(
    "up to three witnesses that cosign the installation's log, separated by commas; write the key, a space and the URL of each",
  ),
  EAAS_AUDIT_VERIFY_HOURS: number(
    'hours after which one server of the installation verifies every log again, 0 for never',
    { otherwise: 24, least: 0, most: 8_760 },
  ),
  EAAS_MAX_CLOCK_SKEW_SECONDS: number(
    "how many seconds the server's clock and the database's may differ before the server stops writing; 0 disables the check",
    { otherwise: 300, least: 0, most: 86_400 },
  ),
  EAAS_DRAIN_SECONDS: number(
    'how many seconds the server still serves calls after SIGTERM, while /health answers 503',
    { otherwise: 0, least: 0, most: 3_600, unset: '0; set 15 behind a balancer' },
  ),
  EAAS_LOG_LEVEL: choice<LogLevel>('least severe level that the server logs: ', LOG_LEVELS, { otherwise: 'info' }),
} satisfies Record<string, Setting>

export type Variable = keyof typeof SETTINGS
/** The value that is read from each variable. */
export type Values = { [Name in Variable]: ReturnType<(typeof SETTINGS)[Name]['read']> }

export const NAMES = Object.keys(SETTINGS) as readonly Variable[]

export function getSetting(name: Variable): Setting {
  return SETTINGS[name]
}

export const VARIABLES = Object.fromEntries(
  NAMES.map((name) => {
    const { help, unset } = getSetting(name)
    return [name, unset === undefined ? help : `${help} (default: ${unset})`]
  }),
) as Readonly<Record<Variable, string>>

export function nameInFile(variable: string): string {
  return variable.replace(/^EAAS_/, '').toLowerCase()
}
