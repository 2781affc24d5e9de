// A real pgbouncer in transaction mode in front of a PostgreSQL of the tests, with defaults for all settings but the
// needed ones.
import { spawn } from 'node:child_process'
import { chownSync, closeSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import postgres from 'postgres'
import { guardedDir } from '../run/guarded-dir.js'
import { freePort, unprivilegedAccount } from './postgres.js'

const READY_TIMEOUT_MS = 30_000

export interface Pgbouncer {
  /** Returns the URL that reaches a database of that PostgreSQL through the pooler. */
  urlOf(directUrl: string): string
  port: number
  /** Ends it and removes its folder; otherwise that happens when this process ends. */
  remove(): Promise<void>
}

export interface PgbouncerOptions {
  /** the program, from `findPgbouncer` */
  program: string
  /** superuser's URL of the PostgreSQL behind it */
  postgresUrl: string
  /** settings in addition to the needed ones */
  settings?: Record<string, string>
}

/** Starts it on 127.0.0.1. @throws with the end of its log when it does not come up */
export async function startPgbouncer({ program, postgresUrl, settings = {} }: PgbouncerOptions): Promise<Pgbouncer> {
  const { username, password, hostname, port: target } = new URL(postgresUrl)
  const guard = guardedDir('eaas-test-pgbouncer')
  const port = await freePort()
  const file = (name: string) => join(guard.path, name)
  const all = {
    listen_addr: '127.0.0.1',
    listen_port: String(port),
    unix_socket_dir: '',
    pool_mode: 'transaction',
    auth_type: 'scram-sha-256',
    auth_file: file('users'),
    // Higher than its default, because the tests use many databases at once, each with its own pool.
    max_client_conn: '1000',
    server_idle_timeout: '5',
    ...settings,
  }
  writeFileSync(file('users'), `"${username}" "${password}"\n`, { mode: 0o600 })
  writeFileSync(
    file('pgbouncer.ini'),
    `[databases]\n* = host=${hostname} port=${target} auth_user=${username}\n[pgbouncer]\n${Object.entries(all)
      .map(([name, value]) => `${name} = ${value}\n`)
      .join('')}`,
  )
  const account = unprivilegedAccount()
  for (const path of account ? [guard.path, file('users'), file('pgbouncer.ini')] : []) {
    chownSync(path, account?.uid ?? 0, account?.gid ?? 0)
  }
  const log = openSync(file('log'), 'a')
  const child = spawn(program, [file('pgbouncer.ini')], {
    cwd: guard.path,
    detached: true,
    ...account,
    stdio: ['ignore', log, log],
  })
  closeSync(log)
  child.on('error', () => undefined)
  if (child.pid !== undefined) guard.watch([child.pid])
  child.unref()

  const urlOf = (directUrl: string) => {
    const url = new URL(directUrl)
    url.port = String(port)
    return url.href
  }
  try {
    await untilReady(urlOf(postgresUrl), () => child.pid !== undefined && child.exitCode === null)
  } catch (error) {
    const said = readFileSync(file('log'), 'utf8').split('\n').slice(-15).join('\n')
    await guard.remove()
    throw new Error(`pgbouncer did not come up: ${error}. The end of its log:\n${said}`)
  }
  return { urlOf, port, remove: guard.remove }
}

async function untilReady(url: string, isRunning: () => boolean): Promise<void> {
  const deadline = Date.now() + READY_TIMEOUT_MS
  for (;;) {
    const sql = postgres(url, { max: 1, prepare: false, connect_timeout: 5 })
    try {
      await sql`select 1`
      return
    } catch (error) {
      if (!isRunning() || Date.now() > deadline) throw error
      await sleep(50)
    } finally {
      await sql.end({ timeout: 1 })
    }
  }
}
