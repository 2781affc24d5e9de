// `keyIds`: an envelope or a stream of another key than the reader names does not open, although the tenant holds
// that key too.
import { expect, it } from 'vitest'
import { type Client, fromText, type StoredEnvelope, toText } from '../index.js'
import { open, openExport } from '../offline.js'
import { decryptStream, encryptStream, openRange } from '../streams.js'
import { decryptSync } from '../sync.js'
import { clientsOf, failure, useService } from '../test-support/clients.js'
import { createTestService } from '../testing.js'

const connect = clientsOf(useService())

interface Given {
  eaas: Client
  envelope: StoredEnvelope
  stream: Blob
  dek: Uint8Array
}
type Reader = (given: Given, options: { keyIds?: readonly string[] }) => Promise<unknown>

const READERS: [string, Reader][] = [
  ['decrypt', ({ eaas, envelope }, options) => eaas.decrypt(envelope, options)],
  ['decryptText', ({ eaas, envelope }, options) => eaas.decryptText(envelope, options)],
  ['decryptJson', ({ eaas, envelope }, options) => eaas.decryptJson(envelope, options)],
  ['decryptMany', ({ eaas, envelope }, options) => eaas.decryptMany([{ a: envelope }], { fields: ['a'], ...options })],
  ['decryptSync', async ({ eaas, envelope }, options) => decryptSync(eaas, envelope, options)],
  ['open', ({ envelope, dek }, options) => open(envelope, dek, options)],
  [
    'an export',
    async ({ eaas, envelope }, options) =>
      openExport(await eaas.keys.export(fromText(envelope as string).key_id)).decrypt(envelope, options),
  ],
  [
    'decryptStream',
    async ({ eaas, stream }, options) => new Response(stream.stream().pipeThrough(decryptStream(eaas, options))).text(),
  ],
  ['openRange', async ({ eaas, stream }, options) => new Response(openRange(eaas, stream, options)).text()],
]

it.each(READERS)('%s opens what is of a key that it names, and of no other', async (_, read) => {
  const eaas = connect(createTestService())
  const [{ id: keyId }, { id: other }] = [await eaas.keys.create({ name: 'a' }), await eaas.keys.create({ name: 'b' })]
  const given = async (of: string): Promise<Given> => {
    const sealed = await eaas.encrypt('"secret"', { keyId: of })
    const dek = await openExport(await eaas.keys.export(of)).unwrap(sealed.wrapped_key)
    const bytes = await new Response(
      new Blob(['"secret"']).stream().pipeThrough(encryptStream(eaas, { keyId: of })),
    ).blob()
    return { eaas, envelope: toText(sealed), stream: bytes, dek }
  }
  const [own, foreign] = [await given(keyId), await given(other)]
  await read(own, { keyIds: [other, keyId] })
  await read(foreign, {})
  expect(await failure(read(foreign, { keyIds: [keyId] }))).toMatchObject({
    code: 'E_DECRYPTION',
    message: expect.stringContaining(`encrypted under the key ${other}, which is not one of keyIds`),
  })
  expect((await failure(read(own, { keyIds: [] }))).code).toBe('E_DECRYPTION')
  const wrong = [undefined, keyId, ['users'], [null]] as never[]
  for (const keyIds of wrong) expect((await failure(read(own, { keyIds }))).code).toBe('E_INVALID_INPUT')
})
