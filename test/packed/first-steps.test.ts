// What a newcomer does: the commands and the program of each README, as they are written, in an empty folder. In the slow run all of it,
// from a registry to which a release was published.
import { execFile, spawn } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { join } from 'node:path'
import { parseEnv, promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import exports from '../../packages/audit/src/formats/export.vectors.json' with { type: 'json' }
import { addPrisma, transpile } from '../examples/run-page.js'
import { ADAPTERS } from '../support/platforms/packed-sdk.js'
import { environmentOfUser, startReleaseRegistry } from '../support/platforms/release.js'
import { type GuardedDir, guardedDir } from '../support/run/guarded-dir.js'
import { IS_SLOW_RUN } from '../support/run/rounds.js'
import { readPage } from '../support/sources/snippets.js'
import { ROOT } from '../support/sources/source-files.js'
import { type LocalRegistry, startLocalRegistry } from './local-registry.js'

const run = promisify(execFile)
const TIMEOUT_MS = IS_SLOW_RUN ? 30 * 60_000 : 240_000
/** How a page's program is run. */
const RUN = 'node --env-file=.env.local first.mjs'
const DEV = '@eaas/server dev'
/** The only change that is made to a page: the port, which another program of this machine may have. */
const PORT = /127\.0\.0\.1:8420|port: 8420/g

const LOOK_AND_CLOSE = `
const { port } = app.server.address()
console.log((await fetch('http://127.0.0.1:' + port + '/health')).status)
await app.close()
`

let dir: GuardedDir
let registry: LocalRegistry
let environment: NodeJS.ProcessEnv
/** The servers, which are not npx's own processes. */
const servers: number[] = []

beforeAll(async () => {
  dir = guardedDir('eaas-test-first-steps')
  registry = await (IS_SLOW_RUN ? startReleaseRegistry() : startLocalRegistry())
  environment = {
    ...environmentOfUser(),
    HOME: dir.path,
    npm_config_cache: join(dir.path, 'cache'),
    npm_config_registry: registry.url,
    EAAS_PORT: '0',
  }
}, TIMEOUT_MS)
afterAll(async () => {
  registry.close()
  await dir.remove()
})

describe('the first steps', () => {
  let folder: string

  beforeAll(async () => {
    folder = join(dir.path, 'application')
    mkdirSync(folder)
  })

  it('of README.md: pack the SDK for an application, install it there, and run the program', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const { commands, program } = stepsOf('README.md', 'Try it')
    const [, pack = '', install = ''] =
      /^npm ci && (npm run pack -- )\.\.\/my-app\ncd \.\.\/my-app && (npm install .*)$/.exec(
        commands.slice(0, 2).join('\n'),
      ) ?? []
    const own = join(dir.path, 'packed')
    const printed = await shell(`${pack} '${own}'`, ROOT)
    expect(printed).toContain(`\n${install}\n`)
    const unnamed = readdirSync(join(own, 'eaas-packages')).filter((file) => !printed.includes(`/${file}`))
    // One adapter stands for all.
    expect(unnamed.map((file) => file.replace(/^eaas-(.*)-\d.*$/, '@eaas/$1'))).toEqual(
      ADAPTERS.filter((name) => name !== '@eaas/drizzle'),
    )
    await shell(install, own)
    writeFileSync(join(own, 'first.mjs'), program)
    expect(await shell('node first.mjs', own)).toBe('true\ncalled twice\n')
  })

  it('of packages/sdk/README.md: install, start, run the program twice', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const { commands, program } = stepsOf('packages/sdk/README.md', 'The first encrypted row, in five minutes')
    expect(commands).toEqual(['npm init -y', 'npm install @eaas/sdk @eaas/server', 'npx @eaas/server dev'])
    expect(readPage('packages/sdk/README.md')).toContain(`\`${RUN}\``)
    for (const command of commands) {
      if (command.endsWith(' dev')) await startServer(command, folder)
      else await shell(command, folder)
    }
    await runTwice(program, folder)
  })

  it('of packages/server/README.md: install, start, and in an application', { timeout: TIMEOUT_MS }, async () => {
    const own = join(dir.path, 'server')
    mkdirSync(own)
    for (const command of stepsOf('packages/server/README.md').commands) {
      if (command.endsWith(' start')) await startServer(command, own)
      else await shell(command, own)
    }
    expect(await shell('npx @eaas/server --help', own)).toContain('npx @eaas/server')
    const { program } = stepsOf('packages/server/README.md', 'In another application')
    expect(program).toMatch(PORT)
    writeFileSync(join(own, 'app.mjs'), `${program.replace(PORT, 'port: 0')}${LOOK_AND_CLOSE}`)
    // On the database of the server, once that has stopped.
    await stopServer(join(own, '.eaas'))
    expect(await shell('node app.mjs', own)).toMatch(/^200$/m)
  })

  it('of packages/audit/README.md: verify an export by command and by program, without the server', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const own = join(dir.path, 'auditor')
    mkdirSync(own)
    writeFileSync(join(own, 'acme.ndjson'), exports.valid.find(({ name }) => name === 'a whole log')?.file ?? '')
    writeFileSync(join(own, 'operator.key'), `${exports.public_key}\n`)
    const { commands, program } = stepsOf('packages/audit/README.md')
    expect(commands.map((command) => command.split(' ')[2])).toEqual(['verify', 'rights', 'report'])
    await shell('npm init -y && npm install @eaas/audit', own)
    // The vectors' log does not cover the period of the report, which test/examples/auditors-questions.test.ts runs.
    const printed = await Promise.all(commands.slice(0, 2).map((command) => shell(command, own)))
    expect(printed).toEqual([
      expect.stringMatching(/^The export is valid\.\n[\s\S]*^entries {5}6, from 1 to 6$/m),
      expect.stringMatching(/^Rights in tenant [\s\S]*^API KEY .*\n[0-9a-f-]{36} /m),
    ])
    writeFileSync(join(own, 'verify.mjs'), program)
    expect(await shell('node verify.mjs', own)).toBe('true true 6\n')
    expect(readdirSync(join(own, 'node_modules/@eaas'))).toEqual(['audit'])
  })
})

/** These need a network: what is not ours comes from the registry that npm is configured with. */
describe.runIf(IS_SLOW_RUN)('with a server for development', () => {
  let folder: string
  let EAAS_URL: string
  let EAAS_API_KEY: string
  const inFolder = (command: string) => shell(command, folder)

  beforeAll(async () => {
    folder = emptyFolder('development')
    await startServer(`npx ${DEV}`, folder)
    const written = parseEnv(readFileSync(join(folder, '.env.local'), 'utf8'))
    EAAS_URL = written.EAAS_URL ?? ''
    EAAS_API_KEY = written.EAAS_API_KEY ?? ''
  }, TIMEOUT_MS)

  it('of packages/cli/README.md: encrypt a file, inspect and decrypt it; and the backfill by a program', async () => {
    const page = readPage('packages/cli/README.md')
    expect(page).toContain(`\`npx ${DEV}\``)
    const { commands } = stepsOf('packages/cli/README.md')
    expect(await inFolder(`set -e\n${commands.join('\n')}`)).toMatch(/\bkey_version +1\n[\s\S]*\ncalled twice\n$/)
    const [, installed = ''] = /`npm install ([^`]+)`/.exec(page) ?? []
    await followProgram('packages/cli/README.md', installed.split(/\s+/))
  })

  it.each(ADAPTERS.map((name) => [`packages/${name.replace('@eaas/', '')}/README.md`, name]))(
    'of %s: install what it names, and run its program',
    async (path, name) => {
      const [, others = ''] = /Also install ((?:`\S+`(?: and )?)+)\./.exec(readPage(path).replaceAll('\n', ' ')) ?? []
      expect(others).not.toBe('')
      await followProgram(path, [name, '@eaas/sdk', ...others.replaceAll('`', '').split(' and ')])
    },
  )

  it('of packages/conformance/README.md: the server keeps the contract', async () => {
    writeFileSync(join(folder, 'api.key'), EAAS_API_KEY, { mode: 0o600 })
    const [command = ''] = stepsOf('packages/conformance/README.md').commands
    expect(command).toMatch(/^npx @eaas\/conformance https:\S+ --api-key-file api\.key$/)
    const tap = await inFolder(command.replace(/https:\S+/, EAAS_URL))
    const [, plan] = /^1\.\.(\d+)$/m.exec(tap) ?? []
    expect(readPage('packages/conformance/README.md')).toContain(`\n1..${plan}\n`)
    expect(tap.match(/^ok /gm)).toHaveLength(Number(plan))
  })

  it('of packages/console/README.md: the server has its pages, and the one that verifies is a file', async () => {
    const page = await fetch(`${EAAS_URL}/console`)
    expect(page.status).toBe(200)
    expect(await page.text()).toContain('Content-Security-Policy')
    const own = emptyFolder('console')
    await shell('npm init -y && npm install @eaas/console', own)
    const home = join(own, 'node_modules/@eaas/console')
    expect(readdirSync(join(own, 'node_modules'))).toEqual(['.package-lock.json', '@eaas']) // no dependencies
    expect(readFileSync(join(home, 'dist/console/verify.html'), 'utf8')).toContain("connect-src 'none'")
  })

  it('of packages/cli/docs/command-line.md: set an application up, and do what is printed then', async () => {
    const own = emptyFolder('application-of-prisma')
    for (const name of ['prisma', 'src']) mkdirSync(join(own, name))
    const dropIn = (name: string) => readFileSync(join(ROOT, 'test/orm/drop-in', name), 'utf8')
    writeFileSync(join(own, 'package.json'), '{ "type": "module", "dependencies": { "@prisma/client": "7" } }')
    const source = 'datasource db {\n  provider = "postgresql"\n}\n\n'
    writeFileSync(join(own, 'prisma/schema.prisma'), source + dropIn('before.prisma'))
    writeFileSync(join(own, 'src/shop.ts'), dropIn('before.ts'))
    const [, command] = /^\$ (npx @eaas\/cli init .*)$/m.exec(readPage('packages/cli/docs/command-line.md')) ?? []
    const printed = await shell(`${command} --yes`, own)
    expect(readFileSync(join(own, 'prisma/schema.prisma'), 'utf8')).toBe(source + dropIn('after.prisma'))
    const [, install = ''] = /Written\. Next:\n {2}(npm install @eaas\/sdk @eaas\/prisma)\n/.exec(printed) ?? []
    await shell(install, own)
    expect(readdirSync(join(own, 'node_modules/@eaas')).sort()).toEqual(['prisma', 'sdk'])
  })

  it('of packages/audit/README.md: report on the log of this server, which is stopped', async () => {
    await stopServer(join(folder, '.eaas'))
    const readme = readPage('packages/audit/README.md')
    const [exporting = '', key = ''] = ['eaas audit export', 'eaas audit public-key'].map((start) => {
      const [, rest] = new RegExp(`\`${start.replaceAll(' ', '\\s')}([^\`]*)\``).exec(readme) ?? []
      return `npx @eaas/server ${start.replace('eaas ', '')}${rest?.replaceAll('\n', ' ')}`
    })
    await inFolder(`${exporting.replace('--tenant acme', '--tenant default')} && ${key} > operator.key`)
    const own = emptyFolder('auditor-of-a-server')
    for (const name of ['acme.ndjson', 'operator.key']) cpSync(join(folder, name), join(own, name))
    const { commands } = stepsOf('packages/audit/README.md')
    const report = commands.find((command) => command.startsWith('npx @eaas/audit report ')) ?? ''
    await shell(report, own)
    expect(readFileSync(join(own, 'acme.html'), 'utf8')).toMatch(/^<!doctype html>/i)
  })

  /** Installs what a page says and what its program imports, and runs the program. */
  async function followProgram(path: string, installed: readonly string[]): Promise<void> {
    const own = emptyFolder(path.replaceAll('/', '-'))
    const program = await transpile(stepsOf(path).program)
    const imported = [...program.matchAll(/ from "([^".]+)"/g)].map(([, name = '']) => packageOf(name))
    const others = imported.filter((name) => !isBuiltin(name) && !name.startsWith('@eaas/'))
    const wanted = new Set([...installed, ...others])
    await shell(`npm init -y && npm pkg set type=module && npm install ${[...wanted].join(' ')}`, own)
    if (program.includes('./generated/prisma/')) await addPrisma(own)
    writeFileSync(join(own, 'program.mjs'), program)
    const promised = [...stepsOf(path).program.matchAll(/ \/\/ → (.*)$/gm)].map(([, text]) => text)
    expect(promised).toHaveLength(1)
    const lines = (await shell('node program.mjs', own, '', { EAAS_URL, EAAS_API_KEY })).trimEnd().split('\n')
    expect(lines).toEqual(promised)
  }
})

function packageOf(specifier: string): string {
  return specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/')
}

function emptyFolder(name: string): string {
  const folder = join(dir.path, name)
  mkdirSync(folder)
  return folder
}

/** The commands, and the program of the blocks marked ts, of a section, or of a page up to its first heading. */
function stepsOf(page: string, heading?: string): { commands: string[]; program: string } {
  const sections = readPage(page).split(/^## /m)
  const section = heading === undefined ? sections[0] : sections.find((text) => text.startsWith(`${heading}\n`))
  const blocks = (language: string) =>
    [...(section ?? '').matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms'))].map(([, text = '']) => text)
  const commands = blocks('sh').flatMap((text) => text.trimEnd().split('\n'))
  return { commands, program: blocks('ts').join('') }
}

async function shell(command: string, cwd: string, input = '', more: NodeJS.ProcessEnv = {}): Promise<string> {
  const running = run('sh', ['-c', command], { cwd, env: { ...environment, ...more } })
  running.child.stdin?.end(input)
  return (await running).stdout
}

/** Resolves once the server listens, and has shown its API key or written it. */
function startServer(command: string, cwd: string): Promise<void> {
  const child = spawn('sh', ['-c', `exec ${command}`], { cwd, env: environment, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  return new Promise((resolve, reject) => {
    const read = (text: string) => {
      output += text
      const apiKey = /^ +(eaas_sk_\w+)$/m.exec(output)?.[1]
      if (!/listening on \S+\n/.test(output) || (apiKey === undefined && !output.includes('Ctrl-C'))) return
      // In a command that is meant to be copied it would end up in the history of the shell.
      if (output.split('eaas_sk_').length > 2) return reject(new Error('the API key is shown more than once'))
      // What the server says when it stops comes here too, when nothing holds the data directory any more.
      child.stdout.off('data', read).resume()
      child.stderr.off('data', read).resume()
      servers.push(holderOf(join(cwd, '.eaas')))
      dir.watch(servers)
      resolve()
    }
    child.stdout.setEncoding('utf8').on('data', read)
    child.stderr.setEncoding('utf8').on('data', read)
    child.once('close', (code) => reject(new Error(`${command} ended with ${code}: ${output}`)))
  })
}

async function stopServer(dataDir: string): Promise<void> {
  const pid = holderOf(dataDir)
  process.kill(pid, 'SIGTERM')
  await expect.poll(() => isRunning(pid)).toBe(false)
  servers.splice(servers.indexOf(pid), 1)
  dir.watch(servers)
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/** The process that serves a data directory. */
function holderOf(dataDir: string): number {
  const lock = readdirSync(dataDir).find((name) => name.startsWith('server.lock.')) ?? ''
  return (JSON.parse(readFileSync(join(dataDir, lock), 'utf8')) as { pid: number }).pid
}

/** Runs what the page says to save as first.mjs. Each run prints what the page promises. */
async function runTwice(program: string, folder: string): Promise<void> {
  writeFileSync(join(folder, 'first.mjs'), program)
  const promised = [...program.matchAll(/ \/\/ → (.*)$/gm)].map(([, text]) => text)
  expect(promised.length).toBeGreaterThan(2)
  for (let run = 1; run <= 2; run++) {
    const lines = (await shell(RUN, folder)).split('\n')
    expect(lines).toEqual(expect.arrayContaining(promised))
  }
}
