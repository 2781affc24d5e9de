// The applications that pages of the SDK begin with, as a reader makes them: the files and commands of a page's blocks, in a folder, with a
// service in memory and a PostgreSQL. None of their text is written here, so that a page and its test cannot differ.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { createTestService, type TestService } from '@eaas/sdk/testing'
import postgres from 'postgres'
import { freshDatabase } from '../database/database.js'
import { freePort } from '../database/postgres.js'
import { relay } from '../service/relay.js'
import { readPage } from '../sources/snippets.js'
import { ROOT } from '../sources/source-files.js'
import { ADAPTERS, pack } from './packed-sdk.js'

const run = promisify(execFile)
const COMMAND_TIMEOUT_MS = 10 * 60_000
const START_TIMEOUT_MS = 2 * 60_000
const MAX_OUTPUT_BYTES = 2 ** 26
const BLOCK = /^```(?<language>\w+)\n(?<code>.*?)^```$/gms
/** The first line of a block that is a file names it. */
const FILE = /^(?:\/\/|<!--) (?<path>[^\s`]+\.\w+)(?: -->)?\n/
const INSTALL = /^(?:npm install|bun add) (?:--save-dev )?/

/** What a page says to make, in one of its sections and in the one called "The data". */
export interface PageApp {
  /** The text of each file, by its path. */
  files: ReadonlyMap<string, string>
  /** What is installed from the registry, and from our packages. */
  packages: readonly string[]
  build: readonly string[]
  start: string
  /** The tables. */
  sql: string
}

/** @param renamed the paths that the section gives to files of "The data" */
export function readPageApp(page: string, heading: string, renamed: Record<string, string> = {}): PageApp {
  const sections = readPage(page).split(/^## /m)
  const sectionOf = (title: string) => sections.find((text) => text.startsWith(`${title}\n`)) ?? ''
  const own = sectionOf(heading)
  if (own === '') throw new Error(`${page} has no section ${heading}`)
  for (const path of Object.values(renamed)) {
    if (!own.includes(`\`${path}\``)) throw new Error(`${page}: ${heading} does not name ${path}`)
  }
  const blocks = [...`${sectionOf('The data')}\n${own}`.matchAll(BLOCK)].map(({ groups = {} }) => groups)
  const files = blocks.flatMap(({ code = '' }): [string, string][] => {
    const path = FILE.exec(code)?.groups?.path
    return path === undefined ? [] : [[renamed[path] ?? path, path.endsWith('.html') ? code.replace(FILE, '') : code]]
  })
  const textsOf = (language: string) =>
    blocks.flatMap((block) => (block.language === language ? [block.code ?? ''] : []))
  const commands = textsOf('sh').flatMap((text) => text.trimEnd().split('\n'))
  const rest = commands.filter((command) => !INSTALL.test(command))
  return {
    files: new Map(files),
    packages: commands
      .filter((command) => INSTALL.test(command))
      .flatMap((command) => command.replace(INSTALL, '').split(' ')),
    build: rest.slice(0, -1),
    start: rest.at(-1) ?? '',
    sql: textsOf('sql').join('\n'),
  }
}

/** Writes the files of an application into a folder that has no packages yet. */
export function writeApp(app: PageApp, folder: string): void {
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{ "private": true }')
  for (const [path, text] of app.files) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
}

/** Gives an application the packages of this checkout, including our built ones. */
export function linkPackages(folder: string): void {
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'), 'junction')
}

/** Installs what the page says: ours as npm would publish them, and the others from the registry. */
export async function installPackages({ packages }: PageApp, folder: string): Promise<void> {
  const ours = new Map<string, string>()
  for (const name of ['@eaas/sdk', ...ADAPTERS] as const) ours.set(name, (await pack(name)).tarball)
  const args = ['install', '--no-audit', '--no-fund', ...packages.map((name) => ours.get(name) ?? name)]
  const options = { cwd: folder, env: cleanEnvironment(), timeout: COMMAND_TIMEOUT_MS, maxBuffer: MAX_OUTPUT_BYTES }
  await run('npm', args, options).catch((error: Error) => {
    // Packages that a framework releases together may not have reached a mirror of the registry together.
    if (!error.message.includes('ERESOLVE')) throw error
    return run('npm', [...args, '--legacy-peer-deps'], options)
  })
}

export interface RunningApp {
  url: string
  service: TestService
  /** All that a table holds. */
  rows(table: string): Promise<postgres.Row[]>
  stop(): Promise<void>
}

/**
 * Makes the tables, builds the application and starts it.
 *
 * @param path folders of programs that its commands call
 * @throws with its output if a command fails
 */
export async function startApp(app: PageApp, folder: string, path: readonly string[] = []): Promise<RunningApp> {
  const database = await freshDatabase('page')
  if (database.backend !== 'postgres') throw new Error('the applications of pages need a PostgreSQL')
  const sql = postgres(database.directUrl, { max: 1, onnotice: () => undefined })
  await sql.unsafe(app.sql)
  const service = createTestService()
  const server = createServer((request, response) => void relay(service, request, response))
  const EAAS_URL = `http://127.0.0.1:${await listen(server)}`
  const port = await freePort()
  const settings = { EAAS_URL, EAAS_API_KEY: service.apiKey, DATABASE_URL: database.directUrl }
  writeFileSync(
    join(folder, '.env.local'),
    Object.entries(settings)
      .map(([name, value]) => `${name}=${value}\n`)
      .join(''),
  )
  const { PATH = '', ...others } = cleanEnvironment()
  const env = { ...others, PATH: [...path, PATH].join(':'), PORT: String(port), NEXT_TELEMETRY_DISABLED: '1' }
  const options = { cwd: folder, env, timeout: COMMAND_TIMEOUT_MS, maxBuffer: MAX_OUTPUT_BYTES }
  for (const command of app.build) {
    await run('sh', ['-c', command], options).catch((error: Error & { stdout?: string; stderr?: string }) => {
      throw new Error(`${command}: ${error.message}\n${error.stdout}\n${error.stderr}`)
    })
  }
  // A group of its own: otherwise the processes that `npx` starts would outlive it.
  const child = spawn('sh', ['-c', app.start], { cwd: folder, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  }
  const ended = once(child, 'close')
  const stop = async () => {
    if (child.exitCode === null && child.pid !== undefined) process.kill(-child.pid, 'SIGTERM')
    await ended
    server.closeAllConnections()
    server.close()
    await sql.end()
  }
  const url = `http://127.0.0.1:${port}`
  const deadline = Date.now() + START_TIMEOUT_MS
  while (!(await answers(url))) {
    if (child.exitCode !== null || Date.now() > deadline) {
      await stop()
      throw new Error(`${app.start} does not answer at ${url}: ${output}`)
    }
    await sleep(50)
  }
  return { url, service, rows: (table) => sql`select * from ${sql(table)}`, stop }
}

/** This process's environment without the variables that the test runner sets for its workers. */
export function cleanEnvironment(): NodeJS.ProcessEnv {
  const { VITEST: _, TEST: __, NODE_ENV: ___, NODE_OPTIONS: ____, ...env } = process.env
  const own = Object.entries(env).filter(([name]) => !/^(VITEST_|EAAS_|DATABASE_URL$)/.test(name))
  return Object.fromEntries(own) as NodeJS.ProcessEnv
}

function answers(url: string): Promise<boolean> {
  return fetch(url).then(
    async (response) => {
      await response.arrayBuffer()
      return true
    },
    () => false,
  )
}

async function listen(server: Server): Promise<number> {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return (server.address() as AddressInfo).port
}
