// What the SDK must do in every runtime: plain JavaScript, without a test framework, on the package as it is published.
import { createClient, isEaasError, json, text } from '@eaas/sdk'
import { createBroker } from '@eaas/sdk/broker'
import { createDek, open, openExport, openText, seal } from '@eaas/sdk/offline'
import { createTestService } from '@eaas/sdk/testing'

const ENGINES = ['noble', 'node', 'web']
/** In bytes: around a block of AES, around what a runtime draws at random at once, and what takes longer. */
const SIZES = [0, 1, 15, 16, 17, 1_000, 65_536, 65_537, 1_048_576]
const UNICODE = ['', 'é', 'e\u0301', '🗝️', '\u0000', '\u2028', '\ufeff', '日本語', 'x'.repeat(10_000)]
const WRAPPED = { wrapped_key: 'AAAA', key_id: '0b54f9a4-6f0e-4c1c-9d2a-5e7a1c3b8f60', key_version: 1 }

/**
 * Runs all checks, whatever becomes of each.
 *
 * @param vectors the published vectors of envelope format v1
 * @param redirecting where a server answers everything with a redirect to `/followed`, for the runtime's own fetch
 * @param without the names of checks that this runtime does not allow
 * @returns the engines that are there, the one that `auto` takes, how many checks passed, and what failed
 */
export async function runSuite(vectors, redirecting, without = []) {
  const engines = []
  for (const engine of ENGINES) if (await works(engine)) engines.push(engine)
  const all = [
    ...engines.flatMap((engine) => engineChecks(engine, engines, vectors)),
    ...serviceChecks(redirecting),
    ...offlineChecks(),
  ]
  const checks = all.filter(([name]) => !without.includes(name))
  demand(checks.length === all.length - without.length, 'there is no such check to leave out')
  const failed = []
  for (const [name, check] of checks) {
    try {
      await check()
    } catch (error) {
      failed.push(`${name}: ${error?.stack ?? error}`)
    }
  }
  return { engines, passed: checks.length - failed.length, failed }
}

async function works(engine) {
  try {
    const { eaas, keyId } = await connect({ engine })
    await eaas.encrypt('x', { keyId })
    return true
  } catch (error) {
    demand(isEaasError(error) && error.code === 'E_INVALID_INPUT', `engine ${engine}: ${error}`)
    return false // it is not here, and says so
  }
}

function engineChecks(engine, engines, vectors) {
  const checks = [
    ...vectors.seal.map((vector) => [`opens the published ciphertext: ${vector.name}`, () => opens(engine, vector)]),
    ...vectors.refuse.map((vector) => [`refuses: ${vector.name}`, () => refuses(engine, vectors, vector)]),
    ...SIZES.map((size) => [`${size} bytes come back`, () => comesBack(engine, randomBytes(size))]),
    ['text of any kind comes back', () => textComesBack(engine)],
    ['an altered bit is noticed, wherever it is', () => noticesAlterations(engine)],
    ...engines.map((other) => [`${other} opens what it sealed`, () => crosses(engine, other)]),
    ...engines.map((other) => [`${other} opens what it bound to a context`, () => binds(engine, other)]),
    ['a thousand ivs are a thousand', () => drawsIvs(engine)],
  ]
  return checks.map(([name, check]) => [`${engine}: ${name}`, check])
}

async function opens(engine, { key, iv, text: plain, plaintext, repeat, ...expected }) {
  const bytes = plain === undefined ? (repeat ? repeated(repeat) : fromHex(plaintext)) : new TextEncoder().encode(plain)
  // WebCrypto seals what the vectors have only the digest of.
  const sealed = expected.ciphertext
    ? fromBase64(expected.ciphertext)
    : await sealElsewhere(fromHex(key), fromHex(iv), bytes)
  if (expected.ciphertext_sha256) equal(toHex(await sha256(sealed)), expected.ciphertext_sha256)
  const envelope = { ...WRAPPED, envelope_version: 1, iv: toBase64(fromHex(iv)), ciphertext: toBase64(sealed) }
  equalBytes(await clientOf(engine, fromHex(key)).decrypt(envelope), bytes)
}

async function refuses(engine, { key }, { envelope, error }) {
  // The SDK also reads JSON as text: the format, whose vector is JSON, knows objects only.
  const given = typeof envelope === 'string' ? envelope.slice(0, -1) : envelope
  const code = await codeOf(clientOf(engine, fromHex(key)).decrypt(given))
  equal(code, error === 'format' ? 'E_INVALID_INPUT' : 'E_DECRYPTION')
}

async function comesBack(engine, bytes) {
  const { eaas, reader, keyId } = await connect({ engine })
  const before = bytes.slice()
  const envelope = await eaas.encrypt(bytes, { keyId })
  equalBytes(bytes, before)
  equal(fromBase64(envelope.ciphertext).length, bytes.length + 16)
  equalBytes(await reader.decrypt(JSON.parse(JSON.stringify(envelope))), bytes)
}

async function textComesBack(engine) {
  const { eaas, reader, keyId } = await connect({ engine })
  for (const value of UNICODE) equal(await reader.decryptText(await eaas.encrypt(value, { keyId })), value)
  const value = { list: UNICODE, nested: { number: 1.5, none: null, yes: true } }
  equal(await reader.decryptJson(await eaas.encryptJson(value, { keyId })), value)
  equal(await codeOf(eaas.encrypt('\ud800', { keyId })), 'E_INVALID_INPUT')
  equal(await codeOf(reader.decryptText(await eaas.encrypt(Uint8Array.of(255), { keyId }))), 'E_CONTENT')
}

async function noticesAlterations(engine) {
  const { eaas, reader, keyId } = await connect({ engine })
  const envelope = await eaas.encrypt('a secret', { keyId })
  for (const field of ['ciphertext', 'iv']) {
    const bytes = fromBase64(envelope[field])
    for (let at = 0; at < bytes.length; at++) {
      const altered = bytes.slice()
      altered[at] ^= 1
      equal(await codeOf(reader.decrypt({ ...envelope, [field]: toBase64(altered) })), 'E_DECRYPTION')
    }
  }
}

async function binds(engine, other) {
  const { eaas, service, keyId } = await connect({ engine })
  const reader = createClient({ ...service, engine: other })
  const context = { table: 'users', 'colonne é': '', row: '7' }
  const envelope = await eaas.encrypt('Ž🔐', { keyId, context })
  equal(envelope.envelope_version, 2)
  equal(await reader.decryptText(envelope, { context }), 'Ž🔐')
  equal(await codeOf(reader.decrypt(envelope, { context: { ...context, row: '8' } })), 'E_DECRYPTION')
  equal(await codeOf(reader.decrypt(envelope)), 'E_DECRYPTION')
}

async function crosses(engine, other) {
  const { eaas, keyId, service } = await connect({ engine })
  const reader = createClient({ ...service, engine: other })
  equal(await reader.decryptText(await eaas.encrypt('crossing', { keyId })), 'crossing')
}

async function drawsIvs(engine) {
  const { eaas, keyId } = await connect({ engine })
  const rows = Array.from({ length: 1_000 }, () => ({ value: 'the same' }))
  const sealed = await eaas.encryptMany(rows, { keyId, fields: ['value'] })
  equal(new Set(sealed.map(({ value }) => value.iv)).size, 1_000)
  equal(new Set(sealed.map(({ value }) => value.wrapped_key)).size, 1)
}

function serviceChecks(redirecting) {
  return [
    [
      'a model seals, finds and opens rows, and one bad row loses no other',
      async () => {
        const { eaas, reader, keyId } = await connect()
        const fields = { email: text({ index: 'email_index', normalize: ['trim', 'lowercase'] }), prefs: json() }
        const people = [1, 2, 3].map((id) => ({ id, email: `User${id}@example.org`, prefs: { id } }))
        const rows = await eaas.model({ name: 'users', keyId, bind: false, fields }).encryptMany(people)
        const users = reader.model({ name: 'users', keyId, bind: false, fields })
        const { email_index } = await users.index({ email: ' user2@EXAMPLE.org' })
        equal(
          rows.findIndex((row) => row.email_index === email_index),
          1,
        )
        equal((await users.decryptMany(rows)).ok, people)
        const [first, second, third] = rows
        const altered = { ...second, prefs: { ...second.prefs, iv: third.prefs.iv } }
        const { ok, failed } = await users.decryptMany([first, altered, third])
        equal(
          failed.map(({ index, error }) => [index, error.code]),
          [[1, 'E_DECRYPTION']],
        )
        equal(ok, [people[0], people[2]])
      },
    ],
    [
      'many calls of one turn are one request',
      async () => {
        const { eaas, reader, keyId, asked } = await connect()
        const sealed = await Promise.all(
          Array.from({ length: 64 }, (_, at) => eaas.encrypt(`${at}`, { keyId, dek: 'call' })),
        )
        asked.length = 0
        const opened = await Promise.all(sealed.map((envelope) => reader.decryptText(envelope)))
        equal(
          opened,
          sealed.map((_, at) => `${at}`),
        )
        equal(asked, ['/v1/batch'])
      },
    ],
    [
      'what was sealed before a rotation opens after it, and is rewrapped',
      async () => {
        const { eaas, reader, keyId } = await connect()
        const old = await eaas.encrypt('old', { keyId })
        await eaas.keys.rotate(keyId)
        const fresh = await reader.rewrap(old)
        equal([fresh.key_version, fresh.ciphertext], [2, old.ciphertext])
        equal(await reader.decryptText(fresh), 'old')
      },
    ],
    [
      'server mode and the SDK open each other’s',
      async () => {
        const { eaas, keyId } = await connect()
        equal(await eaas.decryptText(await eaas.server.encrypt('theirs', { keyId })), 'theirs')
        equal(await eaas.server.decryptText(await eaas.encrypt('ours', { keyId, envelope: 1 })), 'ours')
      },
    ],
    [
      'errors are typed, and network failures are tried again',
      async () => {
        const { eaas, service } = await connect()
        equal(await codeOf(eaas.keys.create({ name: 'users' })), 'E_API')
        equal(await codeOf(eaas.encrypt('x', { keyId: 'users' })), 'E_INVALID_INPUT')
        service.failNext({ network: true })
        equal((await eaas.keys.list()).count, 1)
        service.failNext({ network: true, times: 3 })
        equal(await codeOf(eaas.keys.list()), 'E_NETWORK')
        service.failNext({ timeout: true })
        equal(await codeOf(createClient({ ...service, timeoutMs: 50 }).keys.list()), 'E_TIMEOUT')
        equal(await codeOf(eaas.keys.list({ signal: AbortSignal.abort() })), 'E_ABORTED')
        eaas.close()
        equal(await codeOf(eaas.keys.list()), 'E_ABORTED')
      },
    ],
    [
      'a redirect is not followed',
      async () => {
        const eaas = createClient({ baseUrl: redirecting, apiKey: 'x', retries: 0 })
        // A runtime that refuses it by itself may do so without saying why.
        demand(/^E_(PROTOCOL|NETWORK)$/.test(await codeOf(eaas.keys.list())), 'it was')
        demand(/^E_(PROTOCOL|NETWORK)$/.test(await codeOf(eaas.hash('x', { keyId: WRAPPED.key_id }))), 'it was')
        const fetch = async () => new Response(null, { status: 307, headers: { location: '/followed' } })
        equal(await codeOf(createClient({ baseUrl: redirecting, apiKey: 'x', fetch }).keys.list()), 'E_PROTOCOL')
      },
    ],
    [
      'a client shows no API key',
      async () => {
        const { eaas, service } = await connect()
        demand(!JSON.stringify(eaas).includes(service.apiKey), 'it is in its JSON')
        demand(!String(eaas).includes(service.apiKey), 'it is in its text')
      },
    ],
    [
      'a broker stands between a page and the service',
      async () => {
        const { service, keyId } = await connect()
        const broker = createBroker({
          baseUrl: service.baseUrl,
          apiKey: service.apiKey,
          fetch: service.fetch,
          authenticate: () => ({ id: 'ada' }),
          allow: (_, { operation }) => operation !== 'unwrap',
        })
        const headers = { 'sec-fetch-site': 'same-origin', 'content-type': 'application/json' }
        const ask = (operation, body) =>
          broker(
            new Request(`https://app.test/api/eaas/v1/keys/${keyId}/${operation}`, {
              method: 'POST',
              headers,
              body: JSON.stringify(body),
            }),
          )
        const wrapped = await ask('wrap', { dek: toBase64(createDek()) })
        equal(wrapped.status, 200)
        equal((await ask('unwrap', await wrapped.json())).status, 403)
        equal(service.entries().at(-1).metadata, { on_behalf_of: 'ada', key_version: 1 })
      },
    ],
  ]
}

function offlineChecks() {
  return [
    [
      'a DEK at hand seals and opens, and no other one does',
      async () => {
        const dek = createDek()
        const envelope = await seal('offline', { dek, wrapped: WRAPPED })
        equal(await openText(envelope, dek), 'offline')
        equal(await codeOf(open(envelope, createDek())), 'E_DECRYPTION')
      },
    ],
    [
      'an export opens all that the key ever protected',
      async () => {
        const { eaas, keyId } = await connect()
        const old = await eaas.encrypt('old', { keyId })
        await eaas.keys.rotate(keyId)
        const secrets = await eaas.keys.export(keyId)
        const exported = openExport(JSON.stringify(secrets))
        equal(await exported.decryptText(old), 'old')
        equal(await exported.hash('ada'), await hashElsewhere(secrets.hash_key_hex, 'ada'))
        equal(await eaas.hash('ada', { keyId }), await exported.hash('ada'))
        const other = { ...old, wrapped_key: (await eaas.encrypt('x', { keyId: await another(eaas) })).wrapped_key }
        equal(await codeOf(exported.decrypt(other)), 'E_DECRYPTION')
      },
    ],
  ]
}

/** A service with one key, a client that writes and one that reads; `asked` are the paths of the reader's requests. */
async function connect(options = {}) {
  const service = createTestService({ envelopeOnly: false })
  const asked = []
  const watching = (input, init) => {
    const request = new Request(input, init)
    asked.push(new URL(request.url).pathname)
    return service.fetch(request)
  }
  const eaas = createClient({ ...service, ...options })
  const reader = createClient({ ...service, ...options, fetch: watching })
  const { id: keyId } = await eaas.keys.create({ name: 'users' })
  return { service, eaas, reader, keyId, asked }
}

async function another(eaas) {
  return (await eaas.keys.create({ name: 'another' })).id
}

/** A client of a service that unwraps everything to this DEK. */
function clientOf(engine, dek) {
  const fetch = async () => Response.json({ dek: toBase64(dek), key_id: WRAPPED.key_id, key_version: 1 })
  return createClient({ baseUrl: 'https://eaas.test', apiKey: 'x', engine, fetch })
}

async function codeOf(call) {
  try {
    await call
    return 'none'
  } catch (error) {
    if (!isEaasError(error)) throw error
    return error.code
  }
}

function demand(holds, message) {
  if (!holds) throw new Error(message)
}

function equal(got, expected) {
  const [a, b] = [JSON.stringify(got), JSON.stringify(expected)]
  demand(a === b, `expected ${b.slice(0, 200)}, got ${a?.slice(0, 200)}`)
}

function equalBytes(got, expected) {
  demand(
    got instanceof Uint8Array && got.length === expected.length,
    `expected ${expected.length} bytes, got ${got?.length}`,
  )
  demand(
    got.every((byte, at) => byte === expected[at]),
    'the bytes differ',
  )
}

async function sealElsewhere(key, iv, bytes) {
  const imported = await crypto.subtle.importKey('raw', key, 'AES-GCM', false, ['encrypt'])
  return new Uint8Array(await crypto.subtle.encrypt({ name: 'AES-GCM', iv }, imported, bytes))
}

async function hashElsewhere(keyHex, value) {
  const algorithm = { name: 'HMAC', hash: 'SHA-256' }
  const key = await crypto.subtle.importKey('raw', fromHex(keyHex), algorithm, false, ['sign'])
  return toHex(new Uint8Array(await crypto.subtle.sign('HMAC', key, new TextEncoder().encode(value))))
}

async function sha256(bytes) {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))
}

function repeated({ byte, times }) {
  return new Uint8Array(times).fill(Number.parseInt(byte, 16))
}

function randomBytes(length) {
  const bytes = new Uint8Array(length)
  for (let at = 0; at < length; at += 65_536) crypto.getRandomValues(bytes.subarray(at, at + 65_536))
  return bytes
}

function fromHex(text) {
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16))
}

function toHex(bytes) {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}

function fromBase64(text) {
  const binary = atob(text)
  const bytes = new Uint8Array(binary.length)
  for (let at = 0; at < bytes.length; at++) bytes[at] = binary.charCodeAt(at)
  return bytes
}

function toBase64(bytes) {
  let text = ''
  for (const byte of bytes) text += String.fromCharCode(byte)
  return btoa(text)
}
