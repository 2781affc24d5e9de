// The providers of a root key that need nothing but small programs; those of an HSM and of services are in test/slow.
import { spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { chmod, readFile, rename, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join, relative } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { type RootKeySetting, readConfig } from '../../packages/server/src/core/config.js'
import { rotateRootKey } from '../../packages/server/src/operate/operations/rotate-root-key.js'
import { openProvider } from '../../packages/server/src/root-keys/open-provider.js'
import { type ProviderUnderTest, testProvider } from '../support/custody/provider-suite.js'
import { freshDatabase } from '../support/database/database.js'
import { guardedDir } from '../support/run/guarded-dir.js'
import { runCommand } from '../support/service/command-host.js'
import { EAAS, environmentOf } from '../support/service/eaas-process.js'
import { startService } from '../support/service/service.js'

const NO_LOGIN = { tokenFile: undefined, appRoleFile: undefined }
const open = (kind: RootKeySetting['kind'], value: string, login: RootKeySetting['login'] = NO_LOGIN) =>
  openProvider({ kind, value, login })

/** A program of Node that can be taken away. */
async function program(text: string) {
  const { path: folder, remove } = guardedDir('eaas-root key') // with a blank
  const path = join(folder, 'program.mjs')
  await writeFile(path, `#!${process.execPath}\n${text}`)
  await chmod(path, 0o755)
  return {
    path,
    takeAway: () => rename(path, `${path}.away`),
    bringBack: () => rename(`${path}.away`, path),
    remove: async () => remove(),
  }
}

const PRINTS = `process.stdout.write('${randomBytes(32).toString('base64')}\\n')`

/** Seals under a key of its own; the iv is part of what it writes. */
const SEALS = `
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
const key = Buffer.from('${randomBytes(32).toString('hex')}', 'hex')
const input = await buffer(process.stdin)
if (process.argv.at(-1) === 'wrap') {
  const iv = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', key, iv)
  process.stdout.write(Buffer.concat([iv, cipher.update(input), cipher.final(), cipher.getAuthTag()]))
} else {
  const decipher = createDecipheriv('aes-256-gcm', key, input.subarray(0, 12)).setAuthTag(input.subarray(-16))
  process.stdout.write(Buffer.concat([decipher.update(input.subarray(12, -16)), decipher.final()]))
}`

describe('a root key that a program prints', () => {
  testProvider(async (): Promise<ProviderUnderTest> => {
    const { path, ...rest } = await program(PRINTS)
    return { ...rest, health: 'none', environment: { EAAS_ROOT_KEY_COMMAND: JSON.stringify([path, 'eaas']) } }
  })
})

describe('a root key that a program holds', () => {
  testProvider(async (): Promise<ProviderUnderTest> => {
    const { path, ...rest } = await program(SEALS)
    return { ...rest, health: 'exec', environment: { EAAS_ROOT_KEY_EXEC: JSON.stringify([path, '--slot', '0']) } }
  })
})

describe('a program for the root key', () => {
  it.each([
    [
      'that is not there',
      '/nowhere/pass',
      /^The program of EAAS_ROOT_KEY_COMMAND, \/nowhere\/pass cannot be started \(ENOENT\)\.$/,
    ],
    [
      'that fails',
      'false',
      /^The program of EAAS_ROOT_KEY_COMMAND, false ended with exit code 1\. It may have printed why\.$/,
    ],
    ['that prints nothing', 'true', /^The root key in true must be 32 bytes, got 0\./],
    ['that prints no key', 'echo hunter2hunter2', /^The root key in echo is not standard base64\./],
    [
      'that prints without end',
      'yes hunter2hunter2',
      /^The program of EAAS_ROOT_KEY_COMMAND, yes wrote more than 65536 bytes\.$/,
    ],
  ])('%s is refused, without what it printed', async (_, line, message) => {
    const error = await open('command', line).catch((reason: Error) => reason)
    expect(error).toMatchObject({ name: 'RootKeyError', message: expect.stringMatching(message) })
    expect((error as Error).message.replaceAll(line, '')).not.toContain('hunter2hunter2')
  })

  it.each(['["pass", 1]', '[', '[]', ' '])('is no list of strings: %s', async (line) => {
    await expect(open('exec', line)).rejects.toThrow(/^EAAS_ROOT_KEY_EXEC must be a program and its arguments/)
  })

  it('is given its arguments as they are: no shell reads them', async () => {
    const provider = open('command', 'echo $HOME;true')
    await expect(provider).rejects.toThrow('is not standard base64')
    const { path, remove } = await program(`process.exitCode = process.argv[2] === '$(id) "a b"' ? 3 : 4`)
    await expect(open('command', JSON.stringify([path, '$(id) "a b"']))).rejects.toThrow('exit code 3')
    await remove()
  })

  it.each([
    ['the same bytes', 'cat'],
    ['their base64', 'base64 -w0'],
    ['their base64 on several lines', 'base64 -w20'],
    ['their hexadecimal on several lines', 'od -An -v -tx1'],
    ['their hexadecimal in capitals', "od -An -v -tx1 | tr 'a-f' 'A-F'"],
  ])('that only writes %s is refused', async (_, line) => {
    const provider = await open('exec', JSON.stringify(['sh', '-c', line]))
    await expect(provider.wrap(randomBytes(36))).rejects.toThrow('wrap wrote the bytes that it was given')
  })

  it('that wraps to nothing is refused', async () => {
    const provider = await open('exec', 'true')
    await expect(provider.wrap(randomBytes(36))).rejects.toThrow('true wrap wrote nothing')
  })
})

describe('a program that asks a device', () => {
  /** Adds a line to a file at each call of `unwrap` once `refuse` was called, and is refused its PIN. */
  async function counting() {
    const { path, remove } = await program(`
import { appendFileSync, existsSync } from 'node:fs'
if (existsSync(process.argv[1] + '.refuse')) {
  appendFileSync(process.argv[1] + '.calls', process.argv.at(-1) + '\\n')
  process.exit(6)
}
${SEALS}`)
    return {
      environment: { EAAS_ROOT_KEY_EXEC: JSON.stringify([path]) },
      refuse: () => writeFile(`${path}.refuse`, ''),
      calls: () => readFile(`${path}.calls`, 'utf8').catch(() => ''),
      remove,
    }
  }

  it('which refuses its PIN is asked once, by a command and by a server', async () => {
    const device = await counting()
    const service = await startService({ environment: { EAAS_ROOT_KEY: undefined, ...device.environment } })
    await device.refuse()
    const { sql } = service.services
    await sql`insert into store_keys select number + 1, wrapped, created_at from store_keys`
    const clock = vi.spyOn(performance, 'now')
    await expect(service.refreshStoreKeys()).rejects.toMatchObject({ name: 'RefusedPinError' })
    const later = performance.now() + 24 * 3_600_000
    clock.mockReturnValue(later)
    await service.refreshStoreKeys()
    clock.mockRestore()
    expect(await device.calls()).toBe('unwrap\n')
    await sql`delete from store_keys where number = 2`
    const from = await open('variable', randomBytes(32).toString('base64'))
    const to = await open('exec', device.environment.EAAS_ROOT_KEY_EXEC)
    await expect(rotateRootKey(service.services, { from, to })).rejects.toMatchObject({ name: 'RefusedPinError' })
    expect(await device.calls()).toBe('unwrap\nunwrap\n')
    await service.close()
    const started = await runCommand(['start'], { ...service, rootKey: null, environment: device.environment })
    expect(started).toMatchObject({ code: 6, stderr: expect.stringContaining('was refused its PIN') })
    await device.remove()
  })

  it('that does not end when it is told to is killed, with all that it started', async () => {
    const { path, remove } = await program(`
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
process.on('SIGTERM', () => undefined).stdout.on('error', () => undefined)
const child = spawn('sh', ['-c', 'trap "" TERM; sleep 600 & wait; wait'], { stdio: 'inherit' })
writeFileSync(process.argv[1] + '.pids', process.pid + ' ' + child.pid)
setTimeout(() => process.stdout.write('x'.repeat(70_000)), 500)
setInterval(() => undefined, 1_000)`)
    await expect(open('command', JSON.stringify([path]))).rejects.toThrow('wrote more than 65536 bytes')
    const pids = (await readFile(`${path}.pids`, 'utf8')).split(' ')
    for (const pid of pids) await vi.waitUntil(() => !isAlive(Number(pid)), { timeout: 5_000 })
    await remove()
  })

  it('and hangs ends with the process that asked it, with all that it started', async () => {
    const { path, remove } = await program(`
import { spawn, spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
const child = spawn('sleep', ['600'], { stdio: 'inherit' })
writeFileSync(process.argv[1] + '.pids', process.pid + ' ' + child.pid)
setInterval(() => undefined, 1_000)`)
    const database = await freshDatabase('hanging')
    const env = environmentOf({ database, rootKey: null, environment: { EAAS_ROOT_KEY_EXEC: JSON.stringify([path]) } })
    const eaas = spawn(process.execPath, [EAAS, 'start'], { env, stdio: 'ignore' })
    const pids = await vi.waitUntil(() => readFile(`${path}.pids`, 'utf8').catch(() => ''), { timeout: 60_000 })
    eaas.kill()
    expect(await once(eaas, 'close')).toEqual([null, 'SIGTERM'])
    for (const pid of pids.split(' ')) await vi.waitUntil(() => !isAlive(Number(pid)), { timeout: 5_000 })
    await remove()
  })
})

/** A process that has ended, but that nobody waited for, is not alive. */
function isAlive(pid: number): boolean {
  try {
    return !/^State:\s*Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

describe('a rotation to a program', () => {
  it('warns of a path that a service does not find in its folder', async () => {
    const database = await freshDatabase('relative')
    const line = JSON.stringify(['/nowhere/program', `--pin-file=${relative(process.cwd(), '/etc/hostname')}`])
    const env = environmentOf({ database })
    const { stderr } = spawnSync(process.execPath, [EAAS, 'root-key', 'rotate', '--to-exec', line], { env })
    expect(stderr.toString()).toContain(
      'is found from this folder only: a service needs its whole path, /etc/hostname\n',
    )
  })
})

describe('two root keys', () => {
  it('are refused, whichever they are', () => {
    const both = { EAAS_ROOT_KEY_EXEC: 'a', EAAS_ROOT_KEY_TRANSIT: 'https://b/v1/transit/keys/c' }
    expect(() => readConfig(both)).toThrow('EAAS_ROOT_KEY_EXEC and EAAS_ROOT_KEY_TRANSIT are both set')
  })
})

describe('a root key in Transit', () => {
  let server: Server
  let address: string
  let tokenFile: string
  let answer: { status: number; body: string; location?: string }
  const asked: { url: string | undefined; token: unknown }[] = []
  beforeAll(async () => {
    server = createServer((request, response) => {
      asked.push({ url: request.url, token: request.headers['x-vault-token'] })
      response.writeHead(answer.status, answer.location === undefined ? {} : { location: answer.location })
      response.end(answer.body)
    })
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
    address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/team/transit/keys/eaas`
    tokenFile = join(guardedDir('eaas-transit').path, 'token')
    await writeFile(tokenFile, 's.secret-token\n')
  })
  afterAll(() => void server.close())

  it.each([
    'bao.example.org',
    'https://bao.example.org/transit/keys/eaas',
    'https://bao.example.org/v1/transit/keys/',
    'https://bao.example.org/v1/transit/keys/eaas/rotate',
    'https://bao.example.org/v1/transit/keys/eaas?x=1',
    'https://somebody@bao.example.org/v1/transit/keys/eaas',
    'https://:secret@bao.example.org/v1/transit/keys/eaas',
  ])('has an address of its own form: %s', async (url) => {
    await expect(open('transit', url, { ...NO_LOGIN, tokenFile })).rejects.toThrow(/^The address of a Transit key must/)
  })

  it('is asked by TLS alone, or on this machine', async () => {
    const setting = open('transit', 'http://bao.example.org/v1/transit/keys/eaas', { ...NO_LOGIN, tokenFile })
    await expect(setting).rejects.toThrow('must begin with https')
  })

  it('needs one way to log in', async () => {
    await expect(open('transit', address)).rejects.toThrow('only one of them')
    await expect(open('transit', address, { tokenFile, appRoleFile: tokenFile })).rejects.toThrow('only one of them')
  })

  it.each([
    [
      'refuses',
      { status: 403, body: '{"errors":["permission denied"]}' },
      /encrypt\/eaas was answered with 403\. Its token/,
    ],
    ['is sealed', { status: 503, body: '{"errors":["sealed"]}' }, /was answered with 503/],
    [
      'answers with something else',
      { status: 200, body: '{"data":{}}' },
      /encrypt\/eaas was answered with something else/,
    ],
    ['answers with nothing', { status: 200, body: 'null' }, /something else\. The address must lead to OpenBao/],
    ['answers with no JSON', { status: 200, body: 'hello' }, /had no answer \(SyntaxError\)/],
    ['sends elsewhere', { status: 307, body: '', location: 'https://elsewhere.example' }, /had no answer/],
  ])('that %s is told of, without the token', async (_, given, message) => {
    answer = given
    const provider = await open('transit', address, { ...NO_LOGIN, tokenFile })
    const error = (await provider.wrap(randomBytes(36)).catch((reason: Error) => reason)) as Error
    expect(error).toMatchObject({ name: 'RootKeyError', message: expect.stringMatching(message) })
    expect(JSON.stringify([error.message, error.stack])).not.toContain('secret-token')
    expect(asked.at(-1)).toEqual({ url: '/v1/team/transit/encrypt/eaas', token: 's.secret-token' })
  })

  it.each(['null', '{"data":null}', '{"data":{"plaintext":7}}', '{"data":{"plaintext":"hunter2!"}}'])(
    'that opens to something else is told of, without it: %s',
    async (body) => {
      answer = { status: 200, body }
      const provider = await open('transit', address, { ...NO_LOGIN, tokenFile })
      const error = (await provider.unwrap(randomBytes(36)).catch((reason: Error) => reason)) as Error
      expect(error).toMatchObject({
        name: 'RootKeyError',
        message: expect.stringContaining('decrypt/eaas was answered with something else'),
      })
      expect(error.message).not.toContain('hunter2')
    },
  )

  it('that gives no token to an AppRole is told of', async () => {
    answer = { status: 200, body: 'null' }
    const provider = await open('transit', address, { ...NO_LOGIN, appRoleFile: tokenFile })
    await expect(provider.wrap(randomBytes(36))).rejects.toMatchObject({
      name: 'RootKeyError',
      message: expect.stringContaining('login was answered with something else'),
    })
  })
})

describe('a root key in AWS KMS', () => {
  it('is named by its ARN', async () => {
    await expect(open('aws-kms', 'alias/eaas')).rejects.toThrow('must be named by its ARN')
  })
})
