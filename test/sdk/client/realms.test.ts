// Values of another realm: of a frame, of a `vm` context, and of Node in what jest and jsdom run.
import { fileURLToPath } from 'node:url'
import { createContext, runInContext, runInNewContext } from 'node:vm'
import { build } from 'esbuild'
import { describe, expect, it } from 'vitest'
import { bytes, createClient, date, isEaasError, json } from '../../../packages/sdk/src/index.js'
import { createDek, open, seal } from '../../../packages/sdk/src/offline.js'
import { createTestService } from '../../../packages/sdk/src/testing.js'

const BYTES = [0, 1, 2, 255]
const foreign = <T>(source: string): T => runInNewContext(source) as T
const foreignBytes = () => foreign<Uint8Array>(`Uint8Array.of(${BYTES})`)
const WRAPPED = { wrapped_key: 'AAAA', key_id: '0b54f9a4-6f0e-4c1c-9d2a-5e7a1c3b8f60', key_version: 1 }

async function connect(engine: 'auto' | 'node' | 'web' | 'noble' = 'auto') {
  const eaas = createClient({ ...createTestService(), engine })
  const { id: keyId } = await eaas.keys.create({ name: 'users' })
  return { eaas, keyId }
}

describe('what another realm made', () => {
  it('is not an instance of this one, or the following would show nothing', () => {
    expect(foreignBytes()).not.toBeInstanceOf(Uint8Array)
    expect(foreign('new Date()')).not.toBeInstanceOf(Date)
    expect(foreign('new Error()')).not.toBeInstanceOf(Error)
  })

  it.each(['node', 'web', 'noble'] as const)('is sealed if it is a Uint8Array, by engine %s', async (engine) => {
    const { eaas, keyId } = await connect(engine)
    expect([...(await eaas.decrypt(await eaas.encrypt(foreignBytes(), { keyId })))]).toEqual(BYTES)
  })

  it('is sealed by a model: bytes, dates, JSON', async () => {
    const { eaas, keyId } = await connect()
    const model = eaas.model({
      name: 'users',
      keyId,
      bind: false,
      fields: { photo: bytes(), born: date(), prefs: json<{ dark: boolean }>() },
    })
    const row = await model.encrypt({
      photo: foreign<ReturnType<typeof Uint8Array.of>>(`Uint8Array.of(${BYTES})`),
      born: foreign<Date>('new Date(0)'),
      prefs: foreign<{ dark: boolean }>('({ dark: true })'),
    })
    const { photo, born, prefs } = await model.decrypt(row)
    expect([[...photo], born, prefs]).toEqual([BYTES, new Date(0), { dark: true }])
  })

  it('is a DEK if it is 32 bytes', async () => {
    const dek = createDek()
    const other = foreign<Uint8Array>(`Uint8Array.of(${dek})`)
    expect([...(await open(await seal(foreignBytes(), { dek: other, wrapped: WRAPPED }), dek))]).toEqual(BYTES)
  })

  it('is refused if it only says that it is a byte array', async () => {
    const { eaas, keyId } = await connect()
    for (const source of ['({ [Symbol.toStringTag]: "Uint8Array", length: 4, buffer: {} })', '[1]']) {
      await expect(eaas.encrypt(foreign<Uint8Array>(source), { keyId })).rejects.toMatchObject({
        code: 'E_INVALID_INPUT',
      })
    }
    const invalid = foreign<Date>('new Date(NaN)')
    const model = eaas.model({ name: 'users', keyId, bind: false, fields: { born: date() } })
    await expect(model.encrypt({ born: invalid })).rejects.toThrow('an invalid Date')
  })

  it('is an error of the SDK if a copy of the SDK threw it there', () => {
    const brand = 'Object.defineProperty(new Error("x"), Symbol.for("eaas.error"), { value: true })'
    expect(isEaasError(foreign(brand))).toBe(true)
    expect(isEaasError(foreign('new Error("x")'))).toBe(false)
  })
})

const PLATFORM = ['AbortController', 'AbortSignal', 'Headers', 'ReadableStream', 'Request', 'Response', 'URL']
const LATER = ['Buffer', 'crypto', 'fetch', 'performance', 'process', 'setTimeout', 'clearTimeout', 'atob', 'btoa']

/** Loads the SDK into a realm with these globals of this one, and others. Returns what runs a program there. */
async function load(names: readonly string[], others: Record<string, unknown> = {}) {
  const { outputFiles } = await build({
    stdin: {
      contents: `export { createClient, isEaasError, text } from '../../../packages/sdk/src/index.ts'
        export { createBroker } from '../../../packages/sdk/src/broker.ts'
        export { createTestService } from '../../../packages/sdk/src/testing.ts'
        export { createDek, openText, seal } from '../../../packages/sdk/src/offline.ts'`,
      resolveDir: fileURLToPath(new URL('../../../packages/sdk/src/', import.meta.url)),
    },
    bundle: true,
    format: 'iife',
    globalName: 'sdk',
    target: 'es2022',
    write: false,
  })
  const globals = Object.fromEntries(names.map((name) => [name, Reflect.get(globalThis, name)]))
  const context = createContext({ ...globals, ...others })
  runInContext(`${outputFiles[0]?.text}; globalThis.sdk = sdk`, context)
  return (source: string) => runInContext(source, context) as Promise<unknown>
}

describe('the SDK in a realm whose platform comes from another one, as in jest', () => {
  it.each(['node', 'web', 'noble'])('seals and opens by engine %s', async (engine) => {
    const run = await load([...PLATFORM, ...LATER, 'TextEncoder', 'TextDecoder'])
    const outcome = await run(`(async () => {
      const eaas = sdk.createClient({ ...sdk.createTestService(), engine: '${engine}' })
      const { id: keyId } = await eaas.keys.create({ name: 'users' })
      const opened = await eaas.decryptText(await eaas.encrypt('é', { keyId }))
      const [row] = await eaas.encryptMany([{ photo: Buffer.from('é') }], { keyId, fields: ['photo'] })
      const photo = (await eaas.decryptMany([row], { fields: ['photo'], as: 'bytes' }))[0].photo
      const same = await eaas.keys.create({ name: 'users' }).catch((error) => sdk.isEaasError(error) && error.code)
      return [opened, photo instanceof Uint8Array, photo.length, same].join()
    })()`)
    expect(outcome).toBe('é,true,2,E_API')
  })

  it('loads, and seals with a DEK at hand, where there is no TextEncoder, as in jest with jsdom', async () => {
    const run = await load([...PLATFORM, ...LATER])
    const outcome = await run(`(async () => {
      sdk.createClient({ baseUrl: 'https://eaas.test', apiKey: 'x' }).close()
      const dek = sdk.createDek()
      return sdk.openText(await sdk.seal('é', { dek, wrapped: ${JSON.stringify(WRAPPED)} }), dek)
    })()`)
    expect(outcome).toBe('é')
  })
})

describe('the SDK in an edge runtime whose functions of Node throw when they are called, as in that of Next.js', () => {
  const throwing = (name: string) => () => {
    throw new Error(`A Node.js API is used (${name}) which is not supported in the Edge Runtime.`)
  }
  /** As in Vercel's edge-runtime. */
  const SignalWithoutAny = Object.assign(() => undefined, { timeout: (ms: number) => AbortSignal.timeout(ms) })
  Object.defineProperty(SignalWithoutAny, Symbol.hasInstance, { value: (one: unknown) => one instanceof AbortSignal })
  const EDGE = {
    EdgeRuntime: 'edge-runtime',
    setImmediate: throwing('setImmediate'),
    process: { env: {}, getBuiltinModule: throwing('process.getBuiltinModule') },
    AbortSignal: SignalWithoutAny,
  }
  const loadOnEdge = () => load([...PLATFORM, ...LATER, 'TextEncoder', 'TextDecoder'], EDGE)

  it.each(['auto', 'web', 'noble'])('encrypts, decrypts and searches by engine %s', async (engine) => {
    const run = await loadOnEdge()
    const outcome = await run(`(async () => {
      const eaas = sdk.createClient({ ...sdk.createTestService(), engine: '${engine}' })
      const fields = { email: sdk.text({ index: 'email_index' }) }
      const users = eaas.model({ name: 'users', key: 'users', bind: ['id'], fields })
      const rows = await users.encryptMany(Array.from({ length: 600 }, (_, id) => ({ id, email: id + '@example.org' })))
      const { email_index } = await users.index({ email: '7@example.org' })
      const { ok } = await users.decryptMany(rows.filter((row) => row.email_index === email_index))
      return ok.map(({ id, email }) => id + ' ' + email).join()
    })()`)
    expect(outcome).toBe('7 7@example.org')
  })

  it('makes at the top of a module nothing that workerd allows in a handler alone', async () => {
    const run = await loadOnEdge()
    const outcome = await run(`(async () => {
      const service = sdk.createTestService()
      const later = Object.fromEntries(['AbortController', 'crypto', 'fetch', 'setTimeout'].map((name) => [name, globalThis[name]]))
      for (const name of Object.keys(later)) globalThis[name] = undefined
      const eaas = sdk.createClient(service)
      const users = eaas.model({ name: 'users', key: 'users', bind: ['id'], fields: { email: sdk.text() } })
      Object.assign(globalThis, later)
      return (await users.decrypt(await users.encrypt({ id: 7, email: 'ada@example.org' }))).email
    })()`)
    expect(outcome).toBe('ada@example.org')
  })

  it('gives no request the AbortController of another one, which older workerd refuses', async () => {
    const run = await loadOnEdge()
    const outcome = await run(`(async () => {
      let request = 0
      const aborted = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(new AbortController().signal), 'aborted').get
      globalThis.AbortController = class extends AbortController {
        constructor() {
          super()
          const owner = request
          const get = function () {
            if (request !== owner) throw new Error('Cannot perform I/O on behalf of a different request.')
            return aborted.call(this)
          }
          Object.defineProperty(this.signal, 'aborted', { get })
        }
      }
      const eaas = sdk.createClient(sdk.createTestService())
      for (request of [1, 2]) await eaas.keys.list()
      eaas.close()
      return eaas.keys.list().catch(({ code }) => code)
    })()`)
    expect(outcome).toBe('E_ABORTED')
  })

  it('serves a broker', async () => {
    const run = await loadOnEdge()
    const outcome = await run(`(async () => {
      const service = sdk.createTestService()
      const { id } = await sdk.createClient(service).keys.create({ name: 'users' })
      const broker = sdk.createBroker({ ...service, authenticate: () => ({ id: 'ada' }), allow: { wrap: [id] } })
      const headers = { 'sec-fetch-site': 'same-origin', 'content-type': 'application/json' }
      const body = JSON.stringify({ dek: btoa('x'.repeat(32)) })
      const url = 'https://app.test/api/eaas/v1/keys/' + id + '/wrap'
      return (await broker(new Request(url, { method: 'POST', headers, body }))).status
    })()`)
    expect(outcome).toBe(200)
  })

  it('refuses engine node, which is not there', async () => {
    const run = await loadOnEdge()
    const outcome = await run(`(async () => {
      const eaas = sdk.createClient({ ...sdk.createTestService(), engine: 'node' })
      return eaas.keys.create({ name: 'users' }).catch(({ code, message }) => code + ' ' + message)
    })()`)
    expect(outcome).toBe('E_INVALID_INPUT engine "node" is not available here, or fails its known-answer test')
  })
})
