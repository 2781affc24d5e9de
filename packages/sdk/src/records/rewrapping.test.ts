// A service that is honest but when it rewraps. `deks.verify` must notice on every way to rewrap, before
// anything replaces a wrapped key.
import { decodeBase64, type Envelope, encodeBase64, isBoundWrappedKey } from '@eaas/protocol'
import { afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type Client, type ClientOptions, createClient, text } from '../index.js'
import { decryptStream, encryptStream, rewrapFirstLine, rewrapStream } from '../streams.js'
import { chunked, collect } from '../test-support/stream-bytes.js'
import { createTestService } from '../testing.js'

interface Operation {
  op?: string
  wrapped_key?: string
}

const service = createTestService()
const owner = createClient(service)
const context = { table: 'users', row: '7' }
const clients: Client[] = []
let keyId: string
let otherWrapped: string
let otherBound: string
let before: Stored

/** What a service that is broken answers in place of the new wrapped key. */
const LIES: Record<string, (wrapped_key: string) => string> = {
  'that opens nothing': (wrapped_key) =>
    encodeBase64(decodeBase64(wrapped_key).map((byte, at) => (at < 20 ? byte : byte ^ 90))),
  'of another DEK': (wrapped_key) => (isBoundWrappedKey(wrapped_key) ? otherBound : otherWrapped),
  'that is no wrapped key': () => 'AAAA',
}

/** A client whose service lies when it rewraps, or about each DEK, and counts what it was asked. */
function connect(options: Partial<ClientOptions>, lie?: (wrapped_key: string) => string, dek?: string) {
  const asked: string[] = []
  const lying: typeof fetch = async (input, init) => {
    const request = new Request(input, init)
    const sent = (await request
      .clone()
      .json()
      .catch(() => ({}))) as { operations?: Operation[] }
    const answer = await service.fetch(request)
    const body = (await answer.clone().json()) as {
      wrapped_key?: string
      results?: { body: { wrapped_key?: string } }[]
    }
    const ops = sent.operations?.map(({ op = '' }) => op) ?? [new URL(request.url).pathname.split('/').at(-1) ?? '']
    asked.push(...ops)
    for (const [at, op] of ops.entries()) {
      const one = body.results ? body.results[at]?.body : body
      if (op === 'rewrap' && one?.wrapped_key && lie) one.wrapped_key = lie(one.wrapped_key)
    }
    if (dek && ops[0] === 'unwrap') return Response.json({ dek, key_id: keyId, key_version: 2 })
    return Response.json(body, { status: answer.status })
  }
  const eaas = createClient({ ...service, fetch: lying, ...options })
  clients.push(eaas)
  return { eaas, asked }
}

const modelOf = (eaas: Client, format: 'full' | 'compact' | 'text') =>
  eaas.model({ name: 'users', keyId, bind: ['id'], format, fields: { a: text(), b: text() } })
const v1Of = (eaas: Client) => eaas.model({ name: 'users', keyId, envelope: 1, fields: { a: text() } })

async function store() {
  const row = { id: 7, a: 'x', b: 'y' }
  return {
    v1: await owner.encrypt('x', { keyId, envelope: 1 }),
    v2: await owner.encrypt('x', { keyId, context }),
    full: await modelOf(owner, 'full').encrypt(row),
    compact: await modelOf(owner, 'compact').encrypt(row),
    text: await modelOf(owner, 'text').encrypt(row),
    row1: await v1Of(owner).encrypt({ a: 'x' }),
    stream: await collect(chunked(new Uint8Array(100)).pipeThrough(encryptStream(owner, { keyId, context }))),
  }
}
type Stored = Awaited<ReturnType<typeof store>>

async function rewrapRow<R extends object>(
  model: { rewrap(rows: R[]): AsyncIterable<{ items: ({ status: string; row?: R; error?: Error } | object)[] }> },
  row: R,
) {
  for await (const { items } of model.rewrap([row])) {
    const [item] = items as { error?: Error; row: R }[]
    if (item?.error) throw item.error
    return item?.row as R
  }
  return expect.unreachable()
}

/** Each way to rewrap, and what shows that the result opens. */
const WAYS: [string, (eaas: Client) => Promise<unknown>, (result: never, fresh: Client) => unknown][] = [
  ['an envelope of format v1', (eaas) => eaas.rewrap(before.v1), (one, fresh) => fresh.decryptText(one)],
  ['an envelope of format v2', (eaas) => eaas.rewrap(before.v2), (one, fresh) => fresh.decryptText(one, { context })],
  [
    'a row',
    (eaas) => rewrapRow(modelOf(eaas, 'full'), before.full),
    (one, fresh) => modelOf(fresh, 'full').decrypt(one),
  ],
  [
    'a compact row',
    (eaas) => rewrapRow(modelOf(eaas, 'compact'), before.compact),
    (one, fresh) => modelOf(fresh, 'compact').decrypt(one),
  ],
  [
    'a row of texts',
    (eaas) => rewrapRow(modelOf(eaas, 'text'), before.text),
    (one, fresh) => modelOf(fresh, 'text').decrypt(one),
  ],
  ['a row of format v1', (eaas) => rewrapRow(v1Of(eaas), before.row1), (one, fresh) => v1Of(fresh).decrypt(one)],
  [
    'a stream',
    (eaas) => collect(chunked(before.stream).pipeThrough(rewrapStream(eaas))),
    (one, fresh) => collect(chunked(one).pipeThrough(decryptStream(fresh, { context }))),
  ],
  [
    'the first line of a stream',
    (eaas) => rewrapFirstLine(eaas, new Blob([before.stream.slice()])),
    ({ line }: { line: Uint8Array }, fresh) =>
      collect(
        chunked(new Uint8Array([...line, ...before.stream.subarray(line.length)])).pipeThrough(
          decryptStream(fresh, { context }),
        ),
      ),
  ],
]

beforeAll(async () => {
  keyId = (await owner.keys.create({ name: 'users' })).id
  before = await store()
  await owner.keys.rotate(keyId)
  const { wrapped_key } = await owner.encrypt('other', { keyId, dek: 'call' })
  otherWrapped = wrapped_key
  const { a } = await modelOf(connect({}).eaas, 'full').encrypt({ id: 8, a: 'x', b: 'y' })
  otherBound = (a as Envelope).wrapped_key
})

afterEach(() => {
  for (const eaas of clients.splice(0)) eaas.close()
})

describe.each(WAYS)('rewrapping %s', (_, run, open) => {
  it.each(Object.entries(LIES))('keeps the old one with `verify` when the new one is one %s', async (_, lie) => {
    const { eaas } = connect({ deks: { verify: true } }, lie)
    await expect(run(eaas)).rejects.toMatchObject({ code: 'E_PROTOCOL' })
  })

  it('keeps the old one with `verify` when the service unwraps all keys to one DEK', async () => {
    const { eaas } = connect(
      { deks: { verify: true } },
      LIES['that opens nothing'],
      encodeBase64(new Uint8Array(32).fill(1)),
    )
    await expect(run(eaas)).rejects.toMatchObject({ code: 'E_DECRYPTION' })
  })

  it('costs an unwrap of an honest service with `verify`, and the result opens', async () => {
    const { eaas, asked } = connect({ deks: { verify: true } })
    const result = await run(eaas)
    expect(asked.filter((op) => op !== 'rewrap' && op !== keyId)).toEqual(['unwrap'])
    await open(result as never, connect({}).eaas)
  })

  it('believes the service without `verify`, as documented, and gets no DEK', async () => {
    const { eaas, asked } = connect({}, LIES['that opens nothing'])
    await run(eaas)
    expect(asked).not.toContain('unwrap')
  })
})

it.each(['node', 'web', 'noble'] as const)(
  'an altered commitment fails its own row alone, and not as a fault of the service, by engine %s',
  async (engine) => {
    const { eaas } = connect({ engine, deks: { verify: true } })
    const model = modelOf(eaas, 'full')
    const forged = { ...before.full, a: { ...Object(before.full.a), commitment: encodeBase64(new Uint8Array(32)) } }
    const codes: string[] = []
    for await (const { items } of model.rewrap([forged, before.full, forged])) {
      for (const item of items) codes.push(item.status === 'failed' ? item.error.code : item.status)
    }
    expect(codes).toEqual(['E_DECRYPTION', 'changed', 'E_DECRYPTION'])
  },
)

it('a wrapped key that opens without its use is refused, also without `verify`', async () => {
  const { eaas } = connect({}, () => otherWrapped)
  await expect(rewrapRow(modelOf(eaas, 'full'), before.full)).rejects.toMatchObject({
    code: 'E_PROTOCOL',
    message: expect.stringContaining('without the use'),
  })
})
