/** blind-hash.md with noble. Imports nothing else of the SDK, so that bundlers load it alone; the server has the protocol's file. */
import { ristretto255_oprf } from '@noble/curves/ed25519.js'
import { asciiToBytes } from '@noble/curves/utils.js'

const { oprf, voprf } = ristretto255_oprf
const KEY_INFO = asciiToBytes('EaaS blind hash v1')

/** A value of at most 65,535 bytes, with its secret `blind`, and `blinded`, which is sent and reveals nothing of the value. */
export type BlindedValue = { input: Uint8Array; blind: Uint8Array; blinded: Uint8Array }

export function blindValue(input: Uint8Array, random: (length?: number) => Uint8Array): BlindedValue {
  return { input, ...voprf.blind(input, random) }
}

/** Checks the proof and makes each value's hash, 64 bytes (blind-hash.md 5); undefined if the proof is false. */
export function finalizeValues(
  values: readonly BlindedValue[],
  answered: { elements: readonly string[]; proof: string },
  publicKey: string,
): Uint8Array[] | undefined {
  if (answered.elements.length !== values.length) return undefined
  try {
    const items = values.map((value, at) => ({ ...value, evaluated: decode(answered.elements[at]) }))
    return voprf.finalizeBatch(items, decode(publicKey), decode(answered.proof))
  } catch {
    return undefined // for any fault
  }
}

function decode(base64 = ''): Uint8Array {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))
}

/** Computes the same hash from the hash key alone (blind-hash.md 6). */
export function computeBlindHash(hashKey: Uint8Array, input: Uint8Array): Uint8Array {
  const { secretKey } = voprf.deriveKeyPair(hashKey, KEY_INFO)
  try {
    const { blind, blinded } = voprf.blind(input)
    return oprf.finalize(input, blind, oprf.blindEvaluate(secretKey, blinded)) // both functions are equal in both modes
  } finally {
    secretKey.fill(0)
  }
}
