// A real PostgreSQL for the tests: its own data folder and port, durable settings, and crashes on demand.
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chownSync, closeSync, existsSync, openSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import { copyFolder } from '../run/copy-folder.js'
import { type GuardedDir, guardedDir } from '../run/guarded-dir.js'
import { madeOnce } from '../run/made-once.js'

/** Generous for slow disks, because crash recovery replays everything that fsync kept. In milliseconds. */
const READY_TIMEOUT_MS = 60_000

/** The database that has the server's tables, to make others from; see global-setup.ts. */
export const MIGRATED = 'eaas_migrated'

/** The settings with which an acknowledged commit survives a crash; the tests of durability depend on them. */
const DURABLE = { fsync: 'on', synchronous_commit: 'on', full_page_writes: 'on' }

export interface PostgresOptions {
  /** Folder with `postgres` and `initdb`, from `findPostgres`. */
  bin: string
  /** The folder of the run, whose cluster is copied: making one takes initdb three quarters of a second of CPU time. */
  runDir?: string
  /** Server settings besides the durable ones, such as `{ max_connections: '20' }`; the default is 200 connections. */
  settings?: Record<string, string>
  /** The folder in which the data folder is made, such as a small tmpfs to test a full disk; the temp folder by default. */
  parentDir?: string
  /** of the superuser, where servers log in to each other; a random one by default */
  password?: string
  /** superuser's URL of the primary that this server follows as a streaming standby */
  standbyOf?: string
}

export interface PostgresServer {
  /** The superuser's URL of the database `postgres`, with the password. */
  readonly url: string
  readonly port: number
  readonly logFile: string
  /** Starts again on the same data and port after `kill` or `stop`; resolves when queries are answered. */
  start(): Promise<void>
  /** Ends with a clean (fast) shutdown and keeps the data. */
  stop(): Promise<void>
  /** SIGKILL to the postmaster and all its children at once, as a crash does; keeps the data. */
  kill(): Promise<void>
  /** Makes an empty database and returns its URL; throws if the name is taken. */
  createDatabase(name: string): Promise<string>
  /** Ends the server and deletes its data; otherwise that happens when this process ends, however it ends. */
  remove(): Promise<void>
}

/**
 * Makes a fresh cluster and starts it on 127.0.0.1, as an unprivileged account when we are root.
 * @throws with the end of the server's log when it does not start
 */
export async function startPostgres({
  bin,
  runDir,
  settings = {},
  parentDir,
  password: given,
  standbyOf,
}: PostgresOptions): Promise<PostgresServer> {
  const account = unprivilegedAccount()
  const made =
    runDir === undefined || standbyOf !== undefined ? undefined : await clusterOfRun(runDir, { bin, account })
  const guard = guardedDir('eaas-test-postgres', parentDir)
  const data = join(guard.path, 'data')
  const logFile = join(guard.path, 'postgres.log')
  const password = standbyOf === undefined ? (made?.password ?? given ?? newPassword()) : new URL(standbyOf).password
  const port = await freePort()
  const url = `postgres://postgres:${password}@127.0.0.1:${port}/postgres`
  const context = { bin, guard, account, data, logFile, url }
  try {
    if (standbyOf !== undefined) await copyCluster(context, standbyOf)
    else if (made) copyFiles(made.data, context)
    else await initCluster(context, password)
  } catch (error) {
    await guard.remove()
    throw error
  }

  const all = { max_connections: '200', ...DURABLE, ...settings, port: String(port) }
  let postmaster: ChildProcess | undefined
  const server: PostgresServer = {
    url,
    port,
    logFile,
    start: async () => {
      if (postmaster && isRunning(postmaster)) throw new Error('PostgreSQL runs already: stop() or kill() it first')
      postmaster = launch(context, all)
      await untilReady(context, postmaster)
    },
    stop: async () => end(postmaster, (child) => child.kill('SIGINT')),
    kill: async () => end(postmaster, killFamily),
    createDatabase: (name) => createDatabase(url, name),
    remove: async () => {
      await end(postmaster, (child) => child.kill('SIGQUIT'))
      await guard.remove()
    },
  }
  try {
    await server.start()
  } catch (error) {
    await server.remove()
    throw error
  }
  return server
}

/**
 * Makes a database on the server of `adminUrl` and returns its URL.
 * @param name lower-case letters, digits and `_`
 * @throws if the name is taken (42P04)
 */
export async function createDatabase(adminUrl: string, name: string): Promise<string> {
  const sql = postgres(adminUrl, { max: 1 })
  try {
    await copyDatabase(sql, name, 'template1')
  } finally {
    await sql.end()
  }
  const url = new URL(adminUrl)
  url.pathname = `/${name}`
  return url.href
}

/**
 * Copies a database on a connection of the caller. From PostgreSQL 15 on, a copy goes through the log by default,
 * which takes twice the CPU time of copying the files.
 */
export async function copyDatabase(sql: postgres.Sql, name: string, template: string): Promise<void> {
  if (!/^[a-z][a-z0-9_]{0,62}$/.test(name)) throw new Error(`database name must match [a-z][a-z0-9_]*, got ${name}`)
  const [{ chooses } = {}] = await sql`select current_setting('server_version_num')::int >= 150000 as chooses`
  await sql`create database ${sql(name)} template ${sql(template)} ${sql.unsafe(chooses ? 'strategy file_copy' : '')}`
}

export interface Account {
  uid: number
  gid: number
}

interface Cluster {
  bin: string
  guard: GuardedDir
  account: Account | undefined
  data: string
  logFile: string
  url: string
}

/** Finds an account for PostgreSQL, which refuses to run as root; undefined if we are not root. */
export function unprivilegedAccount(): Account | undefined {
  if (process.getuid?.() !== 0) return undefined
  for (const name of ['postgres', 'nobody']) {
    const uid = spawnSync('id', ['-u', name], { encoding: 'utf8' })
    const gid = spawnSync('id', ['-g', name], { encoding: 'utf8' })
    if (uid.status === 0 && gid.status === 0) return { uid: Number(uid.stdout), gid: Number(gid.stdout) }
  }
  throw new Error('PostgreSQL does not run as root: make an account `postgres` or `nobody`, or run the tests as a user')
}

const newPassword = () => randomBytes(16).toString('hex')

/**
 * Makes what PostgreSQL stores for a password (RFC 5803), with one iteration instead of its 4,096, which cost client
 * and server 2 ms at each of the thousands of connections: a random password of 16 bytes needs none.
 */
function scramOf(password: string): string {
  const salt = randomBytes(16)
  const salted = pbkdf2Sync(password, salt, 1, 32, 'sha256')
  const keyed = (label: string) => createHmac('sha256', salted).update(label).digest()
  const storedKey = createHash('sha256').update(keyed('Client Key')).digest('base64')
  return `SCRAM-SHA-256$1:${salt.toString('base64')}$${storedKey}:${keyed('Server Key').toString('base64')}`
}

/** The major version of the programs in a folder. */
function majorVersion(bin: string): number {
  const said = execFileSync(join(bin, 'postgres'), ['--version'], { encoding: 'utf8' })
  return Number(/ (\d+)\D/.exec(said)?.[1] ?? 0)
}

/** Finds the data and the password of the run's cluster, which no server has used, or makes it. */
async function clusterOfRun(runDir: string, { bin, account }: Pick<Cluster, 'bin' | 'account'>) {
  const folder = await madeOnce(runDir, 'postgres', async (draft) => {
    const guard = guardedDir('eaas-test-initdb')
    try {
      const [data, logFile, password] = [join(guard.path, 'data'), join(guard.path, 'initdb.log'), newPassword()]
      await initCluster({ bin, guard, account, data, logFile }, password)
      writeFileSync(join(draft, 'password'), password, { mode: 0o600 })
      copyFolder(data, join(draft, 'data'))
    } finally {
      await guard.remove()
    }
  })
  return { data: join(folder, 'data'), password: readFileSync(join(folder, 'password'), 'utf8') }
}

/** Copies the files of a cluster on which no server runs. */
function copyFiles(from: string, { guard, account, data }: Cluster): void {
  copyFolder(from, data)
  if (!account) return
  const files = readdirSync(data, { recursive: true, encoding: 'utf8' }).map((file) => join(data, file))
  for (const path of [guard.path, data, ...files]) chownSync(path, account.uid, account.gid)
}

async function initCluster(
  { bin, guard, account, data, logFile }: Omit<Cluster, 'url'>,
  password: string,
): Promise<void> {
  const passwordFile = join(guard.path, 'password')
  // PostgreSQL 13's initdb reads at most 99 characters.
  writeFileSync(passwordFile, majorVersion(bin) < 14 ? password : scramOf(password), { mode: 0o600 })
  if (account) for (const path of [guard.path, passwordFile]) chownSync(path, account.uid, account.gid)
  const args = ['-D', data, '-U', 'postgres', '--auth=scram-sha-256', `--pwfile=${passwordFile}`]
  const child = run({ bin, guard, account, logFile }, [
    'initdb',
    ...args,
    '--encoding=UTF8',
    '--no-locale',
    '--no-sync',
  ])
  guard.watch([pidOf(child, 'initdb')])
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`initdb ended with code ${code}. ${logTail(logFile)}`)
}

/** Copies a primary by a base backup, with the settings that the copy needs to follow it. */
async function copyCluster({ bin, guard, account, data, logFile }: Cluster, primary: string): Promise<void> {
  if (account) chownSync(guard.path, account.uid, account.gid)
  const args = ['-D', data, '-R', '-c', 'fast', '-d', primary]
  const child = run({ bin, guard, account, logFile }, ['pg_basebackup', ...args])
  guard.watch([pidOf(child, 'pg_basebackup')])
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`pg_basebackup ended with code ${code}. ${logTail(logFile)}`)
}

function launch(cluster: Cluster, settings: Record<string, string>): ChildProcess {
  // No Unix sockets: their path may be too long in a temp folder, and other servers use /tmp.
  const fixed = { listen_addresses: '127.0.0.1', unix_socket_directories: '' }
  const options = Object.entries({ ...fixed, ...settings }).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const child = run(cluster, ['postgres', '-D', cluster.data, ...options])
  cluster.guard.watch([pidOf(child, 'postgres')])
  // The guard ends it with us, so it must not keep our event loop alive.
  child.unref()
  return child
}

/** Runs a program in a session of its own, so that Ctrl-C reaches only the tests, and without the caller's PG* variables. */
function run(
  { bin, guard, account, logFile }: Pick<Cluster, 'bin' | 'guard' | 'account' | 'logFile'>,
  [program = '', ...args]: string[],
): ChildProcess {
  const log = openSync(logFile, 'a')
  const env = { PATH: process.env.PATH ?? '', HOME: guard.path, LC_ALL: 'C', TZ: 'UTC' }
  try {
    const options = { cwd: guard.path, env, detached: true, ...account }
    const child = spawn(join(bin, program), args, { ...options, stdio: ['ignore', log, log] })
    // If it cannot be started, it has no pid, and `pidOf` throws. Without this listener the event would end our process.
    child.on('error', () => undefined)
    return child
  } finally {
    closeSync(log)
  }
}

async function untilReady({ url, logFile }: Cluster, child: ChildProcess): Promise<void> {
  const deadline = Date.now() + READY_TIMEOUT_MS
  let refusal: unknown
  while (Date.now() < deadline) {
    if (!isRunning(child)) throw new Error(`PostgreSQL ended with code ${child.exitCode}. ${logTail(logFile)}`)
    const sql = postgres(url, { max: 1, connect_timeout: 5 })
    try {
      await sql`select 1`
      return
    } catch (error) {
      refusal = error
      await sleep(50)
    } finally {
      await sql.end({ timeout: 1 })
    }
  }
  throw new Error(`PostgreSQL was not ready within ${READY_TIMEOUT_MS} ms: ${refusal}. ${logTail(logFile)}`)
}

async function end(child: ChildProcess | undefined, how: (child: ChildProcess) => unknown): Promise<void> {
  if (!child || !isRunning(child)) return
  child.ref()
  const exited = once(child, 'exit')
  await how(child)
  await exited
}

/** Kills a postmaster and its children. Stops it first, so that it cannot start a child between the listing and the kill. */
async function killFamily(postmaster: ChildProcess): Promise<void> {
  const pid = pidOf(postmaster, 'postgres')
  process.kill(pid, 'SIGSTOP')
  const family = [...childrenOf(pid), pid]
  for (const member of family) signalIfThere(member, 'SIGKILL')
  // They hold the shared memory until they have ended, and a new start is refused until then.
  while (family.some(isAlive)) await sleep(10)
}

/** Sends a signal to a process that may have ended. */
export function signalIfThere(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error
  }
}

/**
 * Whether a process is alive. A zombie is not: it holds no resources, and stays for ever if no process reaps orphans.
 */
function isAlive(pid: number): boolean {
  return processes().some((process) => process.pid === pid && !process.state.startsWith('Z'))
}

function childrenOf(parent: number): number[] {
  return processes().flatMap(({ pid, ppid }) => (ppid === parent ? [pid] : []))
}

interface Process {
  pid: number
  ppid: number
  state: string
}

/** Lists processes from /proc, because slim containers have no `ps`; from `ps` if there is no /proc. */
export function processes(): Process[] {
  const rows = existsSync('/proc/self/stat')
    ? readdirSync('/proc').filter(isNumber).map(statOf)
    : execFileSync('ps', ['-A', '-o', 'pid=,stat=,ppid='], { encoding: 'utf8' }).split('\n')
  return rows.flatMap((row) => {
    const [pid = '', state = '', ppid = ''] = row.trim().split(/\s+/)
    return isNumber(pid) ? [{ pid: Number(pid), ppid: Number(ppid), state }] : []
  })
}

/** Reads `pid (name) state ppid …`, whose name may contain blanks and brackets; '' if the process has ended meanwhile. */
function statOf(pid: string): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return `${pid} ${stat.slice(stat.lastIndexOf(')') + 2)}`
  } catch {
    return ''
  }
}

function isNumber(text: string): boolean {
  return /^\d+$/.test(text)
}

function isRunning(child: ChildProcess): boolean {
  return child.exitCode === null && child.signalCode === null
}

function pidOf(child: ChildProcess, program: string): number {
  if (child.pid === undefined) throw new Error(`${program} could not be started: is it executable for this account?`)
  return child.pid
}

function logTail(logFile: string): string {
  return `The end of its log:\n${readFileSync(logFile, 'utf8').split('\n').slice(-15).join('\n')}`
}

/** Finds a free port by the system's choice. It stays free unless another process takes it before the caller does. */
export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const address = probe.address()
  if (address === null || typeof address === 'string') throw new Error('no free TCP port on 127.0.0.1')
  probe.close()
  await once(probe, 'close')
  return address.port
}
