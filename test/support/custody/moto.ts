// A stand-in for AWS KMS: moto's server, from PyPI, in a virtual environment of the user's cache.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../database/postgres.js'
import { guardedDir } from '../run/guarded-dir.js'

const PACKAGE = 'moto[server]==5.2.5'
const INSTALL_TIMEOUT_MS = 10 * 60_000
const READY_TIMEOUT_MS = 60_000

/** Finds the program, or installs it with pip; prints one line and returns undefined if that fails. */
export function findOrInstallMoto(): string | undefined {
  const named = process.env.EAAS_TEST_MOTO
  const cache = process.env.XDG_CACHE_HOME || join(homedir(), '.cache')
  const folder = join(cache, 'eaas-tests', PACKAGE.replace(/\[.*==/, '-'))
  const program = named ?? join(folder, 'bin/moto_server')
  if (named !== 'none' && !existsSync(program)) {
    console.error(`No moto found: installing ${PACKAGE} with pip into ${folder} …`)
    try {
      mkdirSync(dirname(folder), { recursive: true })
      execFileSync('python3', ['-m', 'venv', folder], { stdio: 'ignore', timeout: INSTALL_TIMEOUT_MS })
      const args = ['install', '--quiet', PACKAGE]
      execFileSync(join(folder, 'bin/pip'), args, { stdio: 'ignore', timeout: INSTALL_TIMEOUT_MS })
    } catch (error) {
      console.error(`pip could not install ${PACKAGE}: ${error instanceof Error ? error.message.trim() : error}`)
    }
  }
  if (existsSync(program)) return program
  console.error('!!! NO MOTO FOUND: nothing is tested against AWS KMS. Set EAAS_TEST_MOTO to a moto_server.')
  return undefined
}

export interface Moto {
  url: string
  remove(): Promise<void>
}

export async function startMoto(program: string): Promise<Moto> {
  const guard = guardedDir('eaas-moto')
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const child: ChildProcess = spawn(program, ['-H', '127.0.0.1', '-p', String(port)], {
    cwd: guard.path,
    detached: true,
    stdio: 'ignore',
  })
  guard.watch([child.pid ?? 0])
  child.unref()
  for (const deadline = Date.now() + READY_TIMEOUT_MS; ; await sleep(100)) {
    if (await fetch(url).catch(() => undefined)) break
    if (Date.now() > deadline) throw new Error(`moto was not ready within ${READY_TIMEOUT_MS} ms`)
  }
  return {
    url,
    async remove() {
      child.kill('SIGKILL')
      await guard.remove()
    },
  }
}
