// A real OpenBao for tests and benchmarks: raft storage, a file audit device and a transit engine, on 127.0.0.1.
import { spawn } from 'node:child_process'
import { closeSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../database/postgres.js'
import { guardedDir } from '../run/guarded-dir.js'

const READY_TIMEOUT_MS = 60_000
const POLL_MS = 50

export interface OpenbaoOptions {
  /** the program, from `findOpenbao` */
  program: string
  /** a program with its arguments that gets the command line and executes it, such as taskset */
  under?: readonly string[]
  /** whether each request is written to an audit file */
  audit?: boolean
}

export interface OpenbaoAnswer {
  status: number
  // biome-ignore lint/suspicious/noExplicitAny: the callers know what they asked for
  body: any
}

export interface Openbao {
  url: string
  pid: number
  /** the root token */
  token: string
  /** Sends a request with the root token, or with another one. */
  send(method: string, path: string, body?: unknown, token?: string): Promise<OpenbaoAnswer>
  seal(): Promise<void>
  unseal(): Promise<void>
  /** Ends it and removes its folder; otherwise that happens when this process ends. */
  remove(): Promise<void>
}

/** Starts it, initialises and unseals it, and mounts `transit`. @throws with the end of its log when it does not come up */
export async function startOpenbao({ program, under = [], audit = false }: OpenbaoOptions): Promise<Openbao> {
  const guard = guardedDir('eaas-test-openbao')
  const file = (name: string) => join(guard.path, name)
  const [port, clusterPort] = [await freePort(), await freePort()]
  const url = `http://127.0.0.1:${port}`
  mkdirSync(file('raft'))
  const config = {
    storage: { raft: { path: file('raft'), node_id: 'test' } },
    listener: { tcp: { address: `127.0.0.1:${port}`, tls_disable: true } },
    api_addr: url,
    cluster_addr: `http://127.0.0.1:${clusterPort}`,
    ...(audit ? { audit: [{ type: 'file', path: 'file', options: { file_path: file('audit.log') } }] } : {}),
  }
  writeFileSync(file('config.json'), JSON.stringify(config))
  const log = openSync(file('openbao.log'), 'a')
  const [command = program, ...args] = [...under, program, 'server', `-config=${file('config.json')}`]
  const child = spawn(command, args, { cwd: guard.path, detached: true, stdio: ['ignore', log, log] })
  closeSync(log)
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()).once('error', () => resolve()))
  const pid = child.pid ?? 0
  guard.watch([pid])
  let token = ''
  const send: Openbao['send'] = async (method, path, body, as = token) => {
    const headers = { 'X-Vault-Token': as, 'content-type': 'application/json' }
    const sent = body === undefined ? {} : { body: JSON.stringify(body) }
    const answer = await fetch(`${url}/v1/${path}`, { method, headers, ...sent })
    const text = await answer.text()
    return { status: answer.status, body: text === '' ? undefined : JSON.parse(text) }
  }
  const must = async (...request: Parameters<typeof send>) => {
    const { status, body } = await send(...request)
    if (status > 299) throw new Error(`${request[0]} ${request[1]} was answered ${status}: ${JSON.stringify(body)}`)
    return body
  }
  const until = async (condition: () => Promise<boolean>) => {
    const deadline = performance.now() + READY_TIMEOUT_MS
    while (!(await condition().catch(() => false))) {
      if (child.exitCode !== null || performance.now() > deadline) {
        throw new Error(`OpenBao did not come up: ${readFileSync(file('openbao.log'), 'utf8').slice(-2_000)}`)
      }
      await sleep(POLL_MS)
    }
  }
  const remove = async () => {
    child.kill('SIGTERM')
    await ended
    await guard.remove()
  }
  try {
    await until(async () => (await send('GET', 'sys/init')).status === 200)
    const { keys_base64, root_token } = await must('PUT', 'sys/init', { secret_shares: 1, secret_threshold: 1 })
    token = root_token
    const isActive = async () => (await send('GET', 'sys/health')).status === 200
    const unseal = async () => {
      await must('PUT', 'sys/unseal', { key: keys_base64[0] })
      await until(isActive)
    }
    const seal = async () => {
      await must('PUT', 'sys/seal')
    }
    await unseal()
    await until(async () => (await send('POST', 'sys/mounts/transit', { type: 'transit' })).status < 300)
    return { url, pid, token, send, seal, unseal, remove }
  } catch (error) {
    await remove()
    throw error
  }
}
