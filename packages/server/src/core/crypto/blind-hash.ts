import type { KeyObject } from 'node:crypto'
import { decodeBase64, encodeBase64 } from '@eaas/protocol'
import { type BlindHashKeys, deriveBlindHashKeys, ElementError, evaluateBlinded } from '@eaas/protocol/blind-hash'

export type BlindHashTask = { hashKey: KeyObject; elements: readonly string[] }

/** The evaluated elements with their proof, or the position of one that is not a valid element. */
export type BlindHashResult = { wrong?: undefined; elements: string[]; proof: string } | { wrong: number }

/** Evaluates elements, base64 of 32 bytes each. Holds its thread: with many, for 1.6 ms each (blind-hash.md 4). */
export function runBlindHash({ hashKey, elements }: BlindHashTask): BlindHashResult {
  return withKeys(hashKey, (keys) => {
    try {
      const { elements: evaluated, proof } = evaluateBlinded(keys, elements.map(decodeBase64))
      return { elements: evaluated.map(encodeBase64), proof: encodeBase64(proof) }
    } catch (error) {
      if (error instanceof ElementError) return { wrong: error.at }
      throw error
    }
  })
}

const publicKeys = new WeakMap<KeyObject, string>()

/** The public key of a hash key, in base64. It takes half a millisecond, once while the key is in memory. */
export function findPublicKey(hashKey: KeyObject): string {
  const known = publicKeys.get(hashKey)
  if (known !== undefined) return known
  const found = withKeys(hashKey, ({ publicKey }) => encodeBase64(publicKey))
  publicKeys.set(hashKey, found)
  return found
}

function withKeys<T>(hashKey: KeyObject, use: (keys: BlindHashKeys) => T): T {
  const seed = hashKey.export()
  const keys = deriveBlindHashKeys(seed)
  try {
    return use(keys)
  } finally {
    seed.fill(0)
    keys.secretKey.fill(0)
  }
}
