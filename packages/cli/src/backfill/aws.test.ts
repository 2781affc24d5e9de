// The reader of messages of the AWS Encryption SDK. Its own client makes them here, and opens them.
import {
  AlgorithmSuiteIdentifier,
  buildClient,
  CommitmentPolicy,
  KmsKeyringNode,
  RawAesKeyringNode,
  RawAesWrappingSuiteIdentifier,
} from '@aws-crypto/client-node'
import { NetworkError } from '@eaas/sdk'
import { beforeEach, describe, expect, expectTypeOf, it, vi } from 'vitest'
import type { Client } from '../../../sdk/src/index.js'
import { clientsOf, failure, useService } from '../../../sdk/src/test-support/clients.js'
import { type AwsMessageOptions, awsMessageReader, type Reader, type Row } from '../backfill.js'
import { migrateValues } from '../test-support/memory-table.js'

const keyringOf = (fill: number) =>
  new RawAesKeyringNode({
    keyName: `column ${fill}`,
    keyNamespace: 'tests',
    unencryptedMasterKey: new Uint8Array(32).fill(fill),
    wrappingSuite: RawAesWrappingSuiteIdentifier.AES256_GCM_IV12_TAG16_NO_PADDING,
  })
const keyring = keyringOf(1)
const committing = buildClient(CommitmentPolicy.REQUIRE_ENCRYPT_REQUIRE_DECRYPT)
const old = buildClient(CommitmentPolicy.FORBID_ENCRYPT_ALLOW_DECRYPT)
const { decrypt } = buildClient(CommitmentPolicy.REQUIRE_ENCRYPT_ALLOW_DECRYPT)
const open: AwsMessageOptions['decrypt'] = (message) => decrypt(keyring, message)

type Suite = keyof typeof AlgorithmSuiteIdentifier
const SUITES = Object.keys(AlgorithmSuiteIdentifier).filter((name) => name.startsWith('ALG_')) as Suite[]

/** Encrypts a text under a suite; base64. */
async function messageOf(
  plaintext: string | Uint8Array,
  {
    suite = 'ALG_AES256_GCM_IV12_TAG16_HKDF_SHA512_COMMIT_KEY' as Suite,
    encryptionContext = {},
    frameLength = 4_096,
  } = {},
) {
  const client = suite.includes('COMMIT_KEY') ? committing : old
  const input = typeof plaintext === 'string' ? plaintext : Buffer.from(plaintext)
  const options = { suiteId: AlgorithmSuiteIdentifier[suite], encryptionContext, frameLength }
  return (await client.encrypt(keyring, input, options)).result.toString('base64')
}

const service = useService()
const connect = clientsOf(service)
let eaas: Client
let keyId: string
beforeEach(() => {
  keyId = service.createKey()
  eaas = connect()
})
const migrate = (values: readonly unknown[], read: Reader) => migrateValues(eaas, keyId, values, read)

describe('awsMessageReader', () => {
  it('reads messages of both versions under every algorithm suite of the client, as text or as bytes', async () => {
    expect(SUITES.length).toBeGreaterThanOrEqual(11)
    const texts = ['ada@example.org', '', '\u00e9\u{1f600} \u0000 x', 'y'.repeat(9_000)]
    const messages: string[] = []
    for (const suite of SUITES)
      for (const one of texts) messages.push(await messageOf(one, { suite, frameLength: 1_000 }))
    expect(new Set(messages.map((message) => message.slice(0, 3)))).toEqual(new Set(['AYA', 'AgR', 'AgV']))
    const asBytes = messages.map((message) => Buffer.from(message, 'base64'))
    const { report, emails } = await migrate([...messages, ...asBytes], awsMessageReader({ decrypt: open }))
    expect(report).toMatchObject({ changed: messages.length * 2, failed: 0 })
    expect(emails).toEqual([...messages, ...messages].map((_, at) => texts[at % texts.length]))
  })

  it('returns bytes where the values were bytes', async () => {
    const bytes = Uint8Array.of(0, 255, 128)
    const read = awsMessageReader({ decrypt: open, as: 'bytes' })
    expect(await read(await messageOf(bytes), {})).toEqual(bytes)
    await expect(awsMessageReader({ decrypt: open })(await messageOf(bytes), {})).rejects.toMatchObject({
      code: 'E_CONTENT',
      message: expect.stringContaining('UTF-8'),
      hint: expect.stringContaining("as: 'bytes'"),
    })
  })

  it('leaves values that are sealed already byte for byte, and does not open them', async () => {
    const opening = vi.fn(open)
    const read = awsMessageReader({ decrypt: opening, acceptPlaintext: true })
    const message = await messageOf('ada@example.org')
    const first = await migrate([message, message], read)
    expect(opening).toHaveBeenCalledTimes(2)
    const sealed = [...first.table.rows.values()].map(({ email }) => email)
    const { report, table } = await migrate([...sealed, message], read)
    expect(report).toMatchObject({ rows: 3, changed: 1, current: 2, failed: 0 })
    expect([...table.rows.values()].slice(0, 2).map(({ email }) => email)).toEqual(sealed)
    expect(opening).toHaveBeenCalledTimes(3)
  })

  it('takes plaintext only if it is told to, and never what is left of a message', async () => {
    const message = await messageOf('ada@example.org')
    const v1 = await messageOf('bob@example.org', { suite: 'ALG_AES256_GCM_IV12_TAG16' })
    const cut = [message.slice(0, 40), message.slice(0, 41), v1.slice(0, -4), `'${v1}`, v1.slice(0, 6)]
    const bytes = [Buffer.from(message, 'base64').subarray(0, 50), Buffer.from(v1, 'base64').subarray(0, 3)]
    const plain = [
      'plain@example.org',
      'AYA',
      'AYADI',
      'AYACHE Karim',
      'AYACHI',
      'Agnes',
      'AgR',
      '0204781234',
      '+44 20 4781 2345',
      '\\x01',
      '"AgR"',
      'deadbeef'.repeat(8),
    ]
    const strict = await migrate([message, ...plain, ...cut, ...bytes], awsMessageReader({ decrypt: open }))
    expect(strict.report).toMatchObject({ changed: 1, failed: plain.length + cut.length + bytes.length })
    const read = awsMessageReader({ decrypt: open, acceptPlaintext: true })
    const { report, emails } = await migrate([message, ...plain, ...cut, ...bytes], read)
    expect([report.failed, emails]).toEqual([cut.length + bytes.length, ['ada@example.org', ...plain]])
  })

  it.each([
    ['an altered tag', (b: Buffer) => b.fill((b.at(-1) ?? 0) ^ 1, b.length - 1)],
    ['an altered header', (b: Buffer) => b.fill((b[10] ?? 0) ^ 1, 10, 11)],
    ['another version', (b: Buffer) => b.fill(3, 0, 1)],
    ['an unknown algorithm', (b: Buffer) => b.fill(0x79, 2, 3)],
    ['nothing', () => Buffer.of()],
  ])('refuses %s', async (_, change) => {
    const changed = change(Buffer.from(await messageOf('secret value'), 'base64'))
    const { report } = await migrate([changed.toString('base64')], awsMessageReader({ decrypt: open }))
    expect(report).toMatchObject({ changed: 0, failed: 1, failures: [{ field: 'email', code: 'E_CONTENT' }] })
  })

  it.each([
    ['no padding', (s: string) => s.replace(/=+$/, '')],
    ['the URL-safe alphabet', (s: string) => s.replaceAll('+', '-').replaceAll('/', '_')],
    ['non-zero bits behind the last byte', (s: string) => s.replace(/.=$/, 'B=')],
    ['a number', () => 7],
  ])('refuses %s', async (_, change) => {
    let message = ''
    // One with padding, and with a character of which the alphabets differ.
    for (let length = 0; !/[+/].*[^=B]=$/.test(message); length = (length + 1) % 3)
      message = await messageOf('x'.repeat(length))
    const changed = change(message)
    expect(changed).not.toBe(message)
    await expect(awsMessageReader({ decrypt: open })(changed, {})).rejects.toMatchObject({ code: 'E_CONTENT' })
  })

  it('says what to do about a key that the keyring lacks, and about a message that the policy refuses', async () => {
    const message = await messageOf('secret value')
    const decryptWith = (fill: number) => awsMessageReader({ decrypt: (one) => decrypt(keyringOf(fill), one) })
    const { report } = await migrate([message], decryptWith(2))
    expect(report.failures).toMatchObject([
      { key: 'u0000', field: 'email', message: expect.stringMatching(/keyring has every key/) },
    ])
    const v1 = await messageOf('secret value', { suite: 'ALG_AES256_GCM_IV12_TAG16_HKDF_SHA256' })
    const strict = awsMessageReader({ decrypt: (one) => committing.decrypt(keyring, one) })
    expect((await migrate([v1], strict)).report.failures[0]?.message).toMatch(/REQUIRE_ENCRYPT_ALLOW_DECRYPT/)
    expect(JSON.stringify(report)).not.toMatch(/secret/)
  })

  it('fails the row, and quotes nothing, where decrypt does something else', async () => {
    const message = await messageOf('secret value')
    const wrong = [
      () => Promise.reject(new Error('secret value')),
      () => {
        throw new Error('secret value')
      },
      async () => undefined,
      async () => ({ plaintext: 'secret value' }),
      decrypt, // not bound to a keyring
    ]
    for (const one of wrong) {
      const { report } = await migrate([message], awsMessageReader({ decrypt: one as never }))
      expect(report).toMatchObject({ failed: 1, failures: [{ code: 'E_CONTENT' }] })
      expect(JSON.stringify(report)).not.toMatch(/secret/)
    }
  })

  it('ends the run with an error of the SDK that decrypt throws', async () => {
    const away = () => Promise.reject(new NetworkError('KMS is away', 'Run it again.', true))
    const running = migrate([await messageOf('x')], awsMessageReader({ decrypt: away }))
    expect(await failure(running)).toMatchObject({ code: 'E_NETWORK' })
  })

  it('opens only messages whose encryption context has the members that are expected', async () => {
    const read = awsMessageReader({ decrypt: open, encryptionContext: { table: 'users', column: 'email' } })
    const suite = 'ALG_AES256_GCM_IV12_TAG16_HKDF_SHA512_COMMIT_KEY_ECDSA_P384' // adds the public key to the context
    const contexts = [
      { table: 'users', column: 'email' },
      { table: 'users', column: 'email', tenant: '7' },
      { table: 'users', column: 'phone' },
      { table: 'users' },
      {},
    ]
    const messages: string[] = []
    for (const encryptionContext of contexts) messages.push(await messageOf('x', { suite, encryptionContext }))
    const { report } = await migrate(messages, read)
    expect(report).toMatchObject({ changed: 2, failed: 3 })
    for (const { message } of report.failures) expect(message).toMatch(/^the message has another encryption context\. /)
  })

  it('refuses a message that was moved from row 2 to row 1, where the encryption context is that of the row', async () => {
    const read = awsMessageReader({
      decrypt: open,
      encryptionContext: (row) => ({ column: 'email', id: String(row.id) }),
    })
    const messageFor = (id: string) => messageOf(`${id}@example.org`, { encryptionContext: { column: 'email', id } })
    const [, second] = [await messageFor('u0000'), await messageFor('u0001')]
    const { report, emails, table } = await migrate([second, second], read)
    expect(report).toMatchObject({ changed: 1, failed: 1, failures: [{ key: 'u0000', code: 'E_CONTENT' }] })
    expect(report.failures[0]?.message).toMatch(/^the message has another encryption context\. /)
    expect([emails, table.rows.get('u0000')?.email]).toEqual([['u0001@example.org'], second])
  })

  it.each([
    ['no members', () => ({})],
    ['a promise', async () => ({ id: 'u0000' })],
    ['a member without a value', (row: Row) => ({ id: row.nothing })],
    ['of a column that the row lacks', (row: Row) => ({ id: 'u0000', city: String(row.city) })],
    ['a number', (row: Row) => ({ id: 'u0000', at: 7, email: row.email })],
    ['nothing', () => undefined],
    [
      'an error',
      (row: Row) => {
        throw new Error(`secret of ${row.id}`)
      },
    ],
  ])('fails a row whose encryption context is %s, before the message is decrypted', async (_, encryptionContext) => {
    const opening = vi.fn(open)
    const read = awsMessageReader({ decrypt: opening, encryptionContext: encryptionContext as never })
    const { report } = await migrate([await messageOf('x', { encryptionContext: { id: 'u0000' } })], read)
    expect(report).toMatchObject({ changed: 0, failed: 1, failures: [{ key: 'u0000', field: 'email' }] })
    expect(report.failures[0]?.message).toMatch(/name others in `readColumns`/)
    expect(report.failures[0]?.message).not.toMatch(/secret/)
    expect(opening).not.toHaveBeenCalled()
  })

  it.each([
    [undefined],
    [{}],
    [{ decrypt: 'x' }],
    [{ decrypt: open, as: 'json' }],
    [{ decrypt: open, acceptPlaintext: 'yes' }],
    [{ decrypt: open, encryptionContext: ['users'] }],
    [{ decrypt: open, encryptionContext: { table: 7 } }],
    [{ decrypt: open, keyring }],
  ])('refuses wrong options: %j', (options) => {
    expect(() => awsMessageReader(options as never)).toThrow(expect.objectContaining({ code: 'E_INVALID_INPUT' }))
  })

  it('takes the types of the client as they are', () => {
    const kms = new KmsKeyringNode({ discovery: true })
    expectTypeOf((message: Uint8Array) => decrypt(kms, message)).toExtend<AwsMessageOptions['decrypt']>()
    expectTypeOf(decrypt).not.toExtend<AwsMessageOptions['decrypt']>()
  })
})
