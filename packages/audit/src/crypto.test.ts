import { generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import { afterEach, describe, expect, it, vi } from 'vitest'

const message = new TextEncoder().encode('a note')
const { publicKey, privateKey } = generateKeyPairSync('ed25519')
const key = new Uint8Array(publicKey.export({ format: 'der', type: 'spki' }).subarray(-32))
const signature = new Uint8Array(sign(null, message, privateKey))

afterEach(() => {
  vi.restoreAllMocks()
  vi.doUnmock('#ed25519')
  vi.resetModules()
})

/** The functions as Node computes them, or as noble does on a platform without node:crypto. */
async function load(platform: 'node' | 'noble') {
  if (platform === 'noble') {
    vi.spyOn(process, 'getBuiltinModule').mockReturnValue(undefined)
    vi.doMock('#ed25519', () => import('@noble/curves/ed25519.js'))
  }
  vi.resetModules()
  return import('./crypto.js')
}

describe.each(['node', 'noble'] as const)('by %s', (platform) => {
  it('takes a signature of the key alone, over the message alone', async () => {
    const { verifySignature } = await load(platform)
    const changed = Uint8Array.from(signature, (byte, at) => (at === 5 ? byte ^ 1 : byte))
    expect(verifySignature(key, message, signature)).toBe(true)
    expect(verifySignature(key, message.subarray(1), signature)).toBe(false)
    expect(verifySignature(key, message, changed)).toBe(false)
  })

  it('refuses keys and signatures of another length, and such as are no points of the curve, without an error', async () => {
    const { verifySignature } = await load(platform)
    for (const length of [0, 31, 33]) expect(verifySignature(new Uint8Array(length), message, signature)).toBe(false)
    for (const length of [0, 63, 65]) expect(verifySignature(key, message, new Uint8Array(length))).toBe(false)
    for (let round = 0; round < 50; round++) {
      expect(verifySignature(new Uint8Array(randomBytes(32)), message, signature)).toBe(false)
      expect(verifySignature(key, message, new Uint8Array(randomBytes(64)))).toBe(false)
    }
    expect(verifySignature(new Uint8Array(32).fill(255), message, signature)).toBe(false)
  })

  it('hashes', async () => {
    const { sha256 } = await load(platform)
    expect(Buffer.from(sha256(new TextEncoder().encode('abc'))).toString('hex')).toBe(
      'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
    )
  })
})
