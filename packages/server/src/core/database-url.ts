/**
 * Reads a PostgreSQL URL in libpq's form, with one or several hosts, or with the directory of a unix socket:
 * postgres://user:password@h1:5432,h2:5432/database, postgres://user@/database?host=/run/postgresql.
 */

const PARTS = /^(postgres(?:ql)?:\/\/(?:[^/?#]*@)?)([^/?#@]*)(.*)$/s
const DEFAULT_PORT = 5432

/** The decoded parts of a URL; missing ones are empty or undefined. */
export interface DatabaseUrl {
  first: string // the URL with only its first host, and the parameters that the driver reads
  user: string
  password: string
  socketPath: string | undefined
  sslMode: string | undefined
  channelBinding: ChannelBinding
  certFile: string | undefined // `sslcert`
  keyFile: string | undefined // `sslkey`
  caFile: string | undefined // `sslrootcert`
  hosts: { host: string; port: number }[] // in the order in which they are tried
  database: string
  description: string // hosts and database, for messages; without credentials
  isVerified: boolean // whether a connection requires that the database's certificate and the name in it are verified
}

export function readDatabaseUrl(text: string): DatabaseUrl | undefined {
  const [, start = '', list = '', rest = ''] = PARTS.exec(text) ?? []
  const [path = '', query = ''] = rest.split('?', 2)
  const parameters = new URLSearchParams(query)
  const directory = parameters.get('host')
  if (directory !== null && (list !== '' || !directory.startsWith('/'))) return undefined
  const port = parameters.get('port') ?? String(DEFAULT_PORT)
  const read = new URLSearchParams([...parameters].filter(([name]) => !OWN_PARAMETERS.includes(name)))
  const tail = read.size > 0 ? `${path}?${read}` : path
  // A URL with a user needs a host; with a unix socket, the driver does not use it.
  const urls = (directory === null ? list : 'localhost').split(',').map((host) => `${start}${host}${tail}`)
  const [first = ''] = urls
  if (!/^\d{1,5}$/.test(port) || !urls.every((url) => URL.canParse(url) && isCoded(url))) return undefined
  const hosts = urls.map((text) => {
    const url = new URL(text)
    return { host: url.hostname.replace(/^\[(.*)\]$/, '$1'), port: Number(url.port || DEFAULT_PORT) }
  })
  if (hosts.length > 1 && hosts.some(({ host }) => host === '')) return undefined
  // A host with a % is libpq's form of a unix socket, which would be looked up as a name.
  if (hosts.some(({ host }) => host.includes('%'))) return undefined
  const { username, password, pathname } = new URL(first)
  const named = hosts.filter(({ host }) => host !== '')
  const sslMode = parameters.get('sslmode') ?? undefined
  return {
    first,
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    hosts: directory === null ? named : [],
    socketPath: directory === null ? undefined : `${directory.replace(/\/+$/, '')}/.s.PGSQL.${port}`,
    database: decodeURIComponent(pathname.slice(1)),
    description:
      directory === null ? `${list}${pathname}` : `${directory}, port ${port}, database ${pathname.slice(1)}`,
    sslMode,
    isVerified: sslMode?.startsWith('verify-') ?? false,
    channelBinding: CHANNEL_BINDINGS.find((mode) => mode === parameters.get('channel_binding')) ?? 'prefer',
    certFile: parameters.get('sslcert') ?? undefined,
    keyFile: parameters.get('sslkey') ?? undefined,
    caFile: parameters.get('sslrootcert') ?? undefined,
  }
}

/** The parameters that are read here instead of by the driver. */
const OWN_PARAMETERS: readonly string[] =
  'host port sslcert sslkey sslrootcert channel_binding target_session_attrs'.split(' ')
/** All parameters that are read. The driver sends any other to the database, passwords included. */
export const URL_PARAMETERS = ['sslmode', 'sslnegotiation', 'application_name', 'options', ...OWN_PARAMETERS] as const
const CHANNEL_BINDINGS = ['disable', 'prefer', 'require'] as const
type ChannelBinding = (typeof CHANNEL_BINDINGS)[number]

/** Parameters with a few possible values. The server uses the host that takes writes, whatever the URL says. */
const CHOICES: Record<string, readonly string[]> = {
  sslmode: ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'], // both `verify` values check the name
  channel_binding: CHANNEL_BINDINGS,
  target_session_attrs: ['read-write', 'primary'],
}

/** Finds the first parameter that is unknown or has an invalid value, and its valid values if they are few. */
export function findWrongParameter(text: string): { name: string; choices: readonly string[] | undefined } | undefined {
  const [, query = ''] = /\?(.*)$/s.exec(text) ?? []
  const wrong = [...new URLSearchParams(query)].find(([name, value]) => {
    const choices = CHOICES[name]
    if (choices !== undefined) return !choices.includes(value)
    return value === '' || !(URL_PARAMETERS as readonly string[]).includes(name)
  })
  return wrong && { name: wrong[0], choices: CHOICES[wrong[0]] }
}

/** Whether each % in user, password and database begins the code of a character. */
function isCoded(url: string): boolean {
  const { username, password, pathname } = new URL(url)
  try {
    for (const part of [username, password, pathname]) decodeURIComponent(part)
    return true
  } catch {
    return false
  }
}

/** `databaseUrlOption`: the option of a command that names the file, if no variable does. */
export type DatabaseSetting = Partial<
  Record<'databaseUrl' | 'databaseUrlFile' | 'databaseUrlOption', string | undefined>
>

/** Names the setting in force, for a sentence about its value. */
export function nameSetting({ databaseUrlFile, databaseUrlOption }: DatabaseSetting): string {
  if (databaseUrlOption !== undefined) return `the file of ${databaseUrlOption}`
  return databaseUrlFile === undefined ? 'EAAS_DATABASE_URL' : 'the file of EAAS_DATABASE_URL_FILE'
}
