/** `eaas dev`: runs a server for the application in this folder, and writes its address where the application reads it. */
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, lstatSync } from 'node:fs'
import { appendFile, readFile, realpath, stat } from 'node:fs/promises'
import { get, type IncomingMessage } from 'node:http'
import { basename, dirname, join } from 'node:path'
import { parseEnv } from 'node:util'
import { createFile, ListenError, outliveOutput, replaceFile } from '@eaas/audit/node'
import { explainUnwritten, PATH_REASONS, PERMISSIONS } from '@eaas/protocol'
import { type Command, Option } from 'commander'
import { createApiKey } from '../../core/api/api-keys.js'
import { type Config, ConfigError } from '../../core/config.js'
import type { Services } from '../../core/runner/operation.js'
import { performAsSystem } from '../../core/runner/perform.js'
import { findRunningEmbedded } from '../../embedded/database.js'
import { createTenant } from '../../operators/tenants.js'
import { commandConfig, readKeptPath } from './command.js'
import { baseUrl, FIRST_TENANT, isLocal } from './greeting.js'
import { print } from './output.js'
import { serve } from './start.js'
import { findTenant } from './with-services.js'

const API_KEY_NAME = 'eaas dev'

export function addDev(program: Command): void {
  program
    .command('dev')
    .description(
      'Serve the API to the application in this folder, on the embedded database: make a tenant and an API key, and write EAAS_URL and EAAS_API_KEY where createClient() finds them. For development only.',
    )
    .addOption(
      new Option('--file <file>', 'file to write both variables to').argParser(readKeptPath).default('.env.local'),
    )
    .addHelpText('after', '\nEAAS_DATA_DIR, EAAS_PORT and EAAS_LOG_LEVEL apply: see eaas start --help.')
    .action(({ file }) => {
      outliveOutput()
      return dev(commandConfig(), file)
    })
}

async function dev(config: Config, envFile: string): Promise<void> {
  if (config.databaseUrl !== undefined)
    throw new ConfigError(
      'EAAS_DATABASE_URL is set, and eaas dev is for the embedded database: unset it, or use eaas start',
    )
  if (!isLocal(baseUrl(config.host, 0)))
    throw new ConfigError('EAAS_HOST lets other machines in, and eaas dev has no TLS: unset it, or use eaas start')
  if (!existsSync(envFile) && isLink(envFile))
    throw new ConfigError(`${envFile} is a symbolic link that leads to no file: make that file, or remove the link`)
  const { EAAS_URL, EAAS_API_KEY } = await readEnvFile(envFile).catch((error: NodeJS.ErrnoException) => {
    throw new ConfigError(`${envFile} cannot be read: ${PATH_REASONS[error.code ?? ''] ?? error.code}`)
  })
  // The file may contain the only copy of another server's API key.
  if (EAAS_URL && !(URL.canParse(EAAS_URL) && isLocal(EAAS_URL)))
    throw new ConfigError(`${envFile} has the EAAS_URL of another server: remove it, or name another file with --file`)
  const logLevel = config.logLevel === 'info' ? 'warn' : config.logLevel // the default, info, has a line for each call
  const plain = { ...config, socket: undefined, tls: undefined, logLevel }
  await serve(plain, async ({ installation: { services } }, url) => {
    const isKept = EAAS_API_KEY !== undefined && (await isAccepted(url, EAAS_API_KEY))
    // The EAAS_URL of the server that created it may be in another file.
    if (EAAS_API_KEY && !isKept && !(EAAS_URL && new URL(EAAS_URL).port === new URL(url).port))
      throw new ConfigError(
        `${envFile} has an EAAS_API_KEY that this server does not accept, perhaps that of another server: remove it, or name another file with --file`,
      )
    // First without the API key: if the file cannot be written, no API key is created that would be lost.
    if (!isKept || EAAS_URL !== url) await writeTo(envFile, { EAAS_URL: url })
    if (!isKept) await writeTo(envFile, { EAAS_URL: url, EAAS_API_KEY: await makeApiKey(services) })
    print(
      `EaaS is listening on ${url}`,
      `${envFile} has EAAS_URL and EAAS_API_KEY, which createClient() reads: node --env-file=${envFile} app.mjs`,
      `For development only. Data stays in ${config.dataDir}. Ctrl-C stops it.`,
      ...(await findReaders(envFile)),
      ...(await keepFromGit(envFile)),
    )
  }).catch(async (error) => {
    const running = error instanceof ListenError && (await findRunningEmbedded(config.dataDir))
    if (!running) throw error
    throw new ConfigError(`eaas dev already runs here, process ${running.pid}: it serves ${config.dataDir}`)
  })
}

function isLink(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false
}

async function writeTo(file: string, values: Readonly<Record<string, string>>): Promise<void> {
  await setEnvFile(file, values).catch((error: NodeJS.ErrnoException) => {
    throw new ConfigError(explainUnwritten(file, error))
  })
}

/** An earlier run or the user may have written the file. */
async function findReaders(file: string): Promise<string[]> {
  const isPrivate = process.platform === 'win32' || ((await stat(file)).mode & 0o066) === 0
  return isPrivate ? [] : [`other users can read or change ${file}, which has a secret: chmod 600 ${file}`]
}

/** The API key may come from a deleted data directory. */
async function isAccepted(url: string, apiKey: string): Promise<boolean> {
  // Without fetch, which takes longer to load than the call itself.
  const call = get(`${url}/v1/keys?limit=1`, { agent: false, headers: { authorization: `Bearer ${apiKey}` } })
  const [{ statusCode }] = (await once(call, 'response')) as [IncomingMessage]
  call.destroy()
  return statusCode !== 401
}

async function makeApiKey(services: Services): Promise<string> {
  const tenant = await findTenant(services, FIRST_TENANT)
  if (!tenant) return (await createTenant(services, { name: FIRST_TENANT, envelope_only: true })).api_key.secret
  const fields = { name: API_KEY_NAME, permissions: [...PERMISSIONS], expires_at: null, allowed_ips: null, keys: null }
  return (await performAsSystem(services, tenant.tenant_id, createApiKey(fields))).secret
}

// In a folder without a repository, the first `git add` would include the file, so its .gitignore names it.
async function keepFromGit(file: string): Promise<string[]> {
  const name = basename(file)
  const { status } = spawnSync('git', ['check-ignore', '--quiet', '--', name], { cwd: dirname(file) })
  if (status === 0) return []
  const ignoring = join(dirname(file), '.gitignore')
  if (isLink(ignoring)) return [`${ignoring} is a symbolic link, which git does not follow: ${name} has a secret`]
  try {
    const lines = (await readIfThere(ignoring)).split(/\r?\n/)
    const isNamed = lines.some((line) => patternOf(line.trim().replace(/^\//, '')).test(name))
    if (!isNamed) {
      await appendFile(ignoring, `${lines.at(-1) === '' ? '' : '\n'}${name}\n`)
      return [`${ignoring} names ${name} now, which has a secret`]
    }
  } catch (error) {
    return [`add ${name}, which has a secret, to ${ignoring} (${(error as NodeJS.ErrnoException).code})`]
  }
  return status === 1 ? [`git does not ignore ${file}, which has a secret: git rm --cached ${file}`] : []
}

/** Compiles a line of .gitignore, as far as it can name a file. */
function patternOf(line: string): RegExp {
  return new RegExp(`^${line.replace(/[^\w*]/g, '\\$&').replaceAll('*', '.*')}$`)
}

async function readEnvFile(path: string): Promise<Record<string, string | undefined>> {
  return parseEnv(await readIfThere(path)) as Record<string, string>
}

export async function readIfThere(path: string): Promise<string> {
  return existsSync(path) ? readFile(path, 'utf8') : ''
}

/** Sets ASCII variables, at the end of the file instead of in place. Keeps all other lines; afterwards only the owner may read the file. */
export async function setEnvFile(path: string, values: Readonly<Record<string, string>>): Promise<void> {
  if (!existsSync(path) && (await createFile(path, () => withVariables('', values)))) return
  const file = await realpath(path)
  const text = withVariables(await readFile(file, BYTES), values)
  await replaceFile(file, Buffer.from(text, BYTES))
}

const BYTES = 'latin1' // one character for each byte, whatever the file's encoding

function withVariables(text: string, values: Readonly<Record<string, string>>): string {
  const isOurs = (line: string) =>
    Object.keys(values).some((name) => new RegExp(`^\\s*(?:export\\s+)?${name}\\s*=`).test(line))
  const others = text.split('\n').filter((line) => !isOurs(line))
  while (others.at(-1) === '') others.pop()
  return [...others, ...Object.entries(values).map(([name, value]) => `${name}=${value}`), ''].join('\n')
}
