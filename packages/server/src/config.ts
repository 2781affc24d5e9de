/** The server's configuration: the only reader of the environment. */
import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { join, resolve } from 'node:path'
import { LOG_LEVELS, type LogLevel } from '@eaas/audit/node'
import { findWrongParameter, readDatabaseUrl, SSL_MODES, URL_PARAMETERS } from './database-url.js'

const MAX_PORT = 65_535
const MAX_DESTROY_WINDOW_DAYS = 3_650
const MAX_RETENTION_MONTHS = 1_200
const MAX_CHECKPOINT_MINUTES = 10_080
const MAX_VERIFY_HOURS = 8_760
const MAX_CLOCK_SKEW_SECONDS = 86_400
const MAX_DRAIN_SECONDS = 3_600
const POOLERS = ['auto', 'transaction', 'none'] as const
const TENANTS_PER_APPEND = ['many', 'one'] as const
const MAX_START_WAIT_SECONDS = 3_600
const MOST_WITNESSES = 3

export interface Config {
  /** undefined: the embedded database in `dataDir` */
  databaseUrl: string | undefined
  /** what is between the server and PostgreSQL; `auto` is detected at the first connection */
  databasePooler: (typeof POOLERS)[number]
  /** whether one statement appends to the logs of many tenants */
  tenantsPerAppend: (typeof TENANTS_PER_APPEND)[number]
  /** how long a starting server waits for a PostgreSQL that cannot be reached */
  startWaitSeconds: number
  /** undefined: that of the embedded database */
  rootKey: RootKeySetting | undefined
  /** how the server logs in to the Transit engine that has the root key */
  transitLogin: RootKeySetting['login']
  dataDir: string
  host: string
  port: number
  trustProxy: string[]
  /** origins of pages that may call the API from a browser; none by default */
  corsOrigins: string[]
  destroyWindowDays: number
  auditRetentionMonths: number
  /** where entries are exported to before they are purged; undefined: nowhere */
  auditArchiveDir: string | undefined
  /**
   * the file that checkpoints are written to, and compared from at start; `-` is standard output; undefined:
   * none
   */
  checkpointFile: string | undefined
  checkpointMinutes: number
  /** who cosigns the tree of the installation's log */
  witnesses: WitnessAddress[]
  /** hours between two verifications of every log; 0: none */
  auditVerifyHours: number
  /**
   * how far the server's clock and the database's may differ before nothing is written; Infinity: not checked
   */
  maxClockSkewMs: number
  /** how long a stopping server still serves while /health turns callers away */
  drainSeconds: number
  /**
   * device and inode of the stream that systemd keeps in its journal, `device:inode` (systemd.exec(5));
   * undefined: not a unit
   */
  journalStream: string | undefined
  logLevel: LogLevel
  /** variables named like the server's that it does not know: perhaps misspelt, perhaps another program's */
  unknownVariables: string[]
}

/** Where the root key is, and the variable that says so. */
export const ROOT_KEY_VARIABLES = {
  variable: 'EAAS_ROOT_KEY',
  file: 'EAAS_ROOT_KEY_FILE',
  command: 'EAAS_ROOT_KEY_COMMAND',
  exec: 'EAAS_ROOT_KEY_EXEC',
  transit: 'EAAS_ROOT_KEY_TRANSIT',
  'aws-kms': 'EAAS_ROOT_KEY_AWS_KMS',
} as const

/** Where the root key is. */
export interface RootKeySetting {
  kind: keyof typeof ROOT_KEY_VARIABLES
  /** what its variable holds */
  value: string
  login: {
    /** a file with a token */
    tokenFile: string | undefined
    /** a file with the ids of an AppRole's role and secret, a line each */
    appRoleFile: string | undefined
  }
}

/** A witness that the server asks. */
export interface WitnessAddress {
  /** its public key as written; the reader of keys checks it */
  key: string
  /** what `/add-checkpoint` is added to */
  url: string
}

/**
 * Thrown when a variable has an invalid value; the message names the variable, and never contains a secret.
 */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
}

/** Each variable with its text in `--help`. */
export const VARIABLES = {
  EAAS_DATABASE_URL:
    'PostgreSQL to use, postgres://user:password@host:port/database, several hosts separated by commas (default: an embedded database)',
  EAAS_DATABASE_URL_FILE: 'a file that holds it instead',
  EAAS_DATABASE_POOLER: `how PostgreSQL is reached, where transaction means through a pooler in that mode: ${POOLERS.join(', ')} (default: auto, detected)`,
  EAAS_DATABASE_APPENDS: `tenants whose audit entries one statement appends, one for a database that is sharded by tenant: ${TENANTS_PER_APPEND.join(', ')} (default: many)`,
  EAAS_START_WAIT_SECONDS:
    'seconds that a starting server keeps trying to reach PostgreSQL, 0 for one attempt (default: 60)',
  EAAS_DATA_DIR: 'directory of the embedded database and its root key (default: .eaas)',
  EAAS_ROOT_KEY: 'the root key, base64 of 32 bytes (default: root.key in the data directory, embedded database only)',
  EAAS_ROOT_KEY_FILE: 'a file that holds the root key',
  EAAS_ROOT_KEY_COMMAND: 'a program with its arguments that prints the root key; no shell reads them',
  EAAS_ROOT_KEY_EXEC:
    'a program with its arguments that holds the root key: called with wrap or unwrap besides, from standard input to standard output',
  EAAS_ROOT_KEY_TRANSIT: 'a key of OpenBao or Vault as the root key: https://host:8200/v1/transit/keys/NAME',
  EAAS_ROOT_KEY_TRANSIT_TOKEN_FILE: 'a file with the token for it',
  EAAS_ROOT_KEY_TRANSIT_APPROLE_FILE: 'or a file with the AppRole for it: role_id and secret_id, a line each',
  EAAS_ROOT_KEY_AWS_KMS: 'the ARN of a key of AWS KMS as the root key; needs the package @aws-sdk/client-kms',
  EAAS_HOST: 'address to listen on (default: 127.0.0.1)',
  EAAS_PORT: 'port to listen on, 0 for any free one (default: 8420)',
  EAAS_TRUST_PROXY:
    'addresses or CIDR ranges of the proxies whose X-Forwarded-For is trusted, separated by commas (default: none)',
  EAAS_CORS_ORIGINS:
    'origins of pages that may call the API, such as https://app.example.org, separated by commas (default: none)',
  EAAS_DESTROY_WINDOW_DAYS: 'days between the request to destroy a key and its destruction, 0 for at once (default: 7)',
  EAAS_AUDIT_RETENTION_MONTHS:
    'months after which audit entries are purged for good, 0 keeps them; what looks wrong is held back until you act: see eaas purge --help (default: 60)',
  EAAS_AUDIT_ARCHIVE_DIR: 'directory that entries are exported to before they are purged (default: none)',
  EAAS_CHECKPOINT_FILE:
    'file for signed checkpoints, which a start compares the database with; - for standard output, none for no checkpoints ' +
    '(default: checkpoints in the data directory, or with PostgreSQL in $STATE_DIRECTORY if that is set)',
  EAAS_CHECKPOINT_MINUTES: 'minutes between two checkpoints of a log that grew (default: 60)',
  EAAS_WITNESSES:
    "up to three witnesses that cosign the installation's log, each its key, a blank and its URL, separated by commas (default: none)",
  EAAS_AUDIT_VERIFY_HOURS:
    'hours between two verifications of every log, which one of the servers of an installation does, 0 is never (default: 24)',
  EAAS_MAX_CLOCK_SKEW_SECONDS:
    "seconds that this clock and the database's may differ before nothing is written, 0 disables the check (default: 300)",
  EAAS_DRAIN_SECONDS:
    'seconds between SIGTERM, from which /health answers 503, and the end of serving (default: 0; behind a balancer: 15)',
  EAAS_LOG_LEVEL: `${LOG_LEVELS.join(', ')} (default: info)`,
} as const satisfies Record<string, string>

/** What the SDK's command reads, which may be set in the same shell. */
const SDK_VARIABLES: readonly string[] = ['EAAS_BASE_URL', 'EAAS_API_KEY']

type Variable = keyof typeof VARIABLES
type Environment = Readonly<Record<string, string | undefined>>

/**
 * Without these a server takes another database, or another root key, than was meant: empty, as `$UNSET`
 * makes them, they are refused.
 */
const NEVER_EMPTY = ['EAAS_DATABASE_URL', 'EAAS_DATABASE_URL_FILE', ...Object.values(ROOT_KEY_VARIABLES)] as const

/**
 * Reads the configuration. Any other empty variable than those of `NEVER_EMPTY` counts as unset. @throws
 * ConfigError
 */
export function readConfig(environment: Environment): Config {
  const empty = NEVER_EMPTY.find((name) => environment[name] === '')
  if (empty !== undefined) {
    throw new ConfigError(
      `${empty} is set, but empty. Set it to a value, or unset it: eaas start --help says what is used then`,
    )
  }
  const get = (name: Variable) => environment[name] || undefined
  const url = databaseUrl(get('EAAS_DATABASE_URL'), get('EAAS_DATABASE_URL_FILE'))
  const dataDir = resolve(get('EAAS_DATA_DIR') ?? '.eaas')
  const transitLogin = {
    tokenFile: get('EAAS_ROOT_KEY_TRANSIT_TOKEN_FILE'),
    appRoleFile: get('EAAS_ROOT_KEY_TRANSIT_APPROLE_FILE'),
  }
  return {
    databaseUrl: url,
    databasePooler: oneOf('EAAS_DATABASE_POOLER', get('EAAS_DATABASE_POOLER') ?? 'auto', POOLERS),
    tenantsPerAppend: oneOf('EAAS_DATABASE_APPENDS', get('EAAS_DATABASE_APPENDS') ?? 'many', TENANTS_PER_APPEND),
    startWaitSeconds: wholeNumber(
      'EAAS_START_WAIT_SECONDS',
      get('EAAS_START_WAIT_SECONDS') ?? '60',
      MAX_START_WAIT_SECONDS,
    ),
    rootKey: rootKey(get, transitLogin),
    transitLogin,
    dataDir,
    host: get('EAAS_HOST') ?? '127.0.0.1',
    port: wholeNumber('EAAS_PORT', get('EAAS_PORT') ?? '8420', MAX_PORT),
    trustProxy: proxies(get('EAAS_TRUST_PROXY') ?? ''),
    corsOrigins: origins(get('EAAS_CORS_ORIGINS') ?? ''),
    destroyWindowDays: wholeNumber(
      'EAAS_DESTROY_WINDOW_DAYS',
      get('EAAS_DESTROY_WINDOW_DAYS') ?? '7',
      MAX_DESTROY_WINDOW_DAYS,
    ),
    auditRetentionMonths: wholeNumber(
      'EAAS_AUDIT_RETENTION_MONTHS',
      get('EAAS_AUDIT_RETENTION_MONTHS') ?? '60',
      MAX_RETENTION_MONTHS,
    ),
    auditArchiveDir: get('EAAS_AUDIT_ARCHIVE_DIR'),
    checkpointFile: checkpointFile(get('EAAS_CHECKPOINT_FILE'), {
      stateDirectory: environment.STATE_DIRECTORY?.split(':')[0] || undefined,
      dataDir: url === undefined ? dataDir : undefined,
    }),
    checkpointMinutes: wholeNumber(
      'EAAS_CHECKPOINT_MINUTES',
      get('EAAS_CHECKPOINT_MINUTES') ?? '60',
      MAX_CHECKPOINT_MINUTES,
      1,
    ),
    witnesses: witnesses(get('EAAS_WITNESSES') ?? ''),
    auditVerifyHours: wholeNumber('EAAS_AUDIT_VERIFY_HOURS', get('EAAS_AUDIT_VERIFY_HOURS') ?? '24', MAX_VERIFY_HOURS),
    maxClockSkewMs: clockSkewMs(get('EAAS_MAX_CLOCK_SKEW_SECONDS') ?? '300'),
    logLevel: oneOf('EAAS_LOG_LEVEL', get('EAAS_LOG_LEVEL') ?? 'info', LOG_LEVELS),
    drainSeconds: wholeNumber('EAAS_DRAIN_SECONDS', get('EAAS_DRAIN_SECONDS') ?? '0', MAX_DRAIN_SECONDS),
    journalStream: environment.JOURNAL_STREAM || undefined,
    unknownVariables: Object.keys(environment).filter(isUnknown),
  }
}

// A URL contains a password, so no message shows it.
function databaseUrl(value: string | undefined, file: string | undefined): string | undefined {
  if (value !== undefined && file !== undefined) {
    throw new ConfigError('EAAS_DATABASE_URL and EAAS_DATABASE_URL_FILE are both set. Set only one of them.')
  }
  const url = file === undefined ? value : readSecretFile('EAAS_DATABASE_URL_FILE', file)
  const name = file === undefined ? 'EAAS_DATABASE_URL' : `the file of EAAS_DATABASE_URL_FILE`
  if (url !== undefined && hasBareDelimiter(url)) {
    throw new ConfigError(
      `${name} has an @, /, ? or # that ends its password too early: in user and password write @ as %40, / as %2F, ? as %3F, ` +
        '# as %23, : as %3A and % as %25',
    )
  }
  if (url === undefined) return url
  const wrong = findWrongParameter(url)
  if (wrong === 'sslmode') throw new ConfigError(`sslmode in ${name} must be one of ${SSL_MODES.join(', ')}`)
  if (wrong !== undefined) {
    throw new ConfigError(
      `${name} has the parameter ${wrong}. The server reads ${URL_PARAMETERS.join(', ')}; user and password go before the host. A Unix socket is not supported`,
    )
  }
  if (readDatabaseUrl(url)) return url
  throw new ConfigError(
    `${name} must be postgres://user:password@host:port/database, with % and code for special characters; ` +
      'several hosts are separated by commas: @h1:5432,h2:5432/. A Unix socket is not supported',
  )
}

// A part of a password with such a character would be read as a host or a database, which are logged.
function hasBareDelimiter(text: string): boolean {
  const [, rest = ''] = /^postgres(?:ql)?:\/\/(.*)$/s.exec(text) ?? []
  const [authority = ''] = rest.split(/[/?#]/, 1)
  const behind = rest.slice(authority.length)
  const [path = ''] = behind.split('?', 1)
  return rest.split('@').length > 2 || behind.includes('@') || behind.includes('#') || path.includes(':')
}

function rootKey(
  get: (name: Variable) => string | undefined,
  login: RootKeySetting['login'],
): RootKeySetting | undefined {
  const kinds = (Object.keys(ROOT_KEY_VARIABLES) as RootKeySetting['kind'][]).filter((kind) =>
    get(ROOT_KEY_VARIABLES[kind]),
  )
  const [kind, other] = kinds
  if (kind === undefined) return undefined
  if (other !== undefined) {
    throw new ConfigError(
      `${ROOT_KEY_VARIABLES[kind]} and ${ROOT_KEY_VARIABLES[other]} are both set. Set only one of them.`,
    )
  }
  return { kind, value: get(ROOT_KEY_VARIABLES[kind]) ?? '', login }
}

function readSecretFile(name: Variable, path: string): string {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch (error) {
    throw new ConfigError(
      `${name} names a file that cannot be read (${(error as NodeJS.ErrnoException).code}): ${path}`,
    )
  }
}

function clockSkewMs(text: string): number {
  const seconds = wholeNumber('EAAS_MAX_CLOCK_SKEW_SECONDS', text, MAX_CLOCK_SKEW_SECONDS)
  return seconds === 0 ? Number.POSITIVE_INFINITY : seconds * 1_000
}

// systemd sets STATE_DIRECTORY if the unit has StateDirectory=. Without it and without a data directory, no
// location is sure to persist.
function checkpointFile(
  value: string | undefined,
  { stateDirectory, dataDir }: { stateDirectory: string | undefined; dataDir: string | undefined },
): string | undefined {
  if (value !== undefined) return value === 'none' ? undefined : value
  const directory = dataDir ?? stateDirectory
  return directory === undefined ? undefined : join(directory, 'checkpoints')
}

function isUnknown(name: string): boolean {
  if (name in VARIABLES || SDK_VARIABLES.includes(name)) return false
  return /^EAAS_(?!TEST_|VECTORS$|WITNESS_)/.test(name) // a witness reads the last ones
}

function wholeNumber(name: Variable, text: string, max: number, min = 0): number {
  const value = Number(text)
  if (!/^\d+$/.test(text) || value > max || value < min)
    throw new ConfigError(`${name} must be a whole number from ${min} to ${max}, got ${text}`)
  return value
}

// Each origin by name: a wildcard would let any page on the web use an API key that it obtained.
function origins(text: string): string[] {
  const list = splitList(text)
  for (const origin of list) {
    if (!/^https?:[^*]+$/.test(origin) || !URL.canParse(origin) || new URL(origin).origin !== origin) {
      throw new ConfigError(
        `EAAS_CORS_ORIGINS must list origins such as https://app.example.org, separated by commas, got ${origin}`,
      )
    }
  }
  return list
}

// Whether a key is one, only the code of the formats can tell. Credentials in a URL would be logged.
function witnesses(text: string): WitnessAddress[] {
  const list = splitList(text).map((item) => {
    const [, key = '', url = ''] = /^([^\s+]+\+[0-9a-f]{8}\+[A-Za-z0-9+/]+=*) +(https?:\/\/\S+)$/.exec(item) ?? []
    if (key === '' || !isPlainUrl(url)) {
      throw new ConfigError(
        'EAAS_WITNESSES must list witnesses, separated by commas, each as its key, a blank and its URL (http or https, without user, ' +
          'password, query and fragment)',
      )
    }
    return { key, url: url.replace(/\/+$/, '') }
  })
  if (list.length > MOST_WITNESSES || new Set(list.map(({ key }) => key.split('+')[0])).size < list.length) {
    throw new ConfigError(`EAAS_WITNESSES must list at most ${MOST_WITNESSES} witnesses, each under another name`)
  }
  return list
}

function isPlainUrl(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { username, password } = new URL(text)
  return username === '' && password === '' && !/[?#]/.test(text)
}

function splitList(text: string): string[] {
  return text
    .split(',')
    .map((part) => part.trim())
    .filter(Boolean)
}

// Strict, because the framework reads `1` as 0.0.0.1: an operator who meant one hop would silently trust no
// proxy.
function proxies(text: string): string[] {
  const ranges = splitList(text)
  for (const range of ranges) {
    const [address = '', prefix = '0', ...rest] = range.split('/')
    const bits = { 0: -1, 4: 32, 6: 128 }[isIP(address)] ?? -1
    if (rest.length > 0 || address.includes('%') || !/^\d{1,3}$/.test(prefix) || Number(prefix) > bits)
      throw new ConfigError(`EAAS_TRUST_PROXY must list addresses or CIDR ranges, separated by commas, got ${range}`)
  }
  return ranges
}

function oneOf<Value extends string>(name: Variable, text: string, values: readonly Value[]): Value {
  const value = values.find((known) => known === text)
  if (value === undefined) throw new ConfigError(`${name} must be one of ${values.join(', ')}, got ${text}`)
  return value
}
