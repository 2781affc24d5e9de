// Options are own properties alone: one that something in the process put on `Object.prototype` is refused, not taken.
import { afterAll, expect, it } from 'vitest'
import { createBroker } from './broker.js'
import { createClient, date, number, text } from './index.js'
import { type AnyModel, maintain } from './maintenance.js'
import { open, openExport, seal } from './offline.js'
import { decryptStream, encryptStream, openRange, rewrapStream } from './streams.js'
import { decryptSync, encryptSync } from './sync.js'
import { createTestService } from './testing.js'

const service = createTestService()
const eaas = createClient(service)
afterAll(() => eaas.close())
const { id: keyId } = await eaas.keys.create({ name: 'users' })
const dek = new Uint8Array(32).fill(1)
const envelope = await eaas.encrypt('x', { keyId })
const definition = { name: 'users', keyId, bind: ['id'], fields: { email: text({ pad: 16 }) } }
const users = eaas.model(definition)
const row = await users.encrypt({ id: '7', email: 'x' })

type Options = Record<string, unknown>
// biome-ignore lint/suspicious/noExplicitAny: each call gets options of its own type
type Door = [given: Options, call: (options: any) => unknown]

const users_ = users as AnyModel
const [fields, indexes] = [['a'], { e: { fields: ['email'] } }]
const mine = { ...service, authenticate: () => undefined, allow: {} }

/** Each function that takes options, and those that it is given. */
const DOORS: Record<string, Door> = {
  createClient: [{ baseUrl: service.baseUrl }, (options) => createClient(options).close()],
  deks: [{}, (deks) => createClient({ ...service, deks }).close()],
  createBroker: [{ authenticate: mine.authenticate, allow: {} }, createBroker],
  allow: [{}, (allow) => createBroker({ ...mine, allow })],
  limits: [{}, (limits) => createBroker({ ...mine, limits })],
  createTestService: [{}, createTestService],
  model: [definition, (options) => eaas.model(options)],
  text: [{}, text],
  number: [{}, number],
  range: [{}, (range) => number({ range })],
  date: [{}, date],
  index: [indexes.e, (e) => eaas.model({ ...definition, indexes: { e } } as never)],
  formerIndex: [{}, (formerIndex) => eaas.model({ ...definition, formerIndex })],
  'model.encryptMany': [{}, (options) => users.encryptMany([{ id: '7', email: 'x' }], options)],
  'model.decryptMany': [{}, (options) => users.decryptMany([row], options)],
  maintain: [{ work: 'reseal' }, (options) => maintain(users_, options)],
  encrypt: [{ keyId }, (options) => eaas.encrypt('x', options)],
  encryptJson: [{ keyId }, (options) => eaas.encryptJson('x', options)],
  decrypt: [{}, (options) => eaas.decrypt(envelope, options)],
  decryptText: [{}, (options) => eaas.decryptText(envelope, options)],
  encryptMany: [{ keyId, fields }, (options) => eaas.encryptMany([{ a: 'x' }], options)],
  decryptMany: [{ fields }, (options) => eaas.decryptMany([{ a: 'x' }], options)],
  hash: [{ keyId }, (options) => eaas.hash('x', options)],
  rewrap: [{}, (options) => eaas.rewrap(envelope, options)],
  'keys.create': [{}, (options) => eaas.keys.create(options)],
  'keys.ensure': [{}, (options) => eaas.keys.ensure(options)],
  'keys.list': [{}, (options) => eaas.keys.list(options)],
  'keys.get': [{}, (options) => eaas.keys.get(keyId, options)],
  'apiKeys.create': [{ name: 'a', permissions: [] }, (options) => eaas.apiKeys.create(options)],
  'apiKeys.update': [{ name: 'a' }, (options) => eaas.apiKeys.update(keyId, options)],
  'audit.list': [{}, (options) => eaas.audit.list(options)],
  'audit.entries': [{}, (options) => eaas.audit.entries(options).next()],
  'server.encrypt': [{ keyId }, (options) => eaas.server.encrypt('x', options)],
  tenant: [{}, (options) => eaas.tenant(options)],
  health: [{}, (options) => eaas.health(options)],
  encryptStream: [{ keyId }, (options) => encryptStream(eaas, options)],
  decryptStream: [{}, (options) => decryptStream(eaas, options)],
  openRange: [{}, (options) => openRange(eaas, {} as never, options)],
  rewrapStream: [{}, (options) => rewrapStream(eaas, options)],
  encryptSync: [{ keyId }, (options) => encryptSync(eaas, 'x', options)],
  decryptSync: [{}, (options) => decryptSync(eaas, envelope, options)],
  seal: [{ dek, wrapped: envelope }, (options) => seal('x', options)],
  open: [{}, (options) => open(envelope, dek, options)],
  openExport: [{}, (options) => openExport({} as never, options)],
}

/** How a call ends if its options are to blame: as its message; otherwise as `accepted`. */
async function verdict(call: () => unknown): Promise<{ message: string; hint: string }> {
  try {
    await call()
  } catch (error) {
    const { code, message, hint } = error as { code?: string; message: string; hint: string }
    if (code === 'E_INVALID_INPUT') return { message, hint }
  }
  return { message: 'accepted', hint: '' }
}

/** Runs with an option on the prototype of all objects. */
async function withInherited<T>(
  name: string,
  enumerable: boolean,
  run: () => Promise<T>,
  value: unknown = true,
): Promise<T> {
  Object.defineProperty(Object.prototype, name, { value, writable: true, configurable: true, enumerable })
  try {
    return await run()
  } finally {
    Reflect.deleteProperty(Object.prototype, name)
  }
}

it.each(Object.entries(DOORS))('%s takes no option that its object inherits', async (_, [given, call]) => {
  const { hint } = await verdict(() => call({ ...given, another: 1 }))
  const [, names = ''] = /^Its options: (.+)\.$/.exec(hint) ?? []
  const options = names.split(', ').filter((name) => !Object.hasOwn(given, name))
  expect(options).not.toEqual([''])
  for (const option of options) {
    for (const enumerable of [true, false]) {
      const { message } = await withInherited(option, enumerable, () => verdict(() => call({ ...given })))
      expect(message).toMatch(new RegExp(`inherits ${option}$`))
    }
  }
})

it('takes an option of a prototype of its own as little', () => {
  expect(() => createClient(Object.create({ baseUrl: service.baseUrl }))).toThrow(/inherits baseUrl/)
})

it('takes a URL and an API key of the environment alone', async () => {
  const asked: string[] = []
  const env = { ...process.env }
  const fetch = async (url: unknown) => {
    asked.push(String(url))
    throw new Error('no answer')
  }
  for (const name of ['EAAS_URL', 'EAAS_API_KEY']) {
    Object.assign(process.env, { EAAS_URL: 'https://eaas.example', EAAS_API_KEY: 'eaas_sk_x' })
    delete process.env[name]
    const client = createClient({ fetch, retries: 0 } as never)
    try {
      const { message } = await withInherited(name, true, () => verdict(() => client.tenant()), 'https://evil.example')
      expect([message, asked]).toEqual([`${name} is not set in the environment`, []])
    } finally {
      client.close()
      for (const one of ['EAAS_URL', 'EAAS_API_KEY']) delete process.env[one]
      Object.assign(process.env, env)
    }
  }
})

it('keeps the options with which a client and a model were made', async () => {
  const stored = await users.encrypt({ id: '7', email: 'ada' })
  const names = new Set<string>()
  const doors = ['createClient', 'model', 'text', 'index', 'deks'].map((name) => DOORS[name] as Door)
  for (const [given, call] of doors) {
    const { hint } = await verdict(() => call({ ...given, another: 1 }))
    for (const name of hint.replace(/^Its options: |\.$/g, '').split(', ')) names.add(name)
  }
  for (const name of [...names, 'acceptUnbound', 'keyIds', 'context', 'purpose', 'record', 'redirect', 'method']) {
    for (const enumerable of [true, false]) {
      await withInherited(name, enumerable, async () => {
        const sealed = await users.encrypt({ id: '7', email: 'ben' })
        expect([name, Object.keys(sealed), (await users.decrypt(sealed)).email]).toEqual([name, ['id', 'email'], 'ben'])
        expect((await users.decrypt(stored)).email).toBe('ada')
        await expect(users.decrypt({ ...stored, id: '8' })).rejects.toThrow(/./)
        await expect(users.decrypt({ id: '7', email: 'plain' } as never)).rejects.toThrow(/./)
      })
    }
  }
})
