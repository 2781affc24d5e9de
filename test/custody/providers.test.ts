// The providers of a root key that need nothing but small programs; those of an HSM and of services are in test/slow.
import { randomBytes } from 'node:crypto'
import { chmod, rename, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type RootKeySetting, readConfig } from '../../packages/server/src/config.js'
import { openProvider } from '../../packages/server/src/root-key/open-provider.js'
import { type ProviderUnderTest, testProvider } from '../support/custody/provider-suite.js'
import { guardedDir } from '../support/run/guarded-dir.js'

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
    ['that is not there', '/nowhere/pass', /^\/nowhere\/pass, .*cannot be started \(ENOENT\)\.$/],
    ['that fails', 'false', /^false, .*ended with exit code 1\. It may have printed why\.$/],
    ['that prints nothing', 'true', /^The root key in true must be 32 bytes, got 0\./],
    ['that prints no key', 'echo hunter2hunter2', /^The root key in echo is not standard base64\./],
    ['that prints without end', 'yes hunter2hunter2', /^yes, .*wrote more than 65536 bytes\.$/],
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

  it('that wraps to nothing is refused', async () => {
    const provider = await open('exec', 'true')
    await expect(provider.wrap(randomBytes(36))).rejects.toThrow('true wrap wrote nothing')
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
    ['answers with something else', { status: 200, body: '{"data":{}}' }, /gave no ciphertext/],
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
})

describe('a root key in AWS KMS', () => {
  it('is named by its ARN', async () => {
    await expect(open('aws-kms', 'alias/eaas')).rejects.toThrow('must be named by its ARN')
  })
})
