// The processes under test: the server as it is built, and small programs to hold it against.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { GuardedDir } from '../../support/run/guarded-dir.js'
import { pinned } from './cpus.js'
import { run } from './load.js'

const EAAS = fileURLToPath(new URL('../../../packages/server/bin/eaas.mjs', import.meta.url))
/** As the image and the systemd unit start it. */
const NODE_ARGS = ['--max-semi-space-size=32']
/** base64; of the servers on PostgreSQL, the embedded database has its own. */
export const ROOT_KEY = Buffer.alloc(32, 9).toString('base64')

export interface Running {
  url: string
  pid: number
  /** from the start of the process until it listened, milliseconds */
  readyMs: number
  /** CPU time until then, milliseconds */
  readyCpuMs: number
  /** bytes resident now */
  rss(): number
  stop(): Promise<void>
}

/** Where processes live: they end with this one, and so does the folder. */
export interface Place {
  guard: GuardedDir
  cpus: string | undefined
  /** the program; the Node that runs this where it is left out */
  node?: string
}

export interface Database {
  /** PostgreSQL's; the embedded database where it is left out */
  url?: string
  dataDir?: string
}

const running = new Set<number>()
let logs = 0

/** The environment of the server: nothing of the caller's but what Node needs. */
export function environmentOf({ url, dataDir }: Database, environment: Record<string, string> = {}) {
  const { PATH = '', HOME = '' } = process.env
  return {
    PATH,
    HOME,
    EAAS_PORT: '0',
    ...(url === undefined ? { EAAS_DATA_DIR: dataDir ?? '' } : { EAAS_DATABASE_URL: url, EAAS_ROOT_KEY: ROOT_KEY }),
    ...environment,
  }
}

/** Starts `eaas start`; its log goes to a file, as under a service manager. */
export function startServer(
  place: Place,
  database: Database,
  { environment, nodeArgs = [] }: { environment?: Record<string, string>; nodeArgs?: string[] } = {},
): Promise<Running> {
  return launch(place, [...NODE_ARGS, ...nodeArgs, EAAS, 'start'], environmentOf(database, environment))
}

/** Starts a program of this folder that prints `listening on <url>`. */
export function startProgram(place: Place, file: string): Promise<Running> {
  const path = fileURLToPath(new URL(`../${file}`, import.meta.url))
  return launch(place, [path], { PATH: process.env.PATH ?? '' })
}

/** Runs an `eaas` command; returns the JSON that it printed. */
// biome-ignore lint/suspicious/noExplicitAny: the callers know what they asked for
export async function eaas(database: Database, args: string[]): Promise<any> {
  const variables = Object.entries(environmentOf(database)).map(([name, value]) => `${name}=${value}`)
  return JSON.parse(await run(['env', '-i', ...variables, process.execPath, EAAS, ...args, '--json']))
}

async function launch(
  { guard, cpus, node = process.execPath }: Place,
  args: string[],
  env: Record<string, string>,
): Promise<Running> {
  const log = openSync(join(guard.path, `process-${++logs}.log`), 'a')
  const startedAt = performance.now()
  const [program, ...rest] = pinned(cpus, [node, ...args])
  const child = spawn(program, rest, { cwd: guard.path, env, detached: true, stdio: ['ignore', 'pipe', log] })
  closeSync(log)
  const pid = child.pid ?? 0
  running.add(pid)
  guard.watch([...running])
  const ended = once(child, 'close').then(() => {
    running.delete(pid)
    guard.watch([...running])
  })
  const url = await untilListening(child, join(guard.path, `process-${logs}.log`))
  return {
    url,
    pid,
    readyMs: performance.now() - startedAt,
    readyCpuMs: cpuMs(pid),
    rss: () => residentBytes(pid),
    async stop() {
      child.kill('SIGTERM')
      await ended
    },
  }
}

function untilListening(child: ChildProcess, logFile: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let output = ''
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      output += text
      const [, url] = /listening on (\S+)\n/.exec(output) ?? []
      if (url !== undefined) resolve(url)
    })
    child.once('error', reject)
    child.once('exit', (code) => reject(new Error(`ended with code ${code}: ${readFileSync(logFile, 'utf8')}`)))
  })
}

/** The resident memory of a process, from /proc. */
function residentBytes(pid: number): number {
  const [, kilobytes = 'NaN'] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return Number(kilobytes) * 1_024
}

/** CPU time that a process has used, all its threads, in milliseconds; from /proc, so on Linux only. */
export const cpuMs = (pid: number): number => cpuTimeMs(pid, 11)

/** CPU time that the children of a process have used which have ended. */
export const endedChildrenCpuMs = (pid: number): number => cpuTimeMs(pid, 13)

function cpuTimeMs(pid: number, field: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[field]) + Number(fields[field + 1])) * 10 // in ticks of 1/100 s
}
