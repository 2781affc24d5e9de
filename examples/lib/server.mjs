// A server for an example: `eaas start` as anyone would run it, in its own process, on an empty database.
import { execFile, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const EAAS = fileURLToPath(new URL('../../packages/server/bin/eaas.mjs', import.meta.url))
const END_WITH_PARENT = new URL('end-with-parent.mjs', import.meta.url).href
/** The variables that the server inherits; EAAS_DATABASE_URL and EAAS_ROOT_KEY are not among them. */
const INHERITED = ['PATH', 'HOME', 'TMPDIR', 'NODE_OPTIONS']
/** Longer than the ten seconds that the server gives itself. */
const STOP_DEADLINE_MS = 12_000

/**
 * Starts a server in a temporary folder of its own. Always call `stop`.
 *
 * @param {AbortSignal} [signal] ends the waiting, not the server
 */
export function startServer(signal) {
  signal?.throwIfAborted()
  const inherited = INHERITED.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]]))
  // end-with-parent.mjs makes it if it is missing, and removes it however the example ends.
  const folder = join(tmpdir(), `eaas-demo-${randomUUID()}`)
  const env = {
    ...Object.fromEntries(inherited),
    EAAS_DATA_DIR: join(folder, 'server'),
    EAAS_PORT: '0',
    EAAS_LOG_LEVEL: 'warn',
    EXAMPLE_FOLDER: folder,
  }
  const child = spawn(process.execPath, ['--import', END_WITH_PARENT, EAAS, 'start'], {
    env,
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true, // a group of its own, out of reach of the terminal's Ctrl-C: `stop` ends it in order
  })
  const ended = once(child, 'exit')
  let said = ''
  let complained = ''
  child.stdout.setEncoding('utf8')
  child.stderr.setEncoding('utf8').on('data', (/** @type {string} */ text) => {
    complained += text
  })

  const listening = new Promise((/** @type {(url: string) => void} */ resolve, reject) => {
    child.stdout.on('data', (/** @type {string} */ text) => {
      said += text
      const url = /^EaaS is listening on (\S+)\n/m.exec(said)?.[1]
      if (url !== undefined) resolve(url)
    })
    ended.then(() => reject(new Error(`The server ended: ${complained.trim() || 'it did not say why'}`)), reject)
    signal?.addEventListener('abort', () => reject(signal.reason), { once: true })
  })

  return {
    folder,
    /** The server's URL, once it listens. */
    listening,
    /** Creates a tenant on the command line, as an operator does, and returns its first API key. */
    async createTenant() {
      const { stdout } = await promisify(execFile)(
        process.execPath,
        [EAAS, 'tenant', 'create', '--name', 'demo', '--json'],
        { env, ...(signal && { signal }) },
      )
      return /** @type {string} */ (JSON.parse(stdout).api_key.secret)
    },
    /** Ends the server and removes the folder; resolves when both are gone. */
    async stop() {
      child.stdin.end()
      const timer = setTimeout(() => child.kill('SIGKILL'), STOP_DEADLINE_MS)
      await ended
      clearTimeout(timer)
      await rm(folder, { recursive: true, force: true })
    },
  }
}
