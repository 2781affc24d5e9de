// A secret that is done with is overwritten, whatever way it went. What cannot be overwritten, strings, is not looked at here.
import { type Envelope, nobleAead, wrappedKeyAad, writeWrappedKey } from '@eaas/protocol'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createBroker } from '../../../packages/sdk/src/broker.js'
import { type Client, type ClientOptions, createClient, text } from '../../../packages/sdk/src/index.js'
import { open, openExport, seal } from '../../../packages/sdk/src/offline.js'
import { decryptStream, encryptStream, openRange } from '../../../packages/sdk/src/streams.js'
import { noteDeks, useService } from '../../../packages/sdk/src/test-support/clients.js'
import { API_KEY, problem, send } from '../../../packages/sdk/src/test-support/service.js'
import { chunked, collect } from '../../../packages/sdk/src/test-support/stream-bytes.js'
import { loadOn } from '../../support/platforms/platform.js'

const SECRET_BYTES = 32
const ROWS = [{ a: '1' }, { a: '2' }]

/** Every buffer of 32 bytes that was decoded from text: DEKs from the service, secrets of an export. */
const decoded: Uint8Array[] = []
/** What the engines opened to 32 bytes: DEKs out of wrapped keys. */
const opened: Uint8Array[] = []
/** The keys and the plaintexts that were sealed, as the engine got them. */
const sealed: Uint8Array[] = []
/** The keys that were opened with, as the engine got them. */
const openedWith: Uint8Array[] = []

vi.mock('@eaas/protocol', async (load) => {
  const protocol = await load<typeof import('@eaas/protocol')>()
  const noting = (decode: (text: string) => Uint8Array) => (text: string) => {
    const bytes = decode(text)
    if (bytes.length === SECRET_BYTES) decoded.push(bytes)
    return bytes
  }
  return { ...protocol, decodeBase64: noting(protocol.decodeBase64), decodeHex: noting(protocol.decodeHex) }
})
vi.mock('../../../packages/sdk/src/engines/node.js', async (load) => {
  const node = await load<typeof import('../../../packages/sdk/src/engines/node.js')>()
  return {
    createNodeEngine(...given: Parameters<typeof node.createNodeEngine>) {
      const aead = node.createNodeEngine(...given)
      const seal: typeof aead.seal = (...args) => {
        sealed.push(args[0], args[2])
        return aead.seal(...args)
      }
      const open: typeof aead.open = (...args) => {
        openedWith.push(args[0])
        const bytes = aead.open(...args)
        if (bytes.length === SECRET_BYTES) opened.push(bytes)
        return bytes
      }
      return { ...aead, seal, open }
    },
  }
})

const service = useService()
let keyId: string
/** Every DEK that was drawn. */
let drawn: Uint8Array[]
const clients: Client[] = []

function connect(options: Partial<ClientOptions> = {}): Client {
  const client = createClient({ baseUrl: service.url, apiKey: API_KEY, retries: 0, ...options })
  clients.push(client)
  return client
}

function expectWiped(secrets: readonly Uint8Array[], count: number): void {
  expect(secrets.map((secret) => Buffer.from(secret).toString('hex'))).toEqual(
    Array.from({ length: count }, () => '00'.repeat(SECRET_BYTES)),
  )
}

beforeEach(() => {
  keyId = service.createKey()
  for (const list of [decoded, opened, sealed, openedWith]) list.length = 0
  drawn = noteDeks()
})
afterEach(() => {
  vi.restoreAllMocks()
  for (const client of clients.splice(0)) client.close()
})

/** Refuses the wraps of a batch from the second one on, or a wrap that comes alone. */
function refuseWraps(): void {
  service.intercept = ({ operation, operations }, response) => {
    if (operation !== 'batch') send(response, problem(409, 'Conflict', 'E_STATE'))
    else {
      const good = { status: 200, body: { wrapped_key: 'AAAA', key_id: keyId, key_version: 1 } }
      const results = operations.map((_, at) => (at === 0 ? good : problem(409, 'Conflict', 'E_STATE')))
      send(response, { status: 200, body: { results } })
    }
    return true
  }
}

describe('a DEK of its own is wiped', () => {
  it('once its value is sealed', async () => {
    const envelope = await connect().encrypt('x', { keyId, dek: 'call' })
    expectWiped(drawn, 1)
    expect(service.wrappedDeks()[0]?.some((byte) => byte !== 0)).toBe(true)
    expect(await connect().decryptText(envelope)).toBe('x')
  })

  it('when its wrap fails', async () => {
    refuseWraps()
    await expect(connect().encrypt('x', { keyId, dek: 'call' })).rejects.toMatchObject({ problem: 'E_STATE' })
    expectWiped(drawn, 1)
  })

  it('when its wrap succeeds and that of another record fails', async () => {
    refuseWraps()
    const rows = [{ a: '1' }, { a: '2' }, { a: '3' }]
    await expect(connect().encryptMany(rows, { keyId, fields: ['a'], dek: 'record' })).rejects.toMatchObject({
      problem: 'E_STATE',
    })
    expectWiped(drawn, 3)
  })

  it.each<[string, number, (eaas: Client, signal: AbortSignal) => Promise<unknown>]>([
    ['one value', 1, (eaas, signal) => eaas.encrypt('x', { keyId, dek: 'call', signal })],
    ['a call', 1, (eaas, signal) => eaas.encryptMany(ROWS, { keyId, fields: ['a'], dek: 'call', signal })],
    ['each record', 2, (eaas, signal) => eaas.encryptMany(ROWS, { keyId, fields: ['a'], dek: 'record', signal })],
  ])('when the signal is aborted while it is wrapped: of %s', async (_, count, call) => {
    const controller = new AbortController()
    service.intercept = () => {
      controller.abort()
      return true // and no answer
    }
    await expect(call(connect(), controller.signal)).rejects.toMatchObject({ code: 'E_ABORTED' })
    expectWiped(drawn, count)
    expect(service.wrappedDeks().every((dek) => dek.some((byte) => byte !== 0))).toBe(true)
  })

  it('and so is what came back to verify it', async () => {
    await connect({ deks: { verify: true } }).encrypt('x', { keyId, dek: 'call' })
    expectWiped(drawn, 1)
    expect(decoded.length).toBeGreaterThan(0)
    expectWiped(decoded, decoded.length)
  })
})

describe('the key that a context is sealed and opened with is wiped', () => {
  const context = { row: '7' }

  it('once its value is sealed, and when the client is closed', async () => {
    const eaas = connect()
    const envelope = await eaas.encrypt('x', { keyId, context, dek: 'call' })
    const [own] = sealed as [Uint8Array]
    expectWiped([own], 1)
    expect(own).not.toBe(drawn[0])
    await eaas.encrypt('x', { keyId, context })
    const shared = sealed.at(-2) as Uint8Array
    expect(shared.some((byte) => byte !== 0)).toBe(true)
    const reader = connect()
    await reader.decrypt(envelope, { context })
    const kept = openedWith.at(-1) as Uint8Array
    expect(kept.some((byte) => byte !== 0)).toBe(true)
    eaas.close()
    reader.close()
    expectWiped([shared, kept], 2)
  })

  it('once many records are open, and without a service', async () => {
    const eaas = connect()
    const rows = await eaas.encryptMany(ROWS, { keyId, fields: ['a'], context, dek: 'record' })
    expectWiped([...new Set(sealed.filter((_, at) => at % 2 === 0))], 2)
    const reader = connect({ deks: { cache: false } })
    await reader.decryptMany(rows, { fields: ['a'], context })
    expectWiped(openedWith, 2)
    const dek = new Uint8Array(SECRET_BYTES).fill(5)
    const offline = await seal('x', { dek, context, wrapped: { wrapped_key: 'AAAA', key_id: keyId, key_version: 1 } })
    expectWiped(sealed.slice(-2, -1), 1)
    await open(offline, dek, { context })
    expectWiped(openedWith.slice(-1), 1)
  })
})

it('an index secret is wiped with its client, and after its call where none is kept', async () => {
  const find = (eaas: Client) =>
    eaas.model({ name: 'users', keyId, bind: false, fields: { a: text({ index: 'a_index' }) } }).index({ a: 'x' })
  const eaas = connect()
  await find(eaas)
  expect(decoded).toHaveLength(1)
  expect(decoded[0]?.some((byte) => byte !== 0)).toBe(true)
  eaas.close()
  expectWiped(decoded, 1)
  await find(connect({ deks: { cache: false } }))
  expectWiped(decoded, 2)
})

describe('the key of a stream is wiped', () => {
  const bytes = new Uint8Array(3 * 65_536)
  const used = () => [...new Set([...sealed.filter((_, at) => at % 2 === 0), ...openedWith])]

  it('at its end, with the DEK of its own', async () => {
    const eaas = connect()
    const stream = await collect(chunked(bytes).pipeThrough(encryptStream(eaas, { keyId, dek: 'call' })))
    expectWiped(used(), 1)
    expectWiped(drawn.slice(1), 1) // after the salt, which is public
    await collect(chunked(stream).pipeThrough(decryptStream(connect())))
    expectWiped(used(), 2)
    await collect(openRange(connect(), async (start, end) => stream.slice(start, end), { from: 70_000, to: 70_001 }))
    expectWiped(used(), 3)
  })

  it('when it does not open, and when nobody reads on', async () => {
    const eaas = connect()
    const stream = await collect(chunked(bytes).pipeThrough(encryptStream(eaas, { keyId })))
    stream[100_000] = (stream[100_000] ?? 0) ^ 1
    await expect(collect(chunked(stream).pipeThrough(decryptStream(eaas)))).rejects.toMatchObject({
      code: 'E_DECRYPTION',
    })
    expectWiped(used(), 2)
    const reader = chunked(bytes).pipeThrough(encryptStream(eaas, { keyId })).getReader()
    await reader.read()
    await reader.read()
    expect(
      used()
        .at(-2)
        ?.some((byte) => byte !== 0),
    ).toBe(true)
    await reader.cancel()
    await vi.waitFor(() => expectWiped(used(), 3), { timeout: 20_000 })
  })

  it.each<[string, (eaas: Client, abort: AbortController) => void]>([
    ['the client is closed', (eaas) => eaas.close()],
    ['the signal is aborted', (_, abort) => abort.abort()],
  ])('when %s, though nobody reads', async (_, act) => {
    const [eaas, abort] = [connect(), new AbortController()]
    const sealing = chunked(bytes).pipeThrough(encryptStream(eaas, { keyId, signal: abort.signal }))
    const reader = sealing.getReader()
    await reader.read()
    await reader.read()
    act(eaas, abort)
    await vi.waitFor(() => expectWiped(used(), 1), { timeout: 20_000 })
  })

  it('and so is the plaintext that it held back', async () => {
    const eaas = connect()
    await collect(chunked(new Uint8Array(100).fill(7)).pipeThrough(encryptStream(eaas, { keyId })))
    expect(sealed[1]?.length).toBe(100)
    expect(sealed[1]?.every((byte) => byte === 0)).toBe(true)
  })
})

describe('the DEKs that many rows are opened with are wiped, when all open and when one does not', () => {
  const users = (eaas: Client) => eaas.model({ name: 'users', keyId, bind: false, fields: { a: text() } })
  const isNotWiped = (bytes: Uint8Array) => bytes.some((byte) => byte !== 0)
  const CALLS: [string, (eaas: Client, rows: { a: Envelope }[]) => Promise<unknown>][] = [
    ['a model', (eaas, rows) => users(eaas).decryptMany(rows)],
    ['decryptMany', (eaas, rows) => eaas.decryptMany(rows, { fields: ['a'] }).catch(() => undefined)],
  ]

  it.each(CALLS)('by %s, at its end where none are kept, and otherwise with the client', async (name, open) => {
    const seal = (a: string) =>
      name === 'a model'
        ? users(connect()).encrypt({ a })
        : connect()
            .encrypt(a, { keyId })
            .then((envelope) => ({ a: envelope }))
    const rows = await Promise.all(['1', '2'].map(seal))
    const altered = { a: { ...rows[1]?.a, iv: 'AAAAAAAAAAAAAAAA' } as Envelope }
    for (const list of [rows, [rows[0] as (typeof rows)[number], altered]]) {
      decoded.length = openedWith.length = 0
      await open(connect({ deks: { cache: false } }), list)
      expect(openedWith.length).toBeGreaterThan(0)
      expect(openedWith.filter(isNotWiped).length).toBe(0)
      const reader = connect()
      await open(reader, list)
      expect(openedWith.filter(isNotWiped).length).toBeGreaterThan(0) // those that opened something
      reader.close()
      expect([...openedWith, ...decoded].filter(isNotWiped).length).toBe(0)
    }
  })

  it('those too that arrive after another one could not be had', async () => {
    const rows = await connect().encryptMany(
      Array.from({ length: 20 }, (_, at) => ({ a: `${at}` })),
      { keyId, fields: ['a'], dek: 'record' },
    )
    service.intercept = ({ operation }, response) => {
      if (operation === 'batch') send(response, problem(404, 'Not Found', 'E_ROUTE_NOT_FOUND'))
      return operation === 'batch'
    }
    let requests = 0
    const apiKey = () => {
      if (++requests === 2) throw new Error('no API key')
      return API_KEY
    }
    openedWith.length = 0
    await expect(connect({ apiKey, deks: { cache: false } }).decryptMany(rows, { fields: ['a'] })).rejects.toThrow(
      'no API key',
    )
    // Six calls are made at once. The one that failed ends those that wait, and five were on their way.
    await expect.poll(() => openedWith).toHaveLength(5)
    await vi.waitFor(() => expectWiped(openedWith, 5), { timeout: 20_000 })
  })
})

it('copies of a DEK and of a value that are sealed without a service are wiped, and the DEK that it is opened with', async () => {
  const dek = new Uint8Array(SECRET_BYTES).fill(5)
  const value = new Uint8Array(SECRET_BYTES).fill(6)
  const envelope = await seal(value, { dek, wrapped: { wrapped_key: 'AAAA', key_id: keyId, key_version: 1 } })
  expectWiped(sealed.slice(-2), 2)
  expect(await open(envelope, dek)).toEqual(value)
  expectWiped(openedWith.slice(-1), 1)
  await expect(open({ ...envelope, iv: 'AAAAAAAAAAAAAAAA' }, dek)).rejects.toMatchObject({ code: 'E_DECRYPTION' })
  expectWiped(openedWith.slice(-1), 1)
})

describe('copies of what a call without a service was given are wiped, where it fails', () => {
  const filled = (byte: number) => new Uint8Array(SECRET_BYTES).fill(byte)
  const [dek, value, secret, zeroed, short] = [filled(5), filled(6), filled(7), filled(0), new Uint8Array(3).fill(5)]
  const wrapped = { wrapped_key: 'AAAA', key_id: '7c9e6679-7425-40de-944b-e07fc1f90ae7', key_version: 1 }
  const exported = { ...wrapped, tenant_id: wrapped.key_id, versions: [{ version: 1, dek_hex: '08'.repeat(32) }] }
  const secrets = [secret, short]
  const sealing = () => seal(value, { dek, wrapped })

  type Offline = typeof import('../../../packages/sdk/src/offline.js')
  it.each<[string, (offline: Offline) => Promise<unknown>]>([
    ['seals by format v1 with a secret', ({ seal }) => seal(value, { dek, wrapped, secret, envelope: 1 })],
    ['seals with a DEK that is too short', ({ seal }) => seal(value, { dek: short, wrapped, secret })],
    ['seals with a DEK that was zeroed', ({ seal }) => seal(value, { dek: zeroed, wrapped, secret })],
    ['seals with a secret that is too short', ({ seal }) => seal(value, { dek, wrapped, secret: short })],
    ['opens with a secret that is too short', async ({ open }) => open(await sealing(), dek, { secret: secrets })],
    ['opens with a DEK that is too short', async ({ open }) => open(await sealing(), short, { secret })],
    ['opens with a DEK that was zeroed', async ({ open }) => open(await sealing(), zeroed, { secret })],
    ['opens by an export', async ({ openExport }) => openExport(exported).decrypt(await sealing(), { secret })],
  ])('which %s', async (_, call) => {
    const made: Uint8Array[] = []
    const Noting = new Proxy(Uint8Array, {
      construct(type, given) {
        const bytes: Uint8Array = Reflect.construct(type, given)
        made.push(bytes)
        return bytes
      },
    })
    const source = new URL('../../../packages/sdk/src/offline.ts', import.meta.url)
    await expect(call(await loadOn<Offline>({ Uint8Array: Noting }, source))).rejects.toMatchObject({
      code: expect.stringMatching(/^E_(INVALID_INPUT|DECRYPTION)$/),
    })
    expect(made.length).toBeGreaterThan(0)
    const held = made.filter(
      ([first = 0, ...rest]) => [5, 6, 7].includes(first) && rest.every((byte) => byte === first),
    )
    expect(held.map(([first]) => first)).toEqual([])
  })
})

describe('an export', () => {
  it('wipes each DEK that it opened a value with, and its own secrets when it is closed', async () => {
    const dek = new Uint8Array(SECRET_BYTES).fill(5)
    const eaas = connect()
    const exported = await eaas.keys.export(keyId)
    // The fake of these tests wraps in a form of its own: a wrapped key of the published form is made under its KEK.
    const kek = Buffer.from(exported.versions[0]?.dek_hex ?? '', 'hex')
    const { wrapped_key, envelope } = await sealUnder(kek, dek, exported)
    const key = openExport(exported)
    expect(await key.decryptText(envelope)).toBe('sealed')
    expectWiped(opened, 1)
    const unwrapped = await key.unwrap(wrapped_key)
    expect(unwrapped).toEqual(dek) // the caller's to wipe
    expect(decoded).toHaveLength(2) // the KEK and the hash key
    expect(decoded.every((secret) => secret.some((byte) => byte !== 0))).toBe(true)
    key.close()
    expectWiped(decoded, 2)
  })
})

/** A body of one chunk, which the stream hands on as it is. */
function streamOf(chunk: Uint8Array): ReadableStream {
  return new ReadableStream({
    start(controller) {
      controller.enqueue(chunk)
      controller.close()
    },
  })
}

describe('the bytes of a message that holds a DEK are wiped once they are read', () => {
  const bytesOf = (value: unknown) => new TextEncoder().encode(JSON.stringify(value))
  const dek = Buffer.alloc(SECRET_BYTES, 7).toString('base64')

  it('of an answer to the client', async () => {
    const envelope = await connect().encrypt('x', { keyId })
    const answer = bytesOf({ dek, key_id: keyId, key_version: 1 })
    const headers = { 'content-type': 'application/json' }
    const fetch = async () => new Response(streamOf(answer), { headers })
    await expect(connect({ fetch }).decrypt(envelope)).rejects.toMatchObject({ code: 'E_DECRYPTION' })
    expect(answer).toEqual(new Uint8Array(answer.length))
  })

  it('of a request to a broker, and of the answer that it passes on', async () => {
    const answer = bytesOf({ dek, key_id: keyId, key_version: 1 })
    const broker = createBroker({
      baseUrl: service.url,
      apiKey: API_KEY,
      authenticate: () => ({ id: 'ada' }),
      allow: () => true,
      fetch: async () => new Response(streamOf(answer), { headers: { 'content-type': 'application/json' } }),
    })
    const asked = bytesOf({ wrapped_key: 'AAAA' })
    const request = new Request(`https://app.test/api/eaas/v1/keys/${keyId}/unwrap`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin' },
      body: streamOf(asked),
      duplex: 'half',
    } as RequestInit)
    const response = await broker(request)
    expect(await response.json()).toMatchObject({ dek })
    expect(answer).toEqual(new Uint8Array(answer.length))
    expect(asked).toEqual(new Uint8Array(asked.length))
  })
})

async function sealUnder(
  kek: Uint8Array,
  dek: Uint8Array,
  { tenant_id, key_id }: { tenant_id: string; key_id: string },
) {
  const iv = new Uint8Array(12).fill(1)
  const sealed = nobleAead.seal(kek, iv, dek, wrappedKeyAad(tenant_id, key_id, 1))
  const wrapped_key = writeWrappedKey({ version: 1, iv, sealed })
  const envelope = await seal('sealed', { dek, wrapped: { wrapped_key, key_id, key_version: 1 } })
  return { wrapped_key, envelope }
}
