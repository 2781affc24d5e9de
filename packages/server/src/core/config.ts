/** The server's configuration: the only reader of the environment. */
import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { join, resolve } from 'node:path'
import { LOG_LEVELS, type LogLevel } from '@eaas/audit/node'
import { ConfigFileError, readConfigFile, type Settings, settingOf } from './config-file.js'
import { type DatabaseUrl, findWrongParameter, readDatabaseUrl, URL_PARAMETERS } from './database-url.js'

/** A quarter of what a KEK may wrap: the bound of NIST SP 800-38D, 8.3, for random ivs is 2^32. */
const ROTATE_AFTER_WRAPS = 2 ** 30
const LEAST_WRAPS = 100
const POOLERS = ['auto', 'transaction', 'none'] as const
const TENANTS_PER_APPEND = ['many', 'one'] as const
const MOST_WITNESSES = 3
const SWITCH = ['off', 'on'] as const
const TLS_VERSIONS = ['1.3', '1.2'] as const
/** What `sun_path` of macOS and the BSDs holds before its closing NUL; Linux takes four more (unix(7)). */
const MOST_SOCKET_PATH_BYTES = 103

export interface Config {
  /** undefined: the embedded database in `dataDir` */
  databaseUrl: string | undefined
  /** the file that it was read from, which each new connection reads again; undefined: none */
  databaseUrlFile: string | undefined
  /** the pooler between the server and PostgreSQL; `auto` is detected at the first connection */
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
  /** undefined: EAAS_PORT is what Kubernetes sets for a Service, which only a command that listens needs to know */
  port: number | undefined
  /** a unix socket to listen on instead of an address */
  socket: SocketSetting | undefined
  /** the files of TLS, if the server speaks it itself */
  tls: TlsSetting | undefined
  /** `unix` stands for every peer on the unix socket */
  trustProxy: string[]
  /** origins of pages that may call the API from a browser; none by default */
  corsOrigins: string[]
  /** whether operators may call below /admin, by API keys of their own */
  operatorApi: boolean
  /** whether the pages of the console are served */
  hasConsole: boolean
  destroyWindowDays: number
  /** how many DEKs a version of a key wraps before the server rotates the key */
  rotateAfterWraps: number
  auditRetentionMonths: number
  /** where entries are exported to before they are purged; undefined: nowhere */
  auditArchiveDir: string | undefined
  /** the file for checkpoints, which a start compares the database with; `-` is standard output; undefined: none */
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
  /** the service manager that expects the server's status; undefined: none */
  serviceManager: ServiceManager | undefined
  logLevel: LogLevel
  /** the file with settings that no variable sets; undefined: none */
  configFile: string | undefined
  /** variables named like the server's that it does not know: perhaps misspelt, perhaps another program's */
  unknownVariables: string[]
}

/** What systemd says to a unit of `Type=notify` (sd_notify(3), sd_watchdog_enabled(3)). */
export interface ServiceManager {
  /** the address of its socket */
  socket: string
  /** after how many milliseconds without a sign of life it ends a process; undefined: never */
  watchdogMs: number | undefined
}

export interface SocketSetting {
  path: string
  /** of the file: who may connect */
  mode: number
}

export interface TlsSetting {
  certFile: string
  keyFile: string
  /** the authorities that must have issued each client's certificate; undefined: clients need none */
  clientCaFile: string | undefined
  minVersion: 'TLSv1.2' | 'TLSv1.3'
}

/** Where the root key is, and the variable that says so. */
export const ROOT_KEY_VARIABLES = {
  variable: 'EAAS_ROOT_KEY',
  file: 'EAAS_ROOT_KEY_FILE',
  command: 'EAAS_ROOT_KEY_COMMAND',
  shares: 'EAAS_ROOT_KEY_SHARES',
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

/** A witness that the server asks to cosign. */
export interface WitnessAddress {
  /** its public key as written; the reader of keys checks it */
  key: string
  /** `/add-checkpoint` is appended to it */
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
  EAAS_CONFIG:
    'a JSON file with any of these settings except the secrets themselves, each under its name in lower case without EAAS_; a variable wins over it (default: none)',
  EAAS_DATABASE_URL:
    'PostgreSQL to use, postgres://user:password@host:port/database, several hosts separated by commas (default: an embedded database)',
  EAAS_DATABASE_URL_FILE: 'a file with the URL of PostgreSQL; each new connection reads it again',
  EAAS_DATABASE_POOLER: `the pooler in front of PostgreSQL, transaction for one in that mode: ${POOLERS.join(', ')} (default: auto, detected)`,
  EAAS_DATABASE_APPENDS: `how many tenants' logs one statement appends to; a database sharded by tenant needs one: ${TENANTS_PER_APPEND.join(', ')} (default: many)`,
  EAAS_START_WAIT_SECONDS:
    'seconds that a starting server keeps trying to reach PostgreSQL, 0 for one attempt (default: 60)',
  EAAS_DATA_DIR: 'directory of the embedded database and its root key (default: .eaas)',
  EAAS_ROOT_KEY: 'the root key, base64 of 32 bytes (default: root.key in the data directory, embedded database only)',
  EAAS_ROOT_KEY_FILE: 'a file that holds the root key',
  EAAS_ROOT_KEY_COMMAND: 'a program with its arguments that prints the root key; no shell reads them',
  EAAS_ROOT_KEY_SHARES:
    'files with shares of the root key, separated by commas (no file name may have one), or ask to enter the shares on the terminal',
  EAAS_ROOT_KEY_EXEC:
    'a program that holds the root key, with its arguments; called with wrap or unwrap added, it reads standard input and writes standard output',
  EAAS_ROOT_KEY_TRANSIT: 'a key of OpenBao or Vault as the root key: https://host:8200/v1/transit/keys/NAME',
  EAAS_ROOT_KEY_TRANSIT_TOKEN_FILE: 'a file with the token for OpenBao or Vault',
  EAAS_ROOT_KEY_TRANSIT_APPROLE_FILE: 'a file with an AppRole instead of a token: role_id and secret_id, one per line',
  EAAS_ROOT_KEY_AWS_KMS: 'the ARN of a key of AWS KMS as the root key; needs the package @aws-sdk/client-kms',
  EAAS_HOST: 'address to listen on (default: 127.0.0.1)',
  EAAS_PORT: 'port to listen on, 0 for any free one (default: 8420)',
  EAAS_SOCKET: 'path of a unix socket to listen on instead of an address (default: none)',
  EAAS_SOCKET_MODE: 'mode of the socket, which says who may connect (default: 660)',
  EAAS_TLS_CERT_FILE: 'a file with the certificate chain for TLS, in PEM (default: none, plain HTTP)',
  EAAS_TLS_KEY_FILE:
    'a file with the private key for TLS, in PEM; both files are read again when they change, and at SIGHUP',
  EAAS_TLS_CLIENT_CA_FILE:
    'a file with authorities, in PEM; each client must show a certificate from one of them, as well as its API key (default: none)',
  EAAS_TLS_MIN_VERSION: `the earliest version of TLS that clients may use: ${TLS_VERSIONS.join(', ')} (default: 1.3)`,
  EAAS_TRUST_PROXY:
    'addresses or CIDR ranges of the proxies whose X-Forwarded-For is trusted, separated by commas; unix for those that connect to EAAS_SOCKET (default: none)',
  EAAS_CORS_ORIGINS:
    'origins of pages that may call the API, such as https://app.example.org, separated by commas (default: none)',
  EAAS_OPERATOR_API:
    'on serves /admin/v1 to the API keys of operators (eaas operator-key); a proxy should let only operators reach it: on, off (default: off)',
  EAAS_CONSOLE: `whether the web console is served, at /console: ${SWITCH.join(', ')} (default: on)`,
  EAAS_DESTROY_WINDOW_DAYS: 'days between the request to destroy a key and its destruction, 0 for at once (default: 7)',
  EAAS_ROTATE_AFTER_WRAPS: `DEKs that a version of a key wraps before the server rotates the key, ${LEAST_WRAPS} to ${ROTATE_AFTER_WRAPS} (default: ${ROTATE_AFTER_WRAPS})`,
  EAAS_AUDIT_RETENTION_MONTHS:
    'months after which audit entries are purged for good, 0 to keep them; a purge that looks wrong is held back until you act: see eaas purge --help (default: 60)',
  EAAS_AUDIT_ARCHIVE_DIR: 'directory that entries are exported to before they are purged (default: none)',
  EAAS_CHECKPOINT_FILE:
    'file for signed checkpoints, which each start compares with the database; - for standard output, none for no checkpoints ' +
    '(default: checkpoints in the data directory, or with PostgreSQL in $STATE_DIRECTORY if that is set)',
  EAAS_CHECKPOINT_MINUTES: 'minutes between two checkpoints of a log that grew (default: 60)',
  EAAS_WITNESSES:
    "up to three witnesses that cosign the installation's log, each its key, a blank and its URL, separated by commas (default: none)",
  EAAS_AUDIT_VERIFY_HOURS:
    'hours between two verifications of every log by one server of the installation, 0 for never (default: 24)',
  EAAS_MAX_CLOCK_SKEW_SECONDS:
    "seconds that the server's clock and the database's may differ; beyond that nothing is written; 0 disables the check (default: 300)",
  EAAS_DRAIN_SECONDS:
    'seconds that the server still serves after SIGTERM, while /health answers 503 (default: 0; behind a balancer: 15)',
  EAAS_LOG_LEVEL: `${LOG_LEVELS.join(', ')} (default: info)`,
} as const satisfies Record<string, string>

/** Variables that the SDK's command reads, and that may be set in the same shell. */
const SDK_VARIABLES: readonly string[] = ['EAAS_URL', 'EAAS_API_KEY']

type Variable = keyof typeof VARIABLES
export type Environment = Readonly<Record<string, string | undefined>>

/**
 * Refused if empty, as `$UNSET` makes them: without one, a server would use another database or root key than was
 * meant, let in clients that it should not, or purge entries without an archive.
 */
const NEVER_EMPTY = [
  'EAAS_AUDIT_ARCHIVE_DIR',
  'EAAS_CONFIG',
  'EAAS_DATA_DIR',
  'EAAS_DATABASE_URL',
  'EAAS_DATABASE_URL_FILE',
  'EAAS_TLS_CERT_FILE',
  'EAAS_TLS_KEY_FILE',
  'EAAS_TLS_CLIENT_CA_FILE',
  ...Object.values(ROOT_KEY_VARIABLES),
] as const

/** The settings that are whole numbers, with their defaults and bounds. */
const NUMBERS = {
  EAAS_START_WAIT_SECONDS: { otherwise: 60, least: 0, most: 3_600 },
  EAAS_PORT: { otherwise: 8_420, least: 0, most: 65_535 },
  EAAS_DESTROY_WINDOW_DAYS: { otherwise: 7, least: 0, most: 3_650 },
  EAAS_ROTATE_AFTER_WRAPS: { otherwise: ROTATE_AFTER_WRAPS, least: LEAST_WRAPS, most: ROTATE_AFTER_WRAPS },
  EAAS_AUDIT_RETENTION_MONTHS: { otherwise: 60, least: 0, most: 1_200 },
  EAAS_CHECKPOINT_MINUTES: { otherwise: 60, least: 1, most: 10_080 },
  EAAS_AUDIT_VERIFY_HOURS: { otherwise: 24, least: 0, most: 8_760 },
  EAAS_MAX_CLOCK_SKEW_SECONDS: { otherwise: 300, least: 0, most: 86_400 },
  EAAS_DRAIN_SECONDS: { otherwise: 0, least: 0, most: 3_600 },
} as const satisfies Partial<Record<Variable, { otherwise: number; least: number; most: number }>>

/** What the file of EAAS_CONFIG may hold, and how. */
export const SETTINGS: Settings = {
  variables: VARIABLES,
  numbers: NUMBERS,
  choices: {
    EAAS_CONSOLE: SWITCH,
    EAAS_DATABASE_POOLER: POOLERS,
    EAAS_DATABASE_APPENDS: TENANTS_PER_APPEND,
    EAAS_TLS_MIN_VERSION: TLS_VERSIONS,
    EAAS_OPERATOR_API: SWITCH,
    EAAS_LOG_LEVEL: LOG_LEVELS,
  },
  lists: ['EAAS_ROOT_KEY_SHARES', 'EAAS_TRUST_PROXY', 'EAAS_CORS_ORIGINS', 'EAAS_WITNESSES'],
  programs: ['EAAS_ROOT_KEY_COMMAND', 'EAAS_ROOT_KEY_EXEC'],
  secrets: ['EAAS_DATABASE_URL', 'EAAS_ROOT_KEY'],
}

/** If a variable of one list is set, the file's settings of the other list are ignored. */
const INSTEAD: readonly (readonly [readonly Variable[], readonly Variable[]])[] = [
  [['EAAS_DATABASE_URL'], ['EAAS_DATABASE_URL_FILE']],
  [
    ['EAAS_SOCKET', 'EAAS_SOCKET_MODE'],
    ['EAAS_HOST', 'EAAS_PORT'],
  ],
]

/** Reads the configuration. An empty variable counts as unset, except those of `NEVER_EMPTY`. @throws ConfigError */
export function readConfig(environment: Environment): Config {
  const { merged, fromFile } = mergeFile(environment)
  try {
    return readVariables(merged)
  } catch (error) {
    const [name = ''] = error instanceof ConfigError ? (/^EAAS_[A-Z_]+/.exec(error.message) ?? []) : []
    if (!fromFile.has(name)) throw error
    throw new ConfigError(`${(error as ConfigError).message} (${settingOf(name)} in ${environment.EAAS_CONFIG})`)
  }
}

/** The port to listen on. @throws ConfigError if Kubernetes set it to something else */
export function getPort({ port }: Pick<Config, 'port'>): number {
  if (port !== undefined) return port
  throw new ConfigError(
    "EAAS_PORT is a URL, which Kubernetes sets for a Service named eaas. Set enableServiceLinks: false in the pod's spec, or EAAS_PORT to the port",
  )
}

/** Adds the settings in the file of EAAS_CONFIG for the variables that are not set. @throws ConfigError */
export function mergeFile(given: Environment): { merged: Environment; fromFile: ReadonlySet<string> } {
  const environment = ownMembers(given)
  const { EAAS_CONFIG: file } = environment
  if (!file) return { merged: environment, fromFile: new Set() }
  const isSet = (name: Variable) => environment[name] !== undefined && environment[name] !== ''
  const kinds = Object.values(ROOT_KEY_VARIABLES)
  const hidden = new Set<string>(kinds.some(isSet) ? kinds : [])
  for (const [some, others] of INSTEAD) {
    if (some.some(isSet)) for (const name of others) hidden.add(name)
    if (others.some(isSet)) for (const name of some) hidden.add(name)
  }
  const kept = Object.entries(readFile(file)).filter(
    ([name]) => !hidden.has(name) && !(isSet(name as Variable) || (isNeverEmpty(name) && environment[name] === '')),
  )
  return {
    merged: ownMembers({ ...environment, ...Object.fromEntries(kept) }),
    fromFile: new Set(kept.map(([name]) => name)),
  }
}

function readFile(path: string): Record<string, string> {
  try {
    return readConfigFile(path, SETTINGS)
  } catch (error) {
    throw error instanceof ConfigFileError ? new ConfigError(error.message) : error
  }
}

/** Copies what an object has itself: the environment of a process inherits what something put on Object.prototype. */
export function ownMembers<Given extends object>(given: Given): Given {
  return Object.assign(Object.create(null), given)
}

function isNeverEmpty(name: string): boolean {
  return (NEVER_EMPTY as readonly string[]).includes(name)
}

function readVariables(environment: Environment): Config {
  const empty = NEVER_EMPTY.find((name) => environment[name] === '')
  if (empty !== undefined) {
    throw new ConfigError(
      `${empty} is set, but empty. Set it to a value, or unset it: eaas start --help says what is used then`,
    )
  }
  const isOfService = OF_SERVICE.test(`EAAS_PORT=${environment.EAAS_PORT}`)
  const get = (name: Variable) => (name === 'EAAS_PORT' && isOfService ? undefined : environment[name] || undefined)
  const wholeNumber = (name: keyof typeof NUMBERS): number => {
    const { otherwise, least, most } = NUMBERS[name]
    const text = get(name) ?? String(otherwise)
    const value = Number(text)
    if (/^\d+$/.test(text) && value >= least && value <= most) return value
    throw new ConfigError(`${name} must be a whole number from ${least} to ${most}, got ${text}`)
  }
  const oneOf = <Value extends string>(name: Variable, otherwise: Value, values: readonly Value[]): Value => {
    const text = get(name) ?? otherwise
    const value = values.find((known) => known === text)
    if (value === undefined) throw new ConfigError(`${name} must be one of ${values.join(', ')}, got ${text}`)
    return value
  }
  const urlFile = get('EAAS_DATABASE_URL_FILE')
  const url = databaseUrl(get('EAAS_DATABASE_URL'), urlFile)
  const dataDir = resolve(get('EAAS_DATA_DIR') ?? '.eaas')
  const transitLogin = {
    tokenFile: get('EAAS_ROOT_KEY_TRANSIT_TOKEN_FILE'),
    appRoleFile: get('EAAS_ROOT_KEY_TRANSIT_APPROLE_FILE'),
  }
  return {
    databaseUrl: url,
    databaseUrlFile: urlFile,
    databasePooler: oneOf('EAAS_DATABASE_POOLER', 'auto', POOLERS),
    tenantsPerAppend: oneOf('EAAS_DATABASE_APPENDS', 'many', TENANTS_PER_APPEND),
    startWaitSeconds: wholeNumber('EAAS_START_WAIT_SECONDS'),
    rootKey: rootKey(get, transitLogin),
    transitLogin,
    dataDir,
    host: get('EAAS_HOST') ?? '127.0.0.1',
    port: isOfService ? undefined : wholeNumber('EAAS_PORT'),
    socket: socket(get),
    tls: tls(get, oneOf('EAAS_TLS_MIN_VERSION', '1.3', TLS_VERSIONS)),
    trustProxy: proxies(get('EAAS_TRUST_PROXY') ?? '', get('EAAS_SOCKET') !== undefined),
    corsOrigins: origins(get('EAAS_CORS_ORIGINS') ?? ''),
    operatorApi: oneOf('EAAS_OPERATOR_API', 'off', SWITCH) === 'on',
    hasConsole: oneOf('EAAS_CONSOLE', 'on', SWITCH) === 'on',
    destroyWindowDays: wholeNumber('EAAS_DESTROY_WINDOW_DAYS'),
    rotateAfterWraps: wholeNumber('EAAS_ROTATE_AFTER_WRAPS'),
    auditRetentionMonths: wholeNumber('EAAS_AUDIT_RETENTION_MONTHS'),
    auditArchiveDir: get('EAAS_AUDIT_ARCHIVE_DIR'),
    checkpointFile: checkpointFile(get('EAAS_CHECKPOINT_FILE'), {
      stateDirectory: environment.STATE_DIRECTORY?.split(':')[0] || undefined,
      dataDir: url === undefined ? dataDir : undefined,
    }),
    checkpointMinutes: wholeNumber('EAAS_CHECKPOINT_MINUTES'),
    witnesses: witnesses(get('EAAS_WITNESSES') ?? ''),
    auditVerifyHours: wholeNumber('EAAS_AUDIT_VERIFY_HOURS'),
    maxClockSkewMs: (wholeNumber('EAAS_MAX_CLOCK_SKEW_SECONDS') || Number.POSITIVE_INFINITY) * 1_000,
    logLevel: oneOf('EAAS_LOG_LEVEL', 'info', LOG_LEVELS),
    drainSeconds: wholeNumber('EAAS_DRAIN_SECONDS'),
    journalStream: environment.JOURNAL_STREAM || undefined,
    serviceManager: serviceManager(environment),
    configFile: environment.EAAS_CONFIG || undefined,
    unknownVariables: Object.keys(environment).filter(isUnknown),
  }
}

function databaseUrl(value: string | undefined, file: string | undefined): string | undefined {
  if (value !== undefined && file !== undefined) {
    throw new ConfigError('EAAS_DATABASE_URL and EAAS_DATABASE_URL_FILE are both set. Set only one of them.')
  }
  if (file !== undefined) return readUrlFile(file)
  return value === undefined ? undefined : checkedUrl(value, 'EAAS_DATABASE_URL')
}

/** Reads the URL of the database from the file of EAAS_DATABASE_URL_FILE. @throws ConfigError */
export function readUrlFile(path: string): string {
  return checkedUrl(readSecretFile('EAAS_DATABASE_URL_FILE', path), 'the file of EAAS_DATABASE_URL_FILE')
}

// A URL contains a password, so no message shows it.
function checkedUrl(url: string, name: string): string {
  if (hasBareDelimiter(url)) {
    throw new ConfigError(
      `${name} has an @, /, ? or # that ends its password too early: in user and password write @ as %40, / as %2F, ? as %3F, ` +
        '# as %23, : as %3A and % as %25',
    )
  }
  const wrong = findWrongParameter(url)
  if (wrong?.choices) throw new ConfigError(`${wrong.name} in ${name} must be one of ${wrong.choices.join(', ')}`)
  if (wrong !== undefined) {
    throw new ConfigError(
      `${name} has the parameter ${wrong.name}: remove it. The server reads ${URL_PARAMETERS.join(', ')}; user and password go before the host`,
    )
  }
  const read = readDatabaseUrl(url)
  if (!read) {
    throw new ConfigError(
      `${name} must be postgres://user:password@host:port/database, with % and code for special characters; ` +
        'several hosts are separated by commas: @h1:5432,h2:5432/. For a unix socket: postgres://user@/database?host=/run/postgresql',
    )
  }
  const fault = findTlsFault(read)
  if (fault !== undefined) throw new ConfigError(`${name} ${fault}`)
  return url
}

// Refuses a client certificate that would not be sent, and an authority that would not be used.
function findTlsFault(url: DatabaseUrl): string | undefined {
  const { socketPath, sslMode, isVerified, channelBinding, certFile, keyFile, caFile } = url
  if (socketPath !== undefined && (sslMode ?? 'disable') !== 'disable')
    return 'has sslmode with a unix socket, on which PostgreSQL speaks no TLS. Leave it out'
  if (channelBinding === 'require' && (sslMode ?? 'disable') === 'disable')
    return 'has channel_binding=require, which needs TLS: add sslmode=verify-full'
  if ((certFile === undefined) !== (keyFile === undefined)) return 'has only one of sslcert and sslkey'
  if (certFile !== undefined && !isVerified && sslMode !== 'require')
    return 'has sslcert, which needs sslmode=verify-full, or require, which does not check the certificate of the database'
  return caFile !== undefined && !isVerified ? 'has sslrootcert, which needs sslmode=verify-full' : undefined
}

// With such a character, part of a password would be read as a host or a database, which are logged.
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

function socket(get: (name: Variable) => string | undefined): SocketSetting | undefined {
  const [path, mode] = [get('EAAS_SOCKET'), get('EAAS_SOCKET_MODE')]
  if (path === undefined) {
    if (mode !== undefined) throw new ConfigError('EAAS_SOCKET_MODE is set, but EAAS_SOCKET is not')
    return undefined
  }
  const other = (['EAAS_HOST', 'EAAS_PORT'] as const).find((name) => get(name) !== undefined)
  if (other !== undefined) throw new ConfigError(`EAAS_SOCKET and ${other} are both set. Set only one of them.`)
  const whole = resolve(path)
  if (Buffer.byteLength(whole) > MOST_SOCKET_PATH_BYTES) {
    throw new ConfigError(`EAAS_SOCKET must be a path of at most ${MOST_SOCKET_PATH_BYTES} bytes, got ${whole}`)
  }
  if (mode !== undefined && !/^0?[0-7]{3}$/.test(mode)) {
    throw new ConfigError(`EAAS_SOCKET_MODE must be a mode such as 660, got ${mode}`)
  }
  return { path: whole, mode: Number.parseInt(mode ?? '660', 8) }
}

function tls(
  get: (name: Variable) => string | undefined,
  version: (typeof TLS_VERSIONS)[number],
): TlsSetting | undefined {
  const [certFile, keyFile] = [get('EAAS_TLS_CERT_FILE'), get('EAAS_TLS_KEY_FILE')]
  const clientCaFile = get('EAAS_TLS_CLIENT_CA_FILE')
  if (certFile !== undefined && keyFile !== undefined) {
    return { certFile, keyFile, clientCaFile, minVersion: `TLSv${version}` }
  }
  // An incomplete setting must not mean plain HTTP.
  for (const name of ['EAAS_TLS_CERT_FILE', 'EAAS_TLS_KEY_FILE', 'EAAS_TLS_CLIENT_CA_FILE'] as const) {
    if (get(name) !== undefined) {
      throw new ConfigError(`${name} is set. TLS needs EAAS_TLS_CERT_FILE and EAAS_TLS_KEY_FILE`)
    }
  }
  return undefined
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

// Ignores a watchdog of another process, such as a shell that started this one.
function serviceManager({ NOTIFY_SOCKET, WATCHDOG_USEC = '', WATCHDOG_PID }: Environment): ServiceManager | undefined {
  if (!NOTIFY_SOCKET) return undefined
  const isOurs = WATCHDOG_PID === undefined || WATCHDOG_PID === String(process.pid)
  const watchdogMs = /^[1-9]\d{3,14}$/.test(WATCHDOG_USEC) && isOurs ? Number(WATCHDOG_USEC) / 1_000 : undefined
  return { socket: NOTIFY_SOCKET, watchdogMs }
}

/** What Kubernetes sets in each pod for a Service named eaas: names of variables, and the value of EAAS_PORT. */
const OF_SERVICE =
  /^EAAS_(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:ADDR|PORT|PROTO))?|PORT=(?:tcp|udp|sctp):\/\/.*)$/

function isUnknown(name: string): boolean {
  if (name in VARIABLES || SDK_VARIABLES.includes(name) || OF_SERVICE.test(name)) return false
  return /^EAAS_(?!TEST_|VECTORS$|WITNESS_)/.test(name) // a witness reads the last ones
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

// Only the code of the formats can tell whether a key is valid. Credentials in a URL would be logged.
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
function proxies(text: string, hasSocket: boolean): string[] {
  const ranges = splitList(text)
  for (const range of ranges) {
    if (range === 'unix') {
      if (hasSocket) continue
      throw new ConfigError('EAAS_TRUST_PROXY has unix, but EAAS_SOCKET is not set')
    }
    const [address = '', prefix = '0', ...rest] = range.split('/')
    const bits = { 0: -1, 4: 32, 6: 128 }[isIP(address)] ?? -1
    if (rest.length > 0 || address.includes('%') || !/^\d{1,3}$/.test(prefix) || Number(prefix) > bits)
      throw new ConfigError(`EAAS_TRUST_PROXY must list addresses or CIDR ranges, separated by commas, got ${range}`)
  }
  return ranges
}
