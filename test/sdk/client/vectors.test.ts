// The published vectors through what applications call, with every engine: none opens with a bit altered. And what is AES-GCM
// but not envelope format v1, which is sealed rightly here and refused all the same: shorter tags, shorter DEKs.
import { type CipherGCMTypes, createCipheriv } from 'node:crypto'
import { decodeBase64, decodeHex, encodeBase64, encodeHex } from '@eaas/protocol'
import { describe, expect, it } from 'vitest'
import vectors from '../../../packages/protocol/src/envelope.vectors.json' with { type: 'json' }
import { type Client, createClient, type Envelope } from '../../../packages/sdk/src/index.js'
import { open } from '../../../packages/sdk/src/offline.js'

const SHORT = 100
const header = { ...vectors.valid, envelope_version: 1 } as const
const short = vectors.seal.flatMap(({ name, key, iv, ciphertext, ...rest }) =>
  ciphertext === undefined || ciphertext.length > SHORT
    ? []
    : [
        {
          name,
          dek: decodeHex(key),
          plaintext: rest.plaintext ?? encodeHex(new TextEncoder().encode(rest.text)),
          envelope: { ...header, iv: encodeBase64(decodeHex(iv)), ciphertext } satisfies Envelope,
        },
      ],
)

/** The client of a service that unwraps everything to this DEK, whatever it is. */
function clientOf(engine: 'node' | 'web' | 'noble', dek: Uint8Array): Client {
  const { key_id, key_version } = header
  const fetch = async () => Response.json({ dek: encodeBase64(dek), key_id, key_version })
  return createClient({ baseUrl: 'https://eaas.test', apiKey: 'x', engine, fetch })
}

/** Seals rightly, with a tag and a key of these lengths. */
function sealWith(dek: Uint8Array, plaintext: Uint8Array, authTagLength: number): Envelope {
  const algorithm = `aes-${dek.length * 8}-gcm` as CipherGCMTypes
  const cipher = createCipheriv(algorithm, dek, decodeBase64(header.iv), { authTagLength })
  const sealed = Buffer.concat([cipher.update(plaintext), cipher.final(), cipher.getAuthTag()])
  return { ...header, ciphertext: encodeBase64(sealed) }
}

const dekOf = (length: number) => new Uint8Array(length).fill(7)
const plaintexts = ['', 'sixteen bytes ok'].map((text) => new TextEncoder().encode(text))

it('are these that are short', () => {
  expect(short.length).toBe(12)
})

describe.each(['node', 'web', 'noble'] as const)('with engine %s', (engine) => {
  it.each(short)('each bit of ciphertext, tag and iv counts: $name', async ({ dek, plaintext, envelope }) => {
    const eaas = clientOf(engine, dek)
    expect(encodeHex(await eaas.decrypt(envelope))).toBe(plaintext)
    const opened: string[] = []
    for (const field of ['ciphertext', 'iv'] as const) {
      const bytes = decodeBase64(envelope[field])
      for (let bit = 0; bit < bytes.length * 8; bit++) {
        const altered = bytes.slice()
        altered[bit >> 3] = (altered[bit >> 3] ?? 0) ^ (1 << (bit & 7))
        const opening = eaas.decrypt({ ...envelope, [field]: encodeBase64(altered) })
        const code = await opening.catch((error: { code: string }) => error.code)
        if (code !== 'E_DECRYPTION') opened.push(`bit ${bit} of ${field}: ${code}`)
      }
    }
    expect(opened).toEqual([])
  })

  it.each([4, 8, 12, 13, 14, 15])('a tag of %d bytes is none', async (length) => {
    for (const plaintext of plaintexts) {
      const eaas = clientOf(engine, dekOf(32))
      expect(await eaas.decrypt(sealWith(dekOf(32), plaintext, 16))).toEqual(plaintext)
      // What is shorter than a tag is no envelope (envelope.md 6).
      const code = plaintext.length + length < 16 ? 'E_INVALID_INPUT' : 'E_DECRYPTION'
      const envelope = sealWith(dekOf(32), plaintext, length)
      await expect(eaas.decrypt(envelope)).rejects.toMatchObject({ code })
      await expect(open(envelope, dekOf(32))).rejects.toMatchObject({ code })
    }
  })

  it.each([16, 24])('a DEK of %d bytes is none', async (length) => {
    for (const plaintext of plaintexts) {
      const envelope = sealWith(dekOf(length), plaintext, 16)
      await expect(clientOf(engine, dekOf(length)).decrypt(envelope)).rejects.toMatchObject({ code: 'E_PROTOCOL' })
      await expect(open(envelope, dekOf(length))).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
    }
  })
})
