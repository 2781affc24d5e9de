/** The server's configuration: the only reader of the environment. */
import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { join, resolve } from 'node:path'
import { readConfigFile } from './config-file.js'
import { type DatabaseUrl, findWrongParameter, readDatabaseUrl, URL_PARAMETERS } from './database-url.js'
import { ConfigError, getSetting, NAMES, nameInFile, type Values, type Variable } from './settings.js'

export { ConfigError } from './settings.js'

const MOST_WITNESSES = 3
/** The length of `sun_path` on macOS and the BSDs, without its closing NUL; Linux allows four more (unix(7)). */
const MOST_SOCKET_PATH_BYTES = 103

/** The settings as the server uses them; `eaas start --help` describes each. */
export type Config = ReturnType<typeof readVariables>

/** systemd's socket for a unit of `Type=notify`, and after how long without a sign of life it ends the process. */
export type ServiceManager = { socket: string; watchdogMs: number | undefined }

export interface TlsSetting {
  certFile: string
  keyFile: string
  clientCaFile: string | undefined // authorities that must have issued each client's certificate
  minVersion: 'TLSv1.2' | 'TLSv1.3'
}

export const ROOT_KEY_VARIABLES = {
  variable: 'EAAS_ROOT_KEY',
  file: 'EAAS_ROOT_KEY_FILE',
  command: 'EAAS_ROOT_KEY_COMMAND',
  shares: 'EAAS_ROOT_KEY_SHARES',
  exec: 'EAAS_ROOT_KEY_EXEC',
  transit: 'EAAS_ROOT_KEY_TRANSIT',
  'aws-kms': 'EAAS_ROOT_KEY_AWS_KMS',
} as const

export type RootKeySetting = { kind: keyof typeof ROOT_KEY_VARIABLES; value: string; login: TransitLogin }

/** How a server logs in to Transit, by one of two: a file with a token, or a file with an AppRole's role_id and secret_id. */
export type TransitLogin = Record<'tokenFile' | 'appRoleFile', string | undefined>

/** The SDK's command reads these variables, which may be set in the same shell. */
const SDK_VARIABLES: readonly string[] = ['EAAS_URL', 'EAAS_API_KEY']

export type Environment = Readonly<Record<string, string | undefined>>

/** Lists that exclude each other. If a variable of one list is set, the file's settings for the others are ignored. */
const ALTERNATIVES: readonly (readonly (readonly Variable[])[])[] = [
  [['EAAS_DATABASE_URL'], ['EAAS_DATABASE_URL_FILE']],
  [
    ['EAAS_SOCKET', 'EAAS_SOCKET_MODE'],
    ['EAAS_HOST', 'EAAS_PORT'],
  ],
  Object.values(ROOT_KEY_VARIABLES).map((name) => [name]),
]

/** Reads the configuration. An empty variable counts as unset, unless the table says `neverEmpty`. @throws ConfigError */
export function readConfig(environment: Environment): Config {
  const { merged, fromFile } = mergeFile(environment)
  try {
    return readVariables(merged)
  } catch (error) {
    const [name = ''] = error instanceof ConfigError ? (/^EAAS_[A-Z_]+/.exec(error.message) ?? []) : []
    if (!fromFile.has(name)) throw error
    throw new ConfigError(`${(error as ConfigError).message} (${nameInFile(name)} in ${environment.EAAS_CONFIG})`)
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
  const hidden = ALTERNATIVES.flatMap((lists) =>
    lists.filter((list) => lists.some((other) => other !== list && other.some(isSet))).flat(),
  )
  const kept = Object.entries(readConfigFile(file)).filter(([given]) => {
    const name = given as Variable
    return !hidden.includes(name) && !isSet(name) && !(getSetting(name).neverEmpty && environment[name] === '')
  })
  return {
    merged: ownMembers({ ...environment, ...Object.fromEntries(kept) }),
    fromFile: new Set(kept.map(([name]) => name)),
  }
}

/** Copies an object's own members: the environment of a process also inherits from Object.prototype. */
export function ownMembers<Given extends object>(given: Given): Given {
  return Object.assign(Object.create(null), given)
}

function readVariables(environment: Environment) {
  const empty = NAMES.find((name) => getSetting(name).neverEmpty && environment[name] === '')
  if (empty !== undefined)
    throw new ConfigError(
      `${empty} is set, but empty. Set it to a value, or unset it: eaas start --help says what is used then`,
    )
  const isOfService = OF_SERVICE.test(`EAAS_PORT=${environment.EAAS_PORT}`)
  const given = (name: Variable) => (name === 'EAAS_PORT' && isOfService ? undefined : environment[name] || undefined)
  const get: Get = (name) => getSetting(name).read(given(name), name) as Values[typeof name]
  assertNoAlternatives(given)
  const urlFile = get('EAAS_DATABASE_URL_FILE')
  const ownUrl = get('EAAS_DATABASE_URL')
  const url = urlFile === undefined ? ownUrl && checkedUrl(ownUrl, 'EAAS_DATABASE_URL') : readUrlFile(urlFile)
  const dataDir = resolve(get('EAAS_DATA_DIR'))
  const stateDirectory = environment.STATE_DIRECTORY?.split(':')[0] || undefined // set by systemd for StateDirectory=
  const tokenFile = get('EAAS_ROOT_KEY_TRANSIT_TOKEN_FILE')
  const transitLogin = { tokenFile, appRoleFile: get('EAAS_ROOT_KEY_TRANSIT_APPROLE_FILE') }
  return {
    databaseUrl: url, // undefined: the embedded database in `dataDir`
    databaseUrlFile: urlFile, // each new connection reads it again
    databasePooler: get('EAAS_DATABASE_POOLER'),
    tenantsPerAppend: get('EAAS_DATABASE_APPENDS'),
    startWaitSeconds: get('EAAS_START_WAIT_SECONDS'),
    rootKey: rootKey(given, transitLogin), // undefined: the root key of the embedded database
    transitLogin,
    dataDir,
    host: get('EAAS_HOST'),
    port: isOfService ? undefined : get('EAAS_PORT'), // `getPort` refuses it for commands that listen
    socket: socket(get('EAAS_SOCKET'), get('EAAS_SOCKET_MODE')),
    tls: tls(get),
    trustProxy: proxies(get('EAAS_TRUST_PROXY'), get('EAAS_SOCKET') !== undefined),
    corsOrigins: origins(get('EAAS_CORS_ORIGINS')),
    operatorApi: get('EAAS_OPERATOR_API') === 'on',
    hasConsole: get('EAAS_CONSOLE') === 'on',
    destroyWindowDays: get('EAAS_DESTROY_WINDOW_DAYS'),
    rotateAfterWraps: get('EAAS_ROTATE_AFTER_WRAPS'),
    auditRetentionMonths: get('EAAS_AUDIT_RETENTION_MONTHS'),
    auditArchiveDir: get('EAAS_AUDIT_ARCHIVE_DIR'),
    checkpointFile: checkpointFile(get('EAAS_CHECKPOINT_FILE'), url === undefined ? dataDir : stateDirectory), // or `-`
    checkpointMinutes: get('EAAS_CHECKPOINT_MINUTES'),
    witnesses: witnesses(get('EAAS_WITNESSES')),
    auditVerifyHours: get('EAAS_AUDIT_VERIFY_HOURS'),
    maxClockSkewMs: (get('EAAS_MAX_CLOCK_SKEW_SECONDS') || Number.POSITIVE_INFINITY) * 1_000,
    logLevel: get('EAAS_LOG_LEVEL'),
    drainSeconds: get('EAAS_DRAIN_SECONDS'),
    journalStream: environment.JOURNAL_STREAM || undefined, // `device:inode` of the stream that systemd stores (systemd.exec(5))
    serviceManager: serviceManager(environment),
    configFile: get('EAAS_CONFIG'),
    /** variables that are named like the server's but unknown: misspelt perhaps, or another program's */
    unknownVariables: Object.keys(environment).filter(isUnknown),
  }
}

type Given = (name: Variable) => string | undefined
type Get = <Name extends Variable>(name: Name) => Values[Name]

function assertNoAlternatives(given: Given): void {
  if (given('EAAS_SOCKET_MODE') !== undefined && given('EAAS_SOCKET') === undefined)
    throw new ConfigError('EAAS_SOCKET_MODE is set, but EAAS_SOCKET is not')
  for (const lists of ALTERNATIVES) {
    const [name, other] = lists.flatMap((list) => list.find(given) ?? [])
    if (other !== undefined) throw new ConfigError(`${name} and ${other} are both set. Set only one of them.`)
  }
}

/** Reads a database URL from the file that a variable or an option names. @throws ConfigError */
export function readUrlFile(path: string, name = 'EAAS_DATABASE_URL_FILE'): string {
  let url: string
  try {
    url = readFileSync(path, 'utf8').trim()
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new ConfigError(`${name} names a file that cannot be read (${code}): ${path}`)
  }
  return checkedUrl(url, `the file of ${name}`)
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

function rootKey(given: Given, login: RootKeySetting['login']): RootKeySetting | undefined {
  const kinds = Object.keys(ROOT_KEY_VARIABLES) as RootKeySetting['kind'][]
  const kind = kinds.find((each) => given(ROOT_KEY_VARIABLES[each]))
  return kind && { kind, value: given(ROOT_KEY_VARIABLES[kind]) ?? '', login }
}

function socket(path: string | undefined, mode: string): { path: string; mode: number } | undefined {
  if (path === undefined) return undefined
  const whole = resolve(path)
  if (Buffer.byteLength(whole) > MOST_SOCKET_PATH_BYTES)
    throw new ConfigError(`EAAS_SOCKET must be a path of at most ${MOST_SOCKET_PATH_BYTES} bytes, got ${whole}`)
  if (!/^0?[0-7]{3}$/.test(mode)) throw new ConfigError(`EAAS_SOCKET_MODE must be a mode such as 660, got ${mode}`)
  return { path: whole, mode: Number.parseInt(mode, 8) }
}

function tls(get: Get): TlsSetting | undefined {
  const minVersion = `TLSv${get('EAAS_TLS_MIN_VERSION')}` as const
  const [certFile, keyFile] = [get('EAAS_TLS_CERT_FILE'), get('EAAS_TLS_KEY_FILE')]
  const clientCaFile = get('EAAS_TLS_CLIENT_CA_FILE')
  if (certFile !== undefined && keyFile !== undefined) return { certFile, keyFile, clientCaFile, minVersion }
  // An incomplete setting must not result in plain HTTP.
  const names = ['EAAS_TLS_CERT_FILE', 'EAAS_TLS_KEY_FILE', 'EAAS_TLS_CLIENT_CA_FILE'] as const
  const name = names.find((each) => get(each) !== undefined)
  if (name === undefined) return undefined
  throw new ConfigError(`${name} is set. TLS needs EAAS_TLS_CERT_FILE and EAAS_TLS_KEY_FILE`)
}

// Without a directory that belongs to the installation, no location is sure to persist.
function checkpointFile(value: string | undefined, directory: string | undefined): string | undefined {
  if (value !== undefined) return value === 'none' ? undefined : value
  return directory === undefined ? undefined : join(directory, 'checkpoints')
}

// Ignores a watchdog of another process, such as a shell that started this one.
function serviceManager({ NOTIFY_SOCKET, WATCHDOG_USEC = '', WATCHDOG_PID }: Environment): ServiceManager | undefined {
  if (!NOTIFY_SOCKET) return undefined
  const isOurs = WATCHDOG_PID === undefined || WATCHDOG_PID === String(process.pid)
  const watchdogMs = /^[1-9]\d{3,14}$/.test(WATCHDOG_USEC) && isOurs ? Number(WATCHDOG_USEC) / 1_000 : undefined
  return { socket: NOTIFY_SOCKET, watchdogMs }
}

/** Variables that Kubernetes sets in each pod for a Service named eaas, and its value of EAAS_PORT. */
const OF_SERVICE =
  /^EAAS_(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:ADDR|PORT|PROTO))?|PORT=(?:tcp|udp|sctp):\/\/.*)$/

function isUnknown(name: string): boolean {
  if (NAMES.some((known) => known === name) || SDK_VARIABLES.includes(name) || OF_SERVICE.test(name)) return false
  return /^EAAS_(?!TEST_|VECTORS$|WITNESS_)/.test(name) // the excluded ones belong to tests and to witnesses
}

// Each origin by name, since a wildcard would let any page on the web use an API key that it obtained.
function origins(list: string[]): string[] {
  for (const origin of list) {
    if (!/^https?:[^*]+$/.test(origin) || !URL.canParse(origin) || new URL(origin).origin !== origin)
      throw new ConfigError(
        `EAAS_CORS_ORIGINS must list origins such as https://app.example.org, separated by commas, got ${origin}`,
      )
  }
  return list
}

// Only the code of the formats can check a key. Credentials in a URL would be logged.
function witnesses(items: string[]): Record<'key' | 'url', string>[] {
  const list = items.map((item) => {
    const [, key = '', url = ''] = /^([^\s+]+\+[0-9a-f]{8}\+[A-Za-z0-9+/]+=*) +(https?:\/\/\S+)$/.exec(item) ?? []
    if (key === '' || !isPlainUrl(url))
      throw new ConfigError(
        'EAAS_WITNESSES must list witnesses, separated by commas, each as its key, a blank and its URL (http or https, without user, ' +
          'password, query and fragment)',
      )
    return { key, url: url.replace(/\/+$/, '') }
  })
  if (list.length > MOST_WITNESSES || new Set(list.map(({ key }) => key.split('+')[0])).size < list.length)
    throw new ConfigError(`EAAS_WITNESSES must list at most ${MOST_WITNESSES} witnesses, each under another name`)
  return list
}

function isPlainUrl(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { username, password } = new URL(text)
  return username === '' && password === '' && !/[?#]/.test(text)
}

// Strict, because the framework reads `1` as 0.0.0.1: an operator who meant one hop would silently trust no proxy.
// It takes no range of /0.
// `unix` trusts every peer on the unix socket.
function proxies(ranges: string[], hasSocket: boolean): string[] {
  for (const range of ranges) {
    if (range === 'unix') {
      if (hasSocket) continue
      throw new ConfigError('EAAS_TRUST_PROXY has unix, but EAAS_SOCKET is not set')
    }
    const [address = '', prefix = '1', ...rest] = range.split('/')
    const bits = { 0: -1, 4: 32, 6: 128 }[isIP(address)] ?? -1
    if (
      rest.length > 0 ||
      address.includes('%') ||
      !/^\d{1,3}$/.test(prefix) ||
      Number(prefix) < 1 ||
      Number(prefix) > bits
    )
      throw new ConfigError(`EAAS_TRUST_PROXY must list addresses or CIDR ranges, separated by commas, got ${range}`)
  }
  return ranges
}
