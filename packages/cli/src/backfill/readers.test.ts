// The readers of what cloak and transit encrypted. What cloak wrote is made here by cloak;
// test/slow/transit.test.ts has a real transit engine.
import { encryptStringSync, generateKey, parseKeySync } from '@47ng/cloak'
import {
  buildClient,
  CommitmentPolicy,
  RawAesKeyringNode,
  RawAesWrappingSuiteIdentifier,
} from '@aws-crypto/client-node'
import { text, toText } from '@eaas/sdk'
import { beforeEach, describe, expect, it } from 'vitest'
import type { Client } from '../../../sdk/src/index.js'
import { clientsOf, failure, useService } from '../../../sdk/src/test-support/clients.js'
import { awsMessageReader, cloakReader, type Reader, type Row, transitReader } from '../backfill.js'
import { migrateValues } from '../test-support/memory-table.js'

const KEYS = [
  'k1.aesgcm256.AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=',
  'k1.aesgcm256.__79_Pv6-fj39vX08_Lx8O_u7ezr6uno5-bl5OPi4eA=',
]
/**
 * Of `ada@example.org`, made by @47ng/cloak 1.2.0 under the first key, with a character of each alphabet in
 * it.
 */
const CLOAKED = 'v1.aesgcm256.3bab9a53.7TL8lBQwmVghjHMQ.0_d9ytGHVHzoVv2bi64W6itmVbCdYjQyaFTvE6CA5g=='

const service = useService()
const connect = clientsOf(service)
let eaas: Client
let keyId: string
beforeEach(() => {
  keyId = service.createKey()
  eaas = connect()
})

const migrate = (values: readonly unknown[], read: Reader) => migrateValues(eaas, keyId, values, read)
const acceptingModel = () => {
  const fields = { email: text() }
  return eaas.model({ name: 'users', keyId, bind: ['id'], acceptPlaintext: true, warn: false, fields })
}

/** As SQL and JSON write bytes when a column gets the type text. */
const MOVES: [string, (bytes: Buffer) => unknown][] = [
  ['v::text', (bytes) => `\\x${bytes.toString('hex')}`],
  ["encode(v, 'hex')", (bytes) => bytes.toString('hex')],
  ["encode(v, 'base64')", (bytes) => bytes.toString('base64').replaceAll(/.{76}(?!$)/g, '$&\n')],
  ['to_json(v)::text', (bytes) => JSON.stringify(`\\x${bytes.toString('hex')}`)],
  ['the base64 as a JSON string', (bytes) => JSON.stringify(bytes.toString('base64'))],
  ['the base64 as bytes', (bytes) => `\\x${Buffer.from(bytes.toString('base64')).toString('hex')}`],
  ['bytes', (bytes) => bytes],
]

describe.each(MOVES)('a value moved by %s', (_, move) => {
  const keyring = new RawAesKeyringNode({
    keyName: 'column',
    keyNamespace: 'tests',
    unencryptedMasterKey: new Uint8Array(32).fill(1),
    wrappingSuite: RawAesWrappingSuiteIdentifier.AES256_GCM_IV12_TAG16_NO_PADDING,
  })
  const { encrypt, decrypt } = buildClient(CommitmentPolicy.REQUIRE_ENCRYPT_ALLOW_DECRYPT)
  const post = async (_path: string, body: string) => {
    const inputs = JSON.parse(body).batch_input as { ciphertext: string }[]
    const batch_results = inputs.map(({ ciphertext }) => ({
      plaintext: ciphertext === TRANSITED ? btoa(ADA) : '',
      error: ciphertext === TRANSITED ? '' : 'cipher: message authentication failed',
    }))
    return { status: 200, body: { data: { batch_results } } }
  }
  const ADA = 'ada@example.org'
  const TRANSITED = `vault:v1:${btoa('some ciphertext of ada@example.org')}`
  const libraries: [string, () => Promise<Buffer>, (acceptPlaintext?: boolean) => Reader][] = [
    [
      'the AWS Encryption SDK',
      async () => (await encrypt(keyring, ADA)).result,
      (acceptPlaintext) => awsMessageReader({ decrypt: (message) => decrypt(keyring, message), acceptPlaintext }),
    ],
    [
      '@47ng/cloak',
      async () => Buffer.from(CLOAKED),
      (acceptPlaintext) => cloakReader({ keys: KEYS, acceptPlaintext }),
    ],
    [
      'Transit of Vault',
      async () => Buffer.from(TRANSITED),
      (acceptPlaintext) => transitReader({ post, key: 'k', acceptPlaintext }),
    ],
  ]

  it.each(libraries)('is read where it is of %s, and is no plaintext, whole or cut', async (name, make, readerOf) => {
    const moved = move(await make()) as string
    for (const read of [readerOf(), readerOf(true)]) {
      const { report, emails } = await migrate([moved], read)
      expect([report.failures, emails]).toEqual([[], [ADA]])
    }
    const cut = [moved.length - 1, moved.length >> 1, (moved.length >> 1) + 1].map((end) => moved.slice(0, end))
    const refused = await migrate(cut, readerOf(true))
    expect(refused.report).toMatchObject({ changed: 0, failed: 3 })
    const unread = await migrate([moved, ...cut], (stored) => stored)
    expect(unread.report).toMatchObject({ changed: 0, failed: 4 })
    for (const { message } of unread.report.failures) expect(message).toContain(`it begins as what ${name} encrypted`)
  })

  it('is no plaintext where it is an envelope of the model', async () => {
    const model = acceptingModel()
    const { email } = await model.encrypt({ id: 'u0000', email: ADA })
    for (const envelope of [JSON.stringify(email), toText(email)]) {
      const moved = move(Buffer.from(envelope))
      if (typeof moved !== 'string') continue // a field of text holds none
      for (const stored of [moved, moved.slice(0, -1), moved.slice(0, 300)]) {
        const error = await failure(model.decrypt({ id: 'u0000', email: stored } as never))
        expect(error).toMatchObject({ code: 'E_INVALID_INPUT', message: expect.stringContaining('not an envelope') })
      }
    }
  })
})

it('plaintext that is spelled alike stays plaintext', async () => {
  const plain = [
    '',
    ' ',
    '"',
    '"x"',
    '\\x',
    '\\xzz',
    'QUJD',
    'deadbeef'.repeat(8),
    btoa('{"a":1}'),
    '02047812345678',
    'x'.repeat(9_000),
  ]
  const model = acceptingModel()
  const rows = plain.map((email, at) => ({ id: String(at), email }))
  expect((await model.decryptMany(rows as never)).ok.map(({ email }) => email)).toEqual(plain)
  expect((await migrate(plain, (stored) => stored)).emails).toEqual(plain)
})

describe('cloakReader', () => {
  it('reads what @47ng/cloak wrote, under each of its keys', async () => {
    const keys = [...KEYS, generateKey()]
    const texts = ['ada@example.org', '', '\u00e9\ud83d\ude00 \u0000 x', 'x'.repeat(50), 'y'.repeat(70_000)]
    const plaintexts = keys.flatMap(() => texts)
    const cloaked = keys.flatMap((key) => texts.map((text) => encryptStringSync(text, parseKeySync(key))))
    const { report, emails } = await migrate(cloaked, cloakReader({ keys }))
    expect(report).toMatchObject({ changed: 15, failed: 0 })
    expect(emails).toEqual(plaintexts)
  })

  it('reads what an earlier release of @47ng/cloak wrote', async () => {
    expect(await cloakReader({ keys: KEYS })(CLOAKED, {})).toBe('ada@example.org')
  })

  it('takes plaintext only if it is told to, and never what is left of a value', async () => {
    const mixed = [CLOAKED, 'plain@example.org', CLOAKED.slice(0, 30)]
    expect((await migrate(mixed, cloakReader({ keys: KEYS }))).report).toMatchObject({ changed: 1, failed: 2 })
    const { report, emails } = await migrate(mixed, cloakReader({ keys: KEYS, acceptPlaintext: true }))
    expect([report.failed, emails]).toEqual([1, ['ada@example.org', 'plain@example.org']])
    expect(report.failures[0]?.message).toMatch(/^not a value of cloak under these keys\. Pass all keys/)
  })

  it.each([
    ['an altered tag', (s: string) => s.replace(/A5g==$/, 'A5w==')],
    ['an altered iv', (s: string) => s.replace('.7TL8', '.8TL8')],
    ['another fingerprint', (s: string) => s.replace('3bab9a53', '25b94305')],
    ['an unknown fingerprint', (s: string) => s.replace('3bab9a53', '00000000')],
    ['a fingerprint in capitals', (s: string) => s.replace('3bab', '3BAB')],
    ['no padding', (s: string) => s.replace(/=+$/, '')],
    ['another version', (s: string) => s.replace('v1', 'v2')],
    ['something behind it', (s: string) => `${s}.x`],
    ['no ciphertext', (s: string) => s.replace(/[^.]+$/, '')],
    ['the standard alphabet', (s: string) => s.replaceAll('_', '/')],
    ['a number', () => 7],
  ])('refuses %s', async (_, change) => {
    const changed = change(CLOAKED)
    expect(changed).not.toBe(CLOAKED)
    await expect(cloakReader({ keys: KEYS })(changed, {})).rejects.toMatchObject({ code: 'E_CONTENT' })
  })

  it.each([
    [[]],
    [['k1.aesgcm256.AAAA']],
    [[7]],
    [[`${KEYS[0]}x`]],
    [['k2.aesgcm256.AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=']],
  ])('refuses keys that are not cloak’s, and does not show them: %j', (keys) => {
    expect(() => cloakReader({ keys: keys as string[] })).toThrow(/cloak/)
    expect(() => cloakReader({ keys: keys as string[] })).not.toThrow(/AAEC|AAAA/)
  })
})

describe('transitReader', () => {
  /**
   * Answers as transit's `decrypt` does for `batch_input`. Its ciphertexts are the plaintexts' base64 behind
   * `vault:v1:`.
   */
  const createTransit = () => {
    const requests: { path: string; inputs: { ciphertext: string; context?: string }[] }[] = []
    const post = async (path: string, body: string) => {
      const inputs = JSON.parse(body).batch_input as { ciphertext: string; context?: string }[]
      requests.push({ path, inputs })
      const batch_results = inputs.map(({ ciphertext }) =>
        ciphertext.includes('AAAA')
          ? { plaintext: '', error: 'cipher: message authentication failed' } // as OpenBao answers: empty, not absent
          : { plaintext: ciphertext.replace('vault:v1:', '') },
      )
      return { status: batch_results.some(({ error }) => error) ? 400 : 200, body: { data: { batch_results } } }
    }
    return { post, requests }
  }
  const stored = (value: string) => `vault:v1:${Buffer.from(value).toString('base64')}`

  it('has a page decrypted in requests of 200, and fails the rows that transit refuses', async () => {
    const { post, requests } = createTransit()
    const values = Array.from({ length: 250 }, (_, at) => stored(`user${at}@example.org`))
    const read = transitReader({ post, key: 'my key', mount: 'crypto/transit' })
    const { report, emails } = await migrate([...values, 'vault:v1:AAAA'], read)
    expect(report).toMatchObject({ changed: 250, failed: 1 })
    expect(requests.map(({ path, inputs }) => [path, inputs.length])).toEqual([
      ['/v1/crypto/transit/decrypt/my%20key', 200],
      ['/v1/crypto/transit/decrypt/my%20key', 51],
    ])
    expect(emails[249]).toBe('user249@example.org')
  })

  it('passes on the context, and reads bytes', async () => {
    const { post, requests } = createTransit()
    const read = transitReader({ post, key: 'k', context: 'Y3R4', as: 'bytes' })
    expect(await read(stored('x'), {})).toEqual(new TextEncoder().encode('x'))
    expect(requests[0]?.inputs).toEqual([{ ciphertext: stored('x'), context: 'Y3R4' }])
  })

  it('passes on the context of each row in one request, and fails a row that has none', async () => {
    const { post, requests } = createTransit()
    const contextOf = (row: Row) => (row.id === 'u0001' ? undefined : btoa(String(row.id)))
    const read = transitReader({ post, key: 'k', context: contextOf as never })
    const values = ['a', 'b', 'c'].map(stored)
    const { report, emails } = await migrate(values, read)
    expect(requests.map(({ inputs }) => inputs)).toEqual([
      [
        { ciphertext: stored('a'), context: btoa('u0000') },
        { ciphertext: stored('c'), context: btoa('u0002') },
      ],
    ])
    expect(emails).toEqual(['a', 'c'])
    expect(report).toMatchObject({ changed: 2, failed: 1, failures: [{ key: 'u0001', code: 'E_CONTENT' }] })
    const failing = () => {
      throw new Error('secret')
    }
    for (const context of [failing, async () => btoa('u0000')]) {
      const refused = await migrate(values, transitReader({ post, key: 'k', context: context as never }))
      expect(refused.report).toMatchObject({ changed: 0, failed: 3 })
      expect(JSON.stringify(refused.report)).not.toMatch(/secret/)
    }
    expect(requests).toHaveLength(1)
  })

  it('takes plaintext only if it is told to, and sends it nowhere', async () => {
    const { post, requests } = createTransit()
    await expect(transitReader({ post, key: 'k' })('plain', {})).rejects.toMatchObject({ code: 'E_CONTENT' })
    const read = transitReader({ post, key: 'k', acceptPlaintext: true })
    expect(await read('plain', {})).toBe('plain')
    await expect(read('vault:cut', {})).rejects.toMatchObject({ code: 'E_CONTENT' })
    expect(requests).toEqual([])
  })

  it.each([
    ['does not answer', () => Promise.reject(new Error('token s.secret'))],
    ['is sealed', async () => ({ status: 503, body: { errors: ['Vault is sealed'] } })],
    ['denies', async () => ({ status: 403, body: { errors: ['permission denied'] } })],
    ['answers for another number of values', async () => ({ status: 200, body: { data: { batch_results: [] } } })],
    ['answers no JSON', async () => ({ status: 200, body: undefined })],
  ])('ends the run where transit %s, without its words', async (_, post) => {
    const error = await failure(migrate([stored('x')], transitReader({ post, key: 'k' })))
    expect(error).toMatchObject({ code: 'E_NETWORK' })
    expect(JSON.stringify(error)).not.toMatch(/secret/)
  })

  it.each([
    ['no text', 'vault:v1:/w=='],
    ['no base64', 'vault:v1:A'],
  ])('refuses a plaintext that is %s', async (_, value) => {
    const { post } = createTransit()
    await expect(transitReader({ post, key: 'k' })(value, {})).rejects.toMatchObject({ code: 'E_CONTENT' })
  })
})
