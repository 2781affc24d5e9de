// The blind hash (blind-hash.md), by the published vectors and those of RFC 9497.
import { ristretto255_oprf } from '@noble/curves/ed25519.js'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { blindHashElsewhere, findObstacle } from '../../../test/support/vectors/other-language.js'
import {
  type BlindedValue,
  blindValue,
  computeBlindHash,
  deriveBlindHashKeys,
  ElementError,
  evaluateBlinded,
  finalizeBlinded,
} from './blind-hash.js'
import vectors from './blind-hash.vectors.json' with { type: 'json' }
import { decodeHex, encodeHex, FormatError } from './bytes.js'
import { MAX_BATCH_ELEMENTS, MAX_BLINDED_ELEMENTS } from './limits.js'
import { batch, blindHash } from './wire.js'

type Run = (typeof vectors.run)[number]

const ORDER = 2n ** 252n + 27742317777372353535851937790883648493n

/** Random bytes of which noble makes this scalar: it maps them to 1 up to the order less one. */
function drawing(scalar: string): () => Uint8Array {
  const big = BigInt(`0x${Buffer.from(scalar, 'hex').reverse().toString('hex')}`)
  const bytes = new Uint8Array(48)
  bytes.set(Buffer.from(((big - 1n + ORDER) % ORDER).toString(16).padStart(64, '0'), 'hex').reverse())
  return () => bytes
}

function keysOf({ seed, info }: Run) {
  const derived = deriveBlindHashKeys(decodeHex(seed))
  if (encodeHex(new TextEncoder().encode('EaaS blind hash v1')) === info) return derived
  return ristretto255_oprf.voprf.deriveKeyPair(decodeHex(seed), decodeHex(info))
}

const blindedOf = ({ inputs, blinds, blinded }: Run): BlindedValue[] =>
  inputs.map((input, at) => ({
    input: decodeHex(input),
    blind: decodeHex(blinds[at] ?? ''),
    blinded: decodeHex(blinded[at] ?? ''),
  }))

const hexes = (parts: Uint8Array[]) => parts.map(encodeHex)
const three = vectors.run.find(({ name }) => name === 'three values') as Run

describe('a blind hash', () => {
  it.each(vectors.run)('is computed as published: $name', (run) => {
    const keys = keysOf(run)
    expect(encodeHex(keys.publicKey)).toBe(run.public_key)
    const blinded = run.inputs.map((input, at) => blindValue(decodeHex(input), drawing(run.blinds[at] ?? '')))
    expect(blinded).toEqual(blindedOf(run))
    const answer = evaluateBlinded(keys, run.blinded.map(decodeHex), drawing(run.proof_random))
    expect([hexes(answer.elements), encodeHex(answer.proof)]).toEqual([run.evaluated, run.proof])
    expect(hexes(finalizeBlinded(blinded, answer, keys.publicKey))).toEqual(run.outputs)
    expect(hexes(run.inputs.map((input) => computeBlindHash(keys, decodeHex(input))))).toEqual(run.outputs)
  })

  it.each(vectors.refuse_key)('has no key of a mistake: $name', ({ hash_key, public_key }) => {
    expect(encodeHex(deriveBlindHashKeys(decodeHex(hash_key)).publicKey)).not.toBe(public_key)
  })

  it.each(vectors.refuse_element)('is refused for an element, which is named: $name', ({ element }) => {
    const keys = keysOf(three)
    const elements = [...three.blinded, element, element].map(decodeHex)
    let refused: unknown
    try {
      evaluateBlinded(keys, elements)
    } catch (error) {
      refused = error
    }
    expect(refused).toBeInstanceOf(ElementError)
    expect(refused).toMatchObject({ at: three.blinded.length })
    if (element) expect((refused as Error).message).not.toContain(element)
  })

  it.each(vectors.refuse_answer)('is not made of an answer: $name', ({ evaluated, proof }) => {
    const answer = { elements: evaluated.map(decodeHex), proof: decodeHex(proof) }
    expect(() => finalizeBlinded(blindedOf(three), answer, decodeHex(three.public_key))).toThrow(FormatError)
  })

  it.each(vectors.refuse_request)('is not requested with $name', ({ body, element, times }) => {
    const sent = element ? { ...body, elements: Array.from({ length: times ?? 0 }, () => element) } : body
    expect(blindHash.safeParse(sent).success).toBe(false)
  })

  it('is requested with up to 256 elements, and 1,024 in a batch', () => {
    const element = vectors.refuse_request.find((one) => one.element)?.element ?? ''
    const elements = (count: number) => Array.from({ length: count }, () => element)
    const body = { key_id: 'a', elements: elements(MAX_BLINDED_ELEMENTS) }
    expect(blindHash.safeParse({ ...body, suite: 'ristretto255-SHA512' }).success).toBe(true)
    const operations = Array.from({ length: MAX_BATCH_ELEMENTS / MAX_BLINDED_ELEMENTS }, () => ({
      op: 'blind_hash',
      ...body,
    }))
    expect(batch.safeParse({ operations }).success).toBe(true)
    const more = [...operations, { op: 'blind_hash', key_id: 'a', elements: elements(1) }]
    expect(batch.safeParse({ operations: more }).error?.issues[0]?.message).toContain('1024 elements')
  })

  it('depends on the value and the key alone, and its request on chance', () => {
    const hashKey = fc.uint8Array({ minLength: 32, maxLength: 32 })
    fc.assert(
      fc.property(hashKey, fc.uint8Array({ maxLength: 300 }), (seed, value) => {
        const keys = deriveBlindHashKeys(seed)
        const [one, other] = [blindValue(value), blindValue(value)]
        expect(one.blinded).not.toEqual(other.blinded)
        const answer = evaluateBlinded(
          keys,
          [one, other].map(({ blinded }) => blinded),
        )
        const expected = computeBlindHash(keys, value)
        expect(finalizeBlinded([one, other], answer, keys.publicKey)).toEqual([expected, expected])
        expect(() => finalizeBlinded([other, one], answer, keys.publicKey)).toThrow(FormatError)
      }),
      { numRuns: 5 },
    )
  })

  it.skipIf(findObstacle())('is the same in another language', async () => {
    const hashKey = fc.uint8Array({ minLength: 32, maxLength: 32 })
    const jobs = fc.sample(fc.record({ hashKey, value: fc.uint8Array({ maxLength: 300 }) }), 10)
    const here = jobs.map((job) => computeBlindHash(deriveBlindHashKeys(job.hashKey), job.value))
    expect(hexes(await blindHashElsewhere(jobs))).toEqual(hexes(here))
  })

  it('has more vectors to refuse than to accept, each with a name of its own', () => {
    const refused = [vectors.refuse_key, vectors.refuse_element, vectors.refuse_answer, vectors.refuse_request].flat()
    expect(refused.length).toBeGreaterThan(2 * vectors.run.length)
    for (const list of [vectors.refuse_key, vectors.refuse_element, vectors.refuse_answer, vectors.refuse_request])
      expect(new Set(list.map(({ name }) => name)).size).toBe(list.length)
  })
})
