// A runtime and Node exchange values, streams and indexes over a real server: the packed SDK there, the sources here.
import { execFile, spawn } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { createClient } from '@eaas/sdk'
import { build } from 'esbuild'
import { expect } from 'vitest'
import * as onServer from '../../packed/runtimes/on-server.mjs'
import { startService } from '../service/service.js'

const run = promisify(execFile)
const EXCHANGE_TIMEOUT_MS = 2 * 60_000
/** Deno's permissions: what the suites need. */
export const DENO = [
  'run',
  '--no-prompt',
  '--allow-read',
  '--allow-env',
  '--allow-net=127.0.0.1',
  '--node-modules-dir=manual',
]

/** workerd as of that day: later features are off. */
const WORKERD = `
using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "suite", worker = .suite), (name = "internet", network = (allow = ["private"]))],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "suite")],
);
const suite :Workerd.Worker = (
  modules = [(name = "worker.js", esModule = embed "worker.js")],
  compatibilityDate = "COMPATIBILITY_DATE",
  compatibilityFlags = [COMPATIBILITY_FLAGS],
);
`

export interface Exchange {
  /**
   * Makes a runtime with a command line open what Node made, with each engine, and opens in Node what the runtime
   * made.
   */
  by(engines: readonly string[], command: string, args?: readonly string[]): Promise<void>
  /** The same in workerd, compatible with a day. */
  inWorkerd(engines: readonly string[], command: string, date: string): Promise<void>
  end(): Promise<void>
}

/** Starts a server and makes the data to exchange. `folder` has the packed SDK: see `installPackedSdk`. */
export async function startExchange(folder: string): Promise<Exchange> {
  const service = await startService()
  const { secret: apiKey } = await service.createTenant()
  const eaas = createClient({ baseUrl: service.url, apiKey })
  const { id: keyId } = await eaas.keys.create({ name: 'members' })
  const scene = { baseUrl: service.url, apiKey, keyId, context: { table: 'files', row: '1' } }

  const expectToAgree = async (engines: readonly string[], play: (given: string) => Promise<string>) => {
    const made = await onServer.makeValues(eaas, scene)
    const outcome = JSON.parse(await play(JSON.stringify({ ...scene, engines, made }))) as Record<string, onServer.Made>
    expect(Object.keys(outcome)).toEqual(engines)
    for (const theirs of Object.values(outcome)) {
      await onServer.openValues(eaas, scene, theirs)
      expect(theirs.row.email_index).toBe(made.row.email_index)
      expect(theirs.row.email_index).toMatch(/^[0-9a-f]{64}$/)
    }
  }
  return {
    by: (engines, command, args = []) =>
      expectToAgree(engines, async (given) => {
        const options = { cwd: folder, timeout: EXCHANGE_TIMEOUT_MS, maxBuffer: 2 ** 26 }
        const running = run(command, [...args, 'on-server-main.mjs'], options)
        running.child.stdin?.end(given)
        return (await running).stdout
      }),
    inWorkerd: (engines, command, date) =>
      expectToAgree(engines, (given) =>
        inWorkerd(folder, command, { entry: 'on-server-worker.mjs', date }, async (url) => {
          const response = await fetch(url, { method: 'POST', body: given })
          const answer = await response.text()
          expect(response.status, answer).toBe(200)
          return answer
        }),
      ),
    async end() {
      eaas.close()
      await service.close()
    },
  }
}

export interface WorkerOptions {
  entry: string
  date: string
  /** A compatibility flag, or an empty text. */
  flag?: string
  /** Replacements for names in the worker's code. */
  define?: Record<string, unknown>
}

/** Bundles a worker of the folder, and serves it for as long as the function that gets its address runs. */
export async function inWorkerd<T>(
  folder: string,
  command: string,
  { entry, date, flag = '', define = {} }: WorkerOptions,
  use: (url: string) => Promise<T>,
): Promise<T> {
  await build({
    entryPoints: [join(folder, entry)],
    define: Object.fromEntries(Object.entries(define).map(([name, value]) => [name, JSON.stringify(value)])),
    absWorkingDir: folder,
    bundle: true,
    format: 'esm',
    platform: 'browser',
    conditions: ['workerd', 'worker', 'browser'],
    target: 'es2022',
    outfile: join(folder, 'worker.js'),
  })
  const config = join(folder, 'workerd.capnp')
  const flags = flag === '' ? '' : `"${flag}"`
  await writeFile(config, WORKERD.replace('COMPATIBILITY_DATE', date).replace('COMPATIBILITY_FLAGS', flags))
  const child = spawn(command, ['serve', config, '--control-fd=1'], { stdio: ['ignore', 'pipe', 'inherit'] })
  try {
    const port = await new Promise<number>((resolve, reject) => {
      child.once('error', reject)
      child.once('exit', (code) => reject(new Error(`workerd ended with ${code}`)))
      createInterface({ input: child.stdout }).on('line', (line) => {
        const { event, port } = JSON.parse(line) as { event: string; port: number }
        if (event === 'listen') resolve(port)
      })
    })
    return await use(`http://127.0.0.1:${port}`)
  } finally {
    child.kill()
  }
}
