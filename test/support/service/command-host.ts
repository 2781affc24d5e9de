// Commands of `eaas` and `eaas-audit` without a process for each: one process of a worker runs them one after another (command-host.mjs). For tests of what a
// command does, `eaas start` included where it is refused; those of what its process does, such as its streams, signals and memory, use `runEaas`.
import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { guardedDir } from '../run/guarded-dir.js'
import { type EaasOptions, type Ended, environmentOf } from './eaas-process.js'

const HOST = fileURLToPath(new URL('command-host.mjs', import.meta.url))
/** What the programs below bin/ import. */
const PROGRAMS = {
  eaas: new URL('../../../packages/server/dist/main.js', import.meta.url).href,
  'eaas-audit': new URL('../../../packages/audit/dist/main.js', import.meta.url).href,
}

interface Waiting {
  resolve(ended: Ended): void
  reject(error: Error): void
}

interface Host {
  child: ChildProcess
  waiting: Waiting | undefined
}

let host: Host | undefined
let turn: Promise<unknown> = Promise.resolve()

/** Runs an `eaas` command that ends by itself, after the commands that are already running. */
export function runCommand(
  args: string[],
  options: Pick<EaasOptions, 'database' | 'rootKey' | 'environment'>,
): Promise<Ended> {
  return runCommandIn(environmentOf(options), args)
}

/** Runs an `eaas-audit` command that ends by itself; without options with no environment variable at all. */
export function runAuditCommand(args: string[], options?: Pick<EaasOptions, 'environment'>): Promise<Ended> {
  return runCommandIn(options ? environmentOf({ rootKey: null, ...options }) : {}, args, 'eaas-audit')
}

/** Runs a command with exactly these environment variables. */
export function runCommandIn(
  env: Record<string, string>,
  args: string[],
  program: keyof typeof PROGRAMS = 'eaas',
): Promise<Ended> {
  const ended = turn.then(() => {
    host ??= startHost()
    const { child } = host
    return new Promise<Ended>((resolve, reject) => {
      if (host) host.waiting = { resolve, reject }
      child.send({ program: PROGRAMS[program], args, env })
    })
  })
  turn = ended.catch(() => undefined)
  return ended
}

/** What `eaas doctor` finds in one of its checks. */
export interface Finding {
  check: string
  ok: boolean
  warning?: true
  detail: string
}

/** Runs `eaas doctor`; returns its exit code and what it finds. */
export async function runDoctor(options: Parameters<typeof runCommand>[1]) {
  const { code, stdout } = await runCommand(['doctor', '--json'], options)
  const { findings } = JSON.parse(stdout) as { findings: Finding[] }
  return { code, findings, found: (check: string) => findings.find((finding) => finding.check === check) }
}

/** Creates a tenant by the command line, whether a server is running or not. */
export async function createTenantByCli(
  options: Parameters<typeof runCommand>[1],
  name: string,
): Promise<{ tenant_id: string; api_key: { id: string; secret: string } }> {
  const { code, stdout, stderr } = await runCommand(['tenant', 'create', '--name', name, '--json'], options)
  if (code !== 0) throw new Error(`eaas tenant create ended with code ${code}: ${stderr}`)
  return JSON.parse(stdout)
}

/** Starts the process. It ends with this one, because it notices that the channel is closed. */
function startHost(): Host {
  const { path: cwd } = guardedDir('eaas-test-commands')
  const child = spawn(process.execPath, [HOST], {
    cwd,
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  const started: Host = { child, waiting: undefined }
  child.on('message', (ended) => {
    const { waiting } = started
    started.waiting = undefined
    waiting?.resolve(ended as Ended)
  })
  child.on('close', (code, signal) => {
    host = undefined
    started.waiting?.reject(new Error(`the process of the commands ended (${code ?? signal})`))
  })
  return started
}
