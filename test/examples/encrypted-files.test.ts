// The example with an object store: what it does by presigned URLs, and the command as a newcomer runs it, on the built packages.
import { randomBytes } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Client, createClient } from '../../packages/sdk/src/index.js'
import { createTestService } from '../../packages/sdk/src/testing.js'
import { type GuardedDir, guardedDir } from '../support/run/guarded-dir.js'
import { IS_SLOW_RUN } from '../support/run/rounds.js'
import { interruptProgram, runProgram } from './program.js'

const example = fileURLToPath(new URL('../../examples/encrypted-files/', import.meta.url))
const main = join(example, 'main.mjs')
const [{ download, encryptedLength, readPart, upload }, { presign }, { startStore }] = await Promise.all([
  import(join(example, 'files.mjs')),
  import(join(example, 'presign.mjs')),
  import(join(example, 'store.mjs')),
])
const SEGMENT_BYTES = 65_536
const credentials = { accessKey: 'example', secretKey: 'secret', region: 'eu-west-1' }
const name = '/reports/a.bin'

let dir: GuardedDir
let eaas: Client
let keyId: string
let clock: number
let store: { url: string; pathOf(name: string): string; sent(): number; close(): Promise<void> }
beforeAll(async () => {
  dir = guardedDir('eaas-test-files')
  store = await startStore({ folder: dir.path, credentials, now: () => clock })
  eaas = createClient(createTestService())
  keyId = (await eaas.keys.create({ name: 'files' })).id
})
beforeEach(() => {
  clock = Date.now()
})
afterAll(async () => {
  eaas?.close()
  await store?.close()
  await dir?.remove()
})

const urlTo = (method: 'GET' | 'PUT', object = name) =>
  presign(credentials, { method, url: store.url + object, seconds: 60, now: new Date(clock) })
const pathTo = (file: string) => join(dir.path, file)

async function put(bytes: Uint8Array, object = name): Promise<void> {
  writeFileSync(pathTo('source'), bytes)
  await upload(eaas, { path: pathTo('source'), url: urlTo('PUT', object), name: object, keyId })
}

describe('a file in the store', () => {
  it.each([0, 1, SEGMENT_BYTES, SEGMENT_BYTES + 1, 3_000_000])(
    'of %d bytes comes back, and has the length that was said',
    async (size) => {
      const bytes = randomBytes(size)
      await put(bytes)
      expect(readFileSync(store.pathOf(name)).length).toBe(encryptedLength(size))
      await download(eaas, { path: pathTo('copy'), url: urlTo('GET'), name })
      expect(readFileSync(pathTo('copy')).equals(bytes)).toBe(true)
    },
  )

  it('is read in part by few of its bytes', async () => {
    const bytes = randomBytes(5_000_000)
    await put(bytes)
    const before = store.sent()
    const [from, to] = [2_000_000, 2_001_000]
    expect(Buffer.from(await readPart(eaas, { url: urlTo('GET'), name, from, to }))).toEqual(bytes.subarray(from, to))
    expect(store.sent() - before).toBeLessThan(200_000)
    const end = await readPart(eaas, { url: urlTo('GET'), name, from: 4_999_000, to: 9_000_000 })
    expect(Buffer.from(end)).toEqual(bytes.subarray(4_999_000))
  })

  it('that was cut at the end of a segment is refused, and leaves nothing that looks like the file', async () => {
    await put(randomBytes(4 * SEGMENT_BYTES))
    truncateSync(store.pathOf(name), 512 + 2 * (SEGMENT_BYTES + 16))
    const cut = download(eaas, { path: pathTo('cut'), url: urlTo('GET'), name })
    await expect(cut).rejects.toMatchObject({ code: 'E_DECRYPTION' })
    expect(readdirSync(dir.path).filter((file) => file.startsWith('cut'))).toEqual([])
  })

  it('does not open under the name of another', async () => {
    await put(randomBytes(100))
    await put(randomBytes(100), '/reports/b.bin')
    writeFileSync(store.pathOf(name), readFileSync(store.pathOf('/reports/b.bin')))
    const exchanged = download(eaas, { path: pathTo('exchanged'), url: urlTo('GET'), name })
    await expect(exchanged).rejects.toMatchObject({ code: 'E_DECRYPTION' })
  })

  it('is not there when its upload was aborted', async () => {
    writeFileSync(pathTo('source'), randomBytes(20_000_000))
    const controller = new AbortController()
    const object = '/reports/aborted.bin'
    const url = urlTo('PUT', object)
    const uploading = upload(eaas, { path: pathTo('source'), url, name: object, keyId, signal: controller.signal })
    controller.abort()
    await expect(uploading).rejects.toThrow()
    expect(existsSync(store.pathOf(object))).toBe(false)
  })
})

describe('a presigned URL', () => {
  it('is that of the example that AWS publishes', () => {
    const published = { accessKey: 'AKIAIOSFODNN7EXAMPLE', secretKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY' }
    const url = presign(
      { ...published, region: 'us-east-1' },
      {
        method: 'GET',
        url: 'https://examplebucket.s3.amazonaws.com/test.txt',
        seconds: 86_400,
        now: new Date('2013-05-24T00:00:00Z'),
      },
    )
    expect(new URL(url).searchParams.get('X-Amz-Signature')).toBe(
      'aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404',
    )
  })

  it('lets nobody do anything else, or later', async () => {
    await put(randomBytes(10))
    const refused = async (url: string, init?: RequestInit) => {
      const response = await fetch(url, init)
      return [response.status, /<Code>(\w+)</.exec(await response.text())?.[1]]
    }
    expect(await refused(urlTo('GET'), { method: 'PUT', body: 'x' })).toEqual([403, 'SignatureDoesNotMatch'])
    expect(await refused(urlTo('GET').replace('a.bin', 'b.bin'))).toEqual([403, 'SignatureDoesNotMatch'])
    expect(await refused(urlTo('GET').replace('Expires=60', 'Expires=600'))).toEqual([403, 'SignatureDoesNotMatch'])
    expect(await refused(store.url + name)).toEqual([403, 'SignatureDoesNotMatch'])
    expect(await refused(urlTo('GET', '/none'))).toEqual([404, 'NoSuchKey'])
    const early = urlTo('GET')
    clock += 61_000
    expect(await refused(early)).toEqual([403, 'AccessDenied'])
  })
})

describe('the command of the example', { timeout: 120_000 }, () => {
  const run = (args: string[]) => runProgram({ main, args, folder: dir.path })

  it('gets its file back, reads a part of it, and has the cut one refused', async () => {
    const { code, out, err } = await run(['--mib', '3'])
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toContain('the download ends with E_DECRYPTION, and leaves no file')
    expect(out).toContain('The file came back as it was.')
  })

  // What ends an example is the same in all of them, and the demo's tests have it every time.
  it.runIf(IS_SLOW_RUN)('leaves nothing behind when it is interrupted', async () => {
    expect(await interruptProgram({ main, args: ['--mib', '64'], folder: dir.path }, 'SIGINT', /into the store/)).toBe(
      130,
    )
  })

  it('refuses what it does not know, and explains itself with --help', async () => {
    expect(await run(['--mib', '0'])).toMatchObject({ code: 2, err: expect.stringContaining('--mib') })
    expect(await run(['--help'])).toMatchObject({ code: 0, err: '', out: expect.stringContaining('--mib') })
  })
})
