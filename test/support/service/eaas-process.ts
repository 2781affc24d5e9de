// Runs the built server as a child process: starts it, kills it with SIGKILL, stops it with SIGTERM, restarts it on its data.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import postgres from 'postgres'
import { expect } from 'vitest'
import { readConfig } from '../../../packages/server/src/core/config.js'
import { withServices } from '../../../packages/server/src/operate/cli/with-services.js'
import { createTenant, type NewTenant } from '../../../packages/server/src/operators/tenants.js'
import type { TestDatabase } from '../database/database.js'
import { type GuardedDir, guardedDir } from '../run/guarded-dir.js'

/** The paths of the built programs. */
export const EAAS = fileURLToPath(new URL('../../../packages/server/bin/eaas.mjs', import.meta.url))
export const EAAS_AUDIT = fileURLToPath(new URL('../../../packages/audit/bin/eaas-audit.mjs', import.meta.url))
/** Generous for slow machines, because a start includes the recovery of the database. */
const START_TIMEOUT_MS = 60_000
const KEPT_OUTPUT = 65_536

/** The root key of processes unless the test sets another. */
export const ROOT_KEY = Buffer.alloc(32, 9).toString('base64')
/**
 * The purge at each start verifies a log in its own thread, a quarter of the cost of a start: servers have none
 * unless the test sets it.
 */
export const NO_PURGE = { EAAS_AUDIT_RETENTION_MONTHS: '0' }

export interface EaasOptions {
  /** none for a command that uses no database */
  database?: TestDatabase
  /** base64; `null` sets none, so that an embedded database uses its own file. ROOT_KEY by default. */
  rootKey?: string | null
  environment?: Record<string, string>
  /** a file descriptor for its standard error, which otherwise goes to the caller */
  stderr?: number
  /** a program with its arguments that gets the server's command line and executes it */
  under?: readonly [string, ...string[]]
  /** the path of another build's `eaas`; the one of these sources by default */
  program?: string
  /** a program that listens instead of `eaas start`, with its arguments */
  command?: readonly [program: string, ...string[]]
}

export interface Ended {
  code: number | null
  stdout: string
  stderr: string
}

export interface EaasProcess {
  /** The URL that it listens at now; the port changes with each start. */
  readonly url: string
  readonly pid: number
  /** where its process works */
  readonly folder: string
  readonly stdout: string
  readonly stderr: string
  /** Starts again on the same data after `kill9` or `stop`; resolves when it listens. */
  start(): Promise<void>
  /** Stops reading its output: `stall` leaves the pipe open and unread, `leave` closes it. */
  stopReading(how: 'stall' | 'leave'): void
  /** SIGKILL; resolves when the process is gone. */
  kill9(): Promise<void>
  /** SIGTERM; resolves when it has ended, with its exit code. */
  stop(): Promise<Ended>
}

/**
 * Starts `eaas start` and resolves when it listens.
 * @throws with the end of its standard error when it ends instead
 */
export async function startEaas(options: EaasOptions): Promise<EaasProcess> {
  let run: Run | undefined
  const running = () => {
    if (!run) throw new Error('the server was never started')
    return run
  }
  const eaas: EaasProcess = {
    get url() {
      return running().url
    },
    get pid() {
      return running().child.pid ?? 0
    },
    get folder() {
      return guard?.path ?? ''
    },
    get stdout() {
      return running().stdout
    },
    get stderr() {
      return running().stderr
    },
    async start() {
      if (run && isRunning(run.child)) throw new Error('the server runs already: stop() or kill9() it first')
      run = launch(options.command ?? [options.program ?? EAAS, 'start'], {
        ...options,
        environment: { ...NO_PURGE, ...options.environment },
      })
      await untilListening(run)
    },
    stopReading(how) {
      const { stdout, stderr } = running().child
      for (const stream of [stdout, stderr]) how === 'leave' ? stream?.destroy() : stream?.pause()
    },
    async kill9() {
      running().child.kill('SIGKILL')
      await running().ended
    },
    async stop() {
      running().child.kill('SIGTERM')
      return running().ended
    },
  }
  await eaas.start()
  return eaas
}

/**
 * Waits until a server answers that it is healthy: on a busy machine, its checks may at first exceed their time
 * limit.
 */
export async function untilHealthy({ url }: { url: string }): Promise<void> {
  const read = async () => (await fetch(`${url}/health`)).json()
  await expect.poll(read, { timeout: START_TIMEOUT_MS }).toMatchObject({ status: 'healthy' })
}

/** Runs an `eaas` command to its end, or until SIGKILL ends it: then its exit code is null. */
export function runEaas(
  args: string[],
  options: EaasOptions,
  { killAfterMs }: { killAfterMs?: number } = {},
): Promise<Ended> {
  const { child, ended } = launch([options.program ?? EAAS, ...args], options)
  if (killAfterMs === undefined) return ended
  const timer = setTimeout(() => child.kill('SIGKILL'), killAfterMs)
  return ended.finally(() => clearTimeout(timer))
}

/**
 * Connects to the database of a test. An embedded one must be held by a running server, whose socket is used. The caller ends
 * the connection.
 */
export function connectTo(database: TestDatabase): postgres.Sql {
  const quiet = { max: 1, onnotice: () => undefined }
  if (database.backend === 'postgres') return postgres(database.directUrl, quiet)
  const path = `${database.dataDir}/.s.PGSQL.5432`
  return postgres({ ...quiet, path, user: 'postgres', database: 'postgres' } as postgres.Options<
    Record<string, postgres.PostgresType>
  >)
}

/** Does work on its own connection, as the owner of the tables. */
export async function asOwner<T>(database: TestDatabase, work: (sql: postgres.Sql) => Promise<T>): Promise<T> {
  const sql = connectTo(database)
  try {
    return await work(sql)
  } finally {
    await sql.end()
  }
}

/**
 * Creates a tenant as `eaas tenant create` does, without its process: while a server runs, or on a database that is
 * not open.
 */
export function createTenantInProcess(options: EaasOptions, name: string): Promise<NewTenant> {
  return withServices(
    readConfig(environmentOf(options)),
    (services) => createTenant(services, { name, envelope_only: true }),
    { mayCreate: true },
  )
}

interface Run {
  child: ChildProcess
  url: string
  stdout: string
  stderr: string
  ended: Promise<Ended>
}

let guard: GuardedDir | undefined
const running = new Set<number>()

/** Starts a process. It works in the guard's folder, so it leaves nothing in the project's; the guard ends it with us. */
function launch(command: readonly string[], options: EaasOptions): Run {
  guard ??= guardedDir('eaas-test-process')
  const [program, ...rest] = [...(options.under ?? []), process.execPath, ...command] as [string, ...string[]]
  const child = spawn(program, rest, {
    cwd: guard.path,
    env: environmentOf(options),
    detached: true, // so that Ctrl-C reaches only the tests
    stdio: ['ignore', 'pipe', options.stderr ?? 'pipe'],
  })
  const run: Run = { child, url: '', stdout: '', stderr: '', ended: endOf(child, () => run) }
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    run.stdout = (run.stdout + text).slice(-KEPT_OUTPUT)
  })
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    run.stderr = (run.stderr + text).slice(-KEPT_OUTPUT)
  })
  if (child.pid !== undefined) watch(child.pid)
  return run
}

function watch(pid: number): void {
  running.add(pid)
  guard?.watch([...running])
}

async function endOf(child: ChildProcess, run: () => Run): Promise<Ended> {
  const [code] = (await once(child, 'close')) as [number | null]
  if (child.pid !== undefined) running.delete(child.pid)
  guard?.watch([...running])
  return { code, stdout: run().stdout, stderr: run().stderr }
}

async function untilListening(run: Run): Promise<void> {
  const { child } = run
  const listening = new Promise<'listening'>((resolve) => {
    child.stdout?.on('data', () => {
      const [, url] = /^(?:EaaS|The witness) is listening on (\S+)\n/m.exec(run.stdout) ?? []
      if (url === undefined) return
      run.url = url
      resolve('listening')
    })
  })
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<'late'>((resolve) => {
    timer = setTimeout(() => resolve('late'), START_TIMEOUT_MS)
  })
  const outcome = await Promise.race([listening, run.ended, late])
  clearTimeout(timer)
  if (outcome === 'listening') return
  if (outcome === 'late') child.kill('SIGKILL')
  const { code, stderr } = await run.ended
  throw new Error(`eaas start ${outcome === 'late' ? 'did not listen' : `ended with code ${code}`}: ${stderr}`)
}

/** Builds the environment of a process, without the caller's own EAAS_* and NODE_* variables. */
export function environmentOf({ database, rootKey = ROOT_KEY, environment = {} }: EaasOptions): Record<string, string> {
  const { PATH = '', HOME = '', TMPDIR } = process.env
  return {
    PATH,
    HOME,
    ...(TMPDIR === undefined ? {} : { TMPDIR }),
    EAAS_PORT: '0',
    EAAS_LOG_LEVEL: 'warn',
    ...(rootKey === null ? {} : { EAAS_ROOT_KEY: rootKey }),
    ...(database?.backend === 'postgres' ? { EAAS_DATABASE_URL: database.url } : {}),
    ...(database?.backend === 'embedded' ? { EAAS_DATA_DIR: database.dataDir } : {}),
    ...environment,
  }
}

function isRunning(child: ChildProcess): boolean {
  return child.exitCode === null && child.signalCode === null
}
