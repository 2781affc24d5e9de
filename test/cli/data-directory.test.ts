// One server on a data directory, and the commands beside it, which run in a process of their own.
import { execFileSync, spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { readConfig } from '../../packages/server/src/core/config.js'
import { UnusableDataDirectoryError } from '../../packages/server/src/embedded/database.js'
import { openServer } from '../../packages/server/src/server.js'
import { backend, freshDatabase, type TestDatabase } from '../support/database/database.js'
import { createTenantByCli, runCommand } from '../support/service/command-host.js'
import { EAAS, ROOT_KEY, startEaas, untilHealthy } from '../support/service/eaas-process.js'
import { callsOf } from '../support/service/load.js'
import { startServer } from '../support/service/server.js'

const TIMEOUT_MS = 120_000

/** Whether this user may mount file systems, in a name space of its own. */
function canMount(): boolean {
  return spawnSync('unshare', ['--mount', 'sh', '-c', 'mount -t tmpfs tmpfs /tmp'], { stdio: 'ignore' }).status === 0
}

/** The lines of a server's standard error that are not its log. */
function proseOf(stderr: string): string[] {
  return stderr.split('\n').filter((line) => line !== '' && !line.startsWith('{'))
}

describe.skipIf(backend() === 'postgres')('a data directory (PostgreSQL has none)', () => {
  let database: TestDatabase

  beforeAll(async () => {
    database = await freshDatabase('directory')
  })

  it('refuses a second server with a sentence that says what to do, and the first goes on', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const first = await startServer({ database })
    const second = await runCommand(['start'], { database })
    expect(second.code).toBe(1)
    expect(second.stdout).toMatch(/^Opening the database in \S+\n$/)
    expect(second.stderr).toMatch(/^eaas: The data directory .+ is in use by process \d+ .+ Stop that process first/)
    expect(second.stderr).toContain(`process ${process.pid} `)
    expect(second.stderr).not.toMatch(/\n\s+at /)

    await untilHealthy(first)
    await first.stop()
  })

  it('is free after kill -9, for a server and for a command', { timeout: TIMEOUT_MS }, async () => {
    const eaas = await startEaas({ database })
    await eaas.kill9()
    const { api_key } = await createTenantByCli({ database }, 'after the crash')
    await eaas.start()
    await eaas.kill9()
    const server = await startServer({ database })
    expect((await callsOf(api_key.secret)(server.url, 'GET', '/v1/keys')).status).toBe(200)
    await server.stop()
  })

  it('is given up by a server whose lock or directory is gone, in one sentence; it first writes where each log ended', {
    timeout: TIMEOUT_MS,
  }, async () => {
    if (database.backend !== 'embedded') throw new Error('this needs a data directory')
    const { dataDir } = database
    const eaas = await startEaas({ database })
    const { api_key, tenant_id } = await createTenantByCli({ database }, 'before the removal')
    expect((await callsOf(api_key.secret)(eaas.url, 'POST', '/v1/keys', { name: 'users' })).status).toBe(201)
    for (const name of readdirSync(dataDir)) if (name.startsWith('server.lock.')) rmSync(join(dataDir, name))
    await expect.poll(() => eaas.stderr, { timeout: 30_000 }).toContain('is no longer this process')
    const lost = await eaas.stop()
    expect([lost.code, proseOf(lost.stderr)]).toEqual([
      1,
      [expect.stringMatching(/^eaas: The data .+ server\.lock\.\d/)],
    ])
    const kept = readFileSync(join(dataDir, 'checkpoints'), 'utf8').split('\n')
    // A round may have written an earlier line.
    const last = kept.filter((line) => line.includes(tenant_id)).at(-1) ?? '{}'
    expect(JSON.parse(last).checkpoint.split('\n')[2]).toBe('2')
    await eaas.start()
    expect((await callsOf(api_key.secret)(eaas.url, 'GET', '/v1/keys')).status).toBe(200)
    renameSync(dataDir, `${dataDir}-moved`)
    await expect.poll(() => eaas.stderr, { timeout: 30_000 }).toContain('is no longer this process')
    const moved = await eaas.stop()
    expect([moved.code, proseOf(moved.stderr)]).toEqual([
      1,
      [expect.stringMatching(/^eaas: .+ the directory was moved .+ put them back/)],
    ])
    renameSync(`${dataDir}-moved`, dataDir)
  })

  it('is ignored by git from the first start on, and again after its .gitignore was lost', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const database = await freshDatabase('directory')
    if (database.backend !== 'embedded') throw new Error('this needs a data directory')
    const { dataDir } = database
    const git = (...args: string[]) =>
      execFileSync('git', ['-c', 'safe.directory=*', ...args], { cwd: dirname(dataDir), encoding: 'utf8' })
    const staged = () => {
      git('add', '-A', '--', basename(dataDir))
      return git('ls-files', '--', basename(dataDir))
    }
    git('init', '--quiet')
    const server = await startServer({ database, rootKey: null })
    expect(existsSync(join(dataDir, 'root.key'))).toBe(true)
    expect(staged()).toBe('')
    await server.stop()

    for (const lose of [
      () => rmSync(join(dataDir, '.gitignore')),
      () => writeFileSync(join(dataDir, '.gitignore'), ''),
    ]) {
      lose()
      await server.start()
      await server.stop()
      expect(staged()).toBe('')
    }
    expect((await runCommand(['doctor'], { database, rootKey: null })).code).toBe(0)
  })

  it('that cannot be written is refused with a sentence that says why and what to do', {
    timeout: TIMEOUT_MS,
  }, async () => {
    if (database.backend !== 'embedded') throw new Error('this needs a data directory')
    const file = join(dirname(database.dataDir), 'a-file')
    writeFileSync(file, '')
    for (const command of [['start'], ['tenant', 'create', '--name', 'x']]) {
      const dataDir = join(file, 'below')
      const { code, stdout, stderr } = await runCommand(command, { database: { ...database, dataDir } })
      expect([code, stdout]).toEqual([1, command[0] === 'start' ? `Creating a database in ${dataDir}\n` : ''])
      expect(stderr).toBe(
        `eaas: The data directory ${dataDir} cannot be used (ENOTDIR): a part of the path is a file. Move that file away, or set EAAS_DATA_DIR to another one.\n`,
      )
    }
    for (const [code, why] of [
      ['EROFS', /mounted read-only\. Mount it read-write/],
      ['EACCES', /may not write there\. Give the directory to the user/],
    ] as const) {
      const { message = '' } = UnusableDataDirectoryError.of('/data', Object.assign(new Error(), { code })) ?? {}
      expect(message).toMatch(why)
      expect(message).toContain(`/data cannot be used (${code})`)
    }
    expect(UnusableDataDirectoryError.of('/data', new Error('of another kind'))).toBeUndefined()
  })

  it.skipIf(!canMount())('on a file system that takes no writes is one of those', { timeout: TIMEOUT_MS }, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'eaas-read-only-'))
    const script =
      'mount -t tmpfs tmpfs "$1" && mkdir -m 700 "$1/data" && mount -o remount,ro "$1" && EAAS_DATA_DIR="$1/data" "$2" "$3" start'
    const inside = ['--mount', 'sh', '-c', script, 'sh', folder, process.execPath, EAAS]
    const { status, stderr } = spawnSync('unshare', inside, { encoding: 'utf8', env: { PATH: process.env.PATH } })
    rmSync(folder, { recursive: true })
    expect([status, stderr]).toEqual([
      1,
      expect.stringMatching(
        /^eaas: The data directory .+ cannot be used \(EROFS\): its file system is mounted read-only/,
      ),
    ])
  })

  it('is not made where its server cannot listen, and that is told in a sentence', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const other = createServer().listen(0, '127.0.0.1')
    await once(other, 'listening')
    const { port } = other.address() as AddressInfo
    const none = join(tmpdir(), randomUUID())
    const environment = { EAAS_PORT: String(port), EAAS_DATA_DIR: none }
    const taken = await runCommand(['start'], { database, environment })
    other.close()
    expect(existsSync(none)).toBe(false)
    expect([taken.code, taken.stderr]).toEqual([
      1,
      expect.stringContaining(
        `eaas: Cannot listen on 127.0.0.1, port ${port} (EADDRINUSE): another program listens there.`,
      ),
    ])
    const foreign = await runCommand(['start'], { database, environment: { EAAS_HOST: '203.0.113.7' } })
    expect(foreign.stderr).toContain('(EADDRNOTAVAIL): this machine does not have that address. Set EAAS_HOST')
  })

  it('is free where a server could not be put together', async () => {
    if (database.backend !== 'embedded') throw new Error('this needs a data directory')
    const config = readConfig({ EAAS_ROOT_KEY: ROOT_KEY, EAAS_DATA_DIR: database.dataDir, EAAS_LOG_LEVEL: 'silent' })
    await expect(openServer({ config: { ...config, trustProxy: ['no address'] } })).rejects.toThrow('no address')
    const { app } = await openServer({ config })
    expect((await app.inject('/health')).statusCode).toBe(200)
    await app.close()
  })

  it('makes its root key on the first start and needs no other after it', { timeout: TIMEOUT_MS }, async () => {
    const database = await freshDatabase('directory', { created: false })
    const eaas = await startEaas({ database, rootKey: null })
    const { code, stdout } = await eaas.stop()
    expect(code).toBe(0)
    const [secret = ''] = /eaas_sk_\w+/.exec(stdout) ?? []
    await eaas.start()
    const { status } = await callsOf(secret)(eaas.url, 'POST', '/v1/keys', { name: 'users' })
    expect(status).toBe(201)
    expect((await eaas.stop()).stdout).not.toContain('eaas_sk_') // shown once
  })
})

describe('eaas tenant create', () => {
  let database: TestDatabase

  beforeAll(async () => {
    database = await freshDatabase('directory')
  })

  const tenant = (name: string) => ({
    tenant_id: expect.stringMatching(/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/),
    name,
    envelope_only: true,
    created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    api_key: {
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      name: 'first key',
      prefix: expect.stringMatching(/^eaas_sk_[0-9a-f]{32}_.{4}$/),
      permissions: expect.arrayContaining(['encrypt', 'decrypt', 'keys:create', 'audit:read', 'api_keys:manage']),
      created_at: expect.any(String),
      secret: expect.stringMatching(/^eaas_sk_[0-9a-f]{32}_[0-9A-Za-z]{43}$/),
    },
  })

  it('prints the same JSON with a server running and without one, and the API key works', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const without = await createTenantByCli({ database }, 'without a server')
    const server = await startServer({ database })
    const beside = await createTenantByCli({ database }, 'beside a server')
    expect(without).toEqual(tenant('without a server'))
    expect(beside).toEqual(tenant('beside a server'))
    for (const { tenant_id, api_key } of [without, beside]) {
      const call = callsOf(api_key.secret)
      expect((await call(server.url, 'GET', '/v1/tenant')).body.tenant_id).toBe(tenant_id)
      expect((await call(server.url, 'GET', '/v1/audit/verify')).body).toMatchObject({ valid: true, total_entries: 1 })
    }
    await server.stop()
  })

  it('refuses a name that is taken, in one sentence', { timeout: TIMEOUT_MS }, async () => {
    await createTenantByCli({ database }, 'taken')
    const again = await runCommand(['tenant', 'create', '--name', 'taken', '--json'], { database })
    expect(again).toEqual({
      code: 1,
      stdout: '',
      stderr: 'eaas: a tenant named taken already exists, perhaps as a deleted one: choose another name\n',
    })
  })
})
