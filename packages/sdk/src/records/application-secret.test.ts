// A client with a secret of the application (application-secret.md): what it seals opens with the secret alone.
import { decodeHex, encodeBase64, encodeHex } from '@eaas/protocol'
import { describe, expect, it } from 'vitest'
import vectors from '../../../protocol/src/application-secret.vectors.json' with { type: 'json' }
import { type Client, type ClientOptions, type Envelope, type EnvelopeV2, text, toText } from '../index.js'
import { open, openExport, seal } from '../offline.js'
import { decryptStream, encryptStream, openRange, rewrapStream } from '../streams.js'
import { decryptTextSync, encryptSync, warm } from '../sync.js'
import { clientsOf, failure, useService } from '../test-support/clients.js'
import { itemsOf } from '../test-support/items-of.js'
import { createTestService } from '../testing.js'

const service = useService()
const connect = clientsOf(service)
const SECRET = new Uint8Array(32).fill(7)
const OTHER = new Uint8Array(32).fill(8)
const PLAIN = 'the secret IBAN'
const context = { table: 'users', row: '7' }

type Vector = Omit<(typeof vectors.open)[number], 'plaintext'>

/** A client whose service unwraps everything to the DEK of a vector. */
function clientFor({ dek, secrets, accept_without, envelope }: Vector, engine: NonNullable<ClientOptions['engine']>) {
  const { key_id, key_version } = envelope
  const fetch = async () => Response.json({ dek: encodeBase64(decodeHex(dek)), key_id, key_version })
  const some = secrets.length > 0 ? { secret: secrets.map(decodeHex), acceptWithoutSecret: accept_without } : {}
  return connect({ baseUrl: 'https://eaas.test', engine, fetch, ...some })
}

describe.each(['node', 'web', 'noble'] as const)('by engine %s', (engine) => {
  it.each(vectors.open)('opens the published vector: $name', async ({ plaintext, ...vector }) => {
    const { envelope, context } = vector
    const opened = await clientFor(vector, engine).decrypt(envelope as Envelope, { context: context as never })
    expect(encodeHex(opened)).toBe(plaintext)
  })

  it('opens none of the published vectors that must not open', async () => {
    const codes = await Promise.all(
      vectors.refuse.map(async ({ name, error: _, ...vector }) => {
        const { envelope, context } = vector
        const call = clientFor(vector as never, engine).decrypt(envelope as never, { context: context as never })
        return [name, (await failure(call)).code]
      }),
    )
    const expected = vectors.refuse.map(({ name, error }) => [
      name,
      error === 'format' ? 'E_INVALID_INPUT' : 'E_DECRYPTION',
    ])
    expect(codes).toEqual(expected)
  })

  it('seals and opens every way, and in none without the secret', async () => {
    const testing = createTestService()
    const owner = connect({ ...testing, engine, secret: SECRET })
    const { id: keyId } = await owner.keys.create({ name: 'users' })
    const made = await sealAll(owner, keyId, engine)
    const readers: [Client, boolean][] = [
      [owner, true],
      [connect({ ...testing, engine, secret: [OTHER, SECRET] }), true],
      [connect({ ...testing, engine, secret: SECRET, acceptWithoutSecret: true }), true],
      [connect({ ...testing, engine }), false],
      [connect({ ...testing, engine, secret: OTHER }), false],
    ]
    const { a_index } = await modelOf(owner, keyId).encrypt({ a: PLAIN })
    const finders = [SECRET, [SECRET, OTHER], [OTHER, SECRET], OTHER, undefined].map(async (secret) => {
      const finder = connect({ ...testing, engine, ...(secret && { secret }) })
      return (await modelOf(finder, keyId).index({ a: PLAIN })).a_index === a_index
    })
    expect(await Promise.all(finders)).toEqual([true, true, false, false, false])
    for (const [reader, opens] of readers) {
      for (const [name, read] of Object.entries(made)) {
        const outcome = await Promise.resolve()
          .then(() => read(reader))
          .catch(({ code }) => code)
        expect([name, outcome]).toEqual([name, opens ? PLAIN : 'E_DECRYPTION'])
      }
    }
  })
})

const modelOf = (eaas: Client, keyId: string) =>
  eaas.model({ name: 'found', keyId, bind: false, fields: { a: text({ index: 'a_index' }) } })

/** Seals a value every way that there is; returns how each is read again. */
async function sealAll(
  eaas: Client,
  keyId: string,
  engine: string,
): Promise<Record<string, (reader: Client) => unknown>> {
  const one = await eaas.encrypt(PLAIN, { keyId, context })
  const own = await eaas.encrypt(PLAIN, { keyId, context, dek: 'call' })
  const many = await eaas.encryptMany([{ a: PLAIN }], { keyId, fields: ['a'] })
  const modelOf = <F extends 'full' | 'compact' | 'text'>(client: Client, format: F) =>
    client.model({ name: 'users', keyId, bind: ['id'], format, fields: { a: text({ index: 'a_index' }) } })
  const row = { id: 7, a: PLAIN }
  const [full, compact, asText] = [
    await modelOf(eaas, 'full').encrypt(row),
    await modelOf(eaas, 'compact').encrypt(row),
    await modelOf(eaas, 'text').encrypt(row),
  ]
  const stream = await new Response(new Blob([PLAIN]).stream().pipeThrough(encryptStream(eaas, { keyId }))).blob()
  const rewrapped = await new Response(stream.stream().pipeThrough(rewrapStream(eaas))).blob()
  expect(JSON.stringify([full, compact, one])).toContain('"application_secret":true')
  expect([asText.a, toText(one)].map((made) => made.slice(0, 8))).toEqual(['eaas.2s.', 'eaas.2s.'])
  const ways: Record<string, (reader: Client) => unknown> = {
    decrypt: (reader) => reader.decryptText(one, { context }),
    'its text': (reader) => reader.decryptText(toText(one), { context }),
    'a DEK of its own': (reader) => reader.decryptText(own, { context }),
    many: async (reader) => (await reader.decryptMany(many, { fields: ['a'] }))[0]?.a,
    'a model': async (reader) => (await modelOf(reader, 'full').decrypt(full)).a,
    'a compact model': async (reader) => (await modelOf(reader, 'full').decrypt(compact)).a,
    'a model of texts': async (reader) => (await modelOf(reader, 'text').decrypt(asText)).a,
    'a stream': (reader) => new Response(stream.stream().pipeThrough(decryptStream(reader))).text(),
    'a rewrapped stream': (reader) => new Response(rewrapped.stream().pipeThrough(decryptStream(reader))).text(),
    'a range': (reader) => new Response(openRange(reader, stream)).text(),
  }
  if (engine === 'web') return ways
  await warm(eaas, keyId)
  const sync = encryptSync(eaas, PLAIN, { keyId })
  return {
    ...ways,
    async sync(reader) {
      await reader.decrypt(sync)
      return decryptTextSync(reader, sync)
    },
  }
}

describe('an attacker who has the service, what goes over the network, and the database, but no secret', () => {
  it('opens nothing, and finds no value by its index', async () => {
    const testing = createTestService()
    const seen: string[] = [] // by a proxy that ends TLS
    const fetch: typeof testing.fetch = async (url, init) => {
      const answer = await testing.fetch(url, init)
      seen.push(String(init?.body), await answer.clone().text())
      return answer
    }
    const eaas = connect({ ...testing, fetch, secret: SECRET })
    const { id: keyId } = await eaas.keys.create({ name: 'users' })
    const define = (client: Client) =>
      client.model({ name: 'users', keyId, bind: ['id'], fields: { iban: text({ index: 'iban_index' }) } })
    const users = define(eaas)
    const row = await users.encrypt({ id: 7, iban: PLAIN })
    const value = await eaas.encrypt(PLAIN, { keyId, context })
    const stream = await new Response(new Blob([PLAIN]).stream().pipeThrough(encryptStream(eaas, { keyId }))).blob()
    expect((await users.index({ iban: PLAIN })).iban_index).toBe(row.iban_index)
    expect(seen.join()).not.toContain(PLAIN)
    expect(seen.join()).not.toContain(encodeBase64(new TextEncoder().encode(PLAIN)))

    // The whole key, as the service holds it, and a service of the attacker's own that unwraps all.
    const key = openExport(await eaas.keys.export(keyId))
    const attacker = connect(testing)
    const bound = { context: { model: 'users', field: 'iban', 'row.id': '7' } }
    const { application_secret: _, ...unflagged } = row.iban as EnvelopeV2
    const attempts: (() => unknown)[] = [
      () => key.decrypt(row.iban, bound),
      () => key.decrypt(unflagged as Envelope, bound),
      () => key.decrypt(value, { context }),
      async () => open(row.iban, await key.unwrap(row.iban.wrapped_key), bound),
      async () => open(unflagged as Envelope, await key.unwrap(row.iban.wrapped_key), bound),
      async () => open(row.iban, await key.unwrap(row.iban.wrapped_key), { ...bound, secret: OTHER }),
      async () => open({ ...unflagged, envelope_version: 1 } as never, await key.unwrap(row.iban.wrapped_key)),
      () => attacker.decrypt(value, { context }),
      () => new Response(stream.stream().pipeThrough(decryptStream(attacker))).text(),
      () => attacker.model({ name: 'users', keyId, bind: ['id'], fields: { iban: text() } }).decrypt(row),
    ]
    for (const [number, attempt] of attempts.entries()) {
      expect([number, (await failure((async () => attempt())())).code]).toEqual([number, 'E_DECRYPTION'])
    }
    expect((await define(attacker).index({ iban: PLAIN })).iban_index).not.toBe(row.iban_index)
    // With the secret, the same export opens it: what the attacker lacks is nothing else.
    expect(await key.decryptText(row.iban, { ...bound, secret: SECRET })).toBe(PLAIN)
  })
})

describe('a client with a secret', () => {
  it('sends no value to be hashed, writes no format v1, and declares no model that would', async () => {
    const keyId = service.createKey()
    const eaas = connect({ secret: SECRET })
    const indexed = { a: text({ index: 'a_index' }) }
    const shared = { a: text({ index: 'a_index', shared: true }) }
    for (const call of [
      () => eaas.hash(PLAIN, { keyId }),
      () => eaas.encryptMany([{ a: PLAIN }], { keyId, fields: ['a'], index: { a: 'a_index' } }),
      async () => eaas.model({ name: 'users', keyId, bind: false, index: { by: 'service' }, fields: indexed }),
      async () => eaas.model({ name: 'users', keyId, bind: false, fields: shared }),
      async () => eaas.model({ keyId, envelope: 1, fields: { a: text() } }),
      () => eaas.encrypt(PLAIN, { keyId, envelope: 1 }),
      () => eaas.encrypt(PLAIN, { keyId, envelope: 1, dek: 'call' }),
      () => eaas.encryptMany([{ a: PLAIN }], { keyId, fields: ['a'], envelope: 1, dek: 'record' }),
      () =>
        seal(PLAIN, {
          dek: OTHER,
          wrapped: { wrapped_key: 'AAAA', key_id: keyId, key_version: 1 },
          envelope: 1,
          secret: SECRET,
        }),
    ]) {
      expect((await failure(call())).code).toBe('E_INVALID_INPUT')
    }
    expect(service.requests).toEqual([])
    await warm(eaas, keyId)
    expect(() => encryptSync(eaas, PLAIN, { keyId, envelope: 1 })).toThrow('secret needs envelope 2')
  })

  it('does not open what was sealed without one, unless it accepts that, and reseals it with it', async () => {
    const testing = createTestService()
    const before = connect(testing)
    const { id: keyId } = await before.keys.create({ name: 'users' })
    const usersOf = (eaas: Client) => eaas.model({ name: 'users', keyId, bind: ['id'], fields: { a: text() } })
    const row = await usersOf(before).encrypt({ id: 7, a: PLAIN })
    const v1 = await before.encrypt(PLAIN, { keyId, envelope: 1 })
    const strict = connect({ ...testing, secret: SECRET })
    for (const call of [() => usersOf(strict).decrypt(row), () => strict.decrypt(v1)]) {
      expect(await failure(call())).toMatchObject({
        code: 'E_DECRYPTION',
        hint: expect.stringContaining('acceptWithoutSecret'),
      })
    }
    const migrating = connect({ ...testing, secret: SECRET, acceptWithoutSecret: true })
    expect(await migrating.decryptText(v1)).toBe(PLAIN)
    const [item] = await itemsOf(usersOf(migrating).reseal([row]))
    if (item?.status !== 'changed') throw new Error('not resealed')
    expect((await usersOf(strict).decrypt(item.row)).a).toBe(PLAIN)
  })

  it.each([{}, { verify: true }])('rewraps what it sealed, and so does a client without it: %j', async (deks) => {
    const testing = createTestService()
    const owner = connect({ ...testing, secret: [SECRET, OTHER], deks })
    const { id: keyId } = await owner.keys.create({ name: 'users' })
    const sealed = await owner.encrypt(PLAIN, { keyId })
    await owner.keys.rotate(keyId)
    for (const eaas of [owner, connect({ ...testing, deks })]) {
      const fresh = await eaas.rewrap(sealed)
      expect(fresh).toMatchObject({ key_version: 2, application_secret: true })
      expect(await owner.decryptText(fresh)).toBe(PLAIN)
    }
  })

  it.each([
    undefined,
    null,
    [],
    'x'.repeat(32),
    new Uint8Array(31),
    new Uint8Array(33),
    new Uint8Array(32),
    [SECRET, 1],
  ])('is not made with what is no secret: %j', (secret) => {
    expect(() => connect({ secret: secret as never })).toThrow(expect.objectContaining({ code: 'E_INVALID_INPUT' }))
  })

  it('keeps a copy of the secret, which the caller may zero', async () => {
    const keyId = service.createKey()
    const given = SECRET.slice()
    const eaas = connect({ secret: given })
    given.fill(0)
    const sealed = await eaas.encrypt(PLAIN, { keyId })
    expect(await connect({ secret: SECRET }).decryptText(sealed)).toBe(PLAIN)
  })
})
