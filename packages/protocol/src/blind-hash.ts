/** The blind hash, which client and service compute together (blind-hash.md). Not in index.ts, so that it loads on use. */
import { ristretto255, ristretto255_oprf } from '@noble/curves/ed25519.js'
import { encodeUtf8, FormatError } from './bytes.js'

const { voprf } = ristretto255_oprf
const { Point } = ristretto255
interface Evaluating {
  evaluate(secretKey: Uint8Array, input: Uint8Array): Uint8Array
}
const KEY_INFO = encodeUtf8('EaaS blind hash v1')
type Random = (length?: number) => Uint8Array

export interface BlindHashKeys {
  secretKey: Uint8Array
  publicKey: Uint8Array
}

/** Derives the two keys from the hash key of a key, 32 bytes (blind-hash.md 2). The caller zeroes `secretKey`. */
export function deriveBlindHashKeys(hashKey: Uint8Array): BlindHashKeys {
  return voprf.deriveKeyPair(hashKey, KEY_INFO)
}

/** A blinded value, for the client to keep until the answer: `blind` is secret, `blinded` is sent. */
export interface BlindedValue {
  input: Uint8Array
  blind: Uint8Array
  blinded: Uint8Array
}

/** Blinds a value of at most 65,535 bytes: `blinded` reveals nothing about it (blind-hash.md 3). */
export function blindValue(input: Uint8Array, random?: Random): BlindedValue {
  return { input, ...voprf.blind(input, random) }
}

/** An element for each blinded value, in order, and one proof for all. */
export interface Evaluated {
  elements: Uint8Array[]
  proof: Uint8Array
}

/** Thrown for an element that is not a canonical encoding, or is the identity (blind-hash.md 4). */
export class ElementError extends FormatError {
  constructor(readonly at: number) {
    super(`element ${at} is not one of ristretto255, or is the identity`)
  }
}

/** Evaluates blinded values, with a proof (blind-hash.md 4). Takes 6 ms, or 1.6 ms an element. @throws ElementError */
export function evaluateBlinded(
  { secretKey, publicKey }: BlindHashKeys,
  elements: readonly Uint8Array[],
  random?: Random,
): Evaluated {
  try {
    const { evaluated, proof } = voprf.blindEvaluateBatch(secretKey, publicKey, [...elements], random)
    return { elements: evaluated, proof }
  } catch (error) {
    const at = elements.findIndex((bytes) => !isElement(bytes))
    throw at < 0 ? error : new ElementError(at)
  }
}

function isElement(bytes: Uint8Array): boolean {
  try {
    return !Point.fromBytes(bytes).equals(Point.ZERO)
  } catch {
    return false // whatever is wrong with it
  }
}

/** Checks the proof and returns each value's hash, 64 bytes (blind-hash.md 5). @throws FormatError if the proof is false */
export function finalizeBlinded(
  values: readonly BlindedValue[],
  { elements, proof }: Evaluated,
  publicKey: Uint8Array,
): Uint8Array[] {
  if (elements.length !== values.length) throw new FormatError('not an element for each value')
  const items = values.map((value, at) => ({ ...value, evaluated: elements[at] ?? proof }))
  try {
    return voprf.finalizeBatch(items, publicKey, proof)
  } catch {
    throw new FormatError('not a blind hash under this public key')
  }
}

/** Computes the hash of a value with the secret key alone; equals that of the two parties (blind-hash.md 6). */
export function computeBlindHash({ secretKey }: Pick<BlindHashKeys, 'secretKey'>, input: Uint8Array): Uint8Array {
  return (voprf as typeof voprf & Evaluating).evaluate(secretKey, input)
}
