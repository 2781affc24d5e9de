// What goes in comes out, exactly, whichever way it takes in and whichever way out.
import { randomBytes, randomInt } from 'node:crypto'
import fc from 'fast-check'
import { beforeAll, describe, expect, it } from 'vitest'
import { createClient, type EngineName } from '../../../packages/sdk/src/index.js'
import { findWays, lostOn, SERVER_MODE_BYTES } from '../../../packages/sdk/src/test-support/envelope-ways.js'
import { isSame } from '../../../packages/sdk/src/test-support/stream-bytes.js'
import { createTestService } from '../../../packages/sdk/src/testing.js'
import { rounds } from '../../support/run/rounds.js'
import { ANY_CHARACTER } from '../../support/vectors/any-text.js'

const MIB = 1_048_576
const RUNS = { numRuns: rounds(12, 60) }
const anyCharacter = fc.string({ unit: ANY_CHARACTER, minLength: 1, maxLength: 1 })
/** Any JSON value with any Unicode in it, lone surrogates too: JSON escapes them. */
const anyJson = fc.jsonValue({ stringUnit: fc.oneof(anyCharacter, fc.constantFrom('\ud800', '\udfff')), maxDepth: 5 })
const anyText = fc.string({ unit: ANY_CHARACTER, maxLength: 2_000, size: 'max' })
const anyBytes = fc.uint8Array({ maxLength: 4_000, size: 'max' })

/** Sizes in bytes; those by chance stand in the names of their tests. The cipher in JavaScript takes a second for a mebibyte, all ways. */
const sizesOf = (engine: EngineName) =>
  [engine === 'noble' ? rounds(MIB / 8, MIB) : MIB, randomInt(MIB), MIB - 1, randomInt(MIB)].slice(0, rounds(1, 4))

const sameText = (a: string, b: string) => a === b
const sameJson = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b)

describe.each(['noble', 'node', 'web'] as const)('with the engine %s', (engine) => {
  let ways: Awaited<ReturnType<typeof findWays>>

  beforeAll(async () => {
    const service = createTestService({ envelopeOnly: false })
    const [writer, reader] = [createClient({ ...service, engine }), createClient({ ...service, engine })]
    const { id: keyId } = await writer.keys.create({ name: 'users' })
    ways = await findWays({ writer, reader, keyId })
  })

  it('text comes back, all ways in and out', async () => {
    await fc.assert(
      fc.asyncProperty(anyText, async (value) => {
        expect(await lostOn(value, ways.text, sameText)).toEqual([])
      }),
      RUNS,
    )
  })

  it('bytes come back, all ways in and out, server mode among them', async () => {
    const all = { in: { ...ways.bytes.in, ...ways.server.in }, out: { ...ways.bytes.out, ...ways.server.out } }
    await fc.assert(
      fc.asyncProperty(anyBytes, async (value) => {
        expect(await lostOn(value, all, isSame)).toEqual([])
      }),
      RUNS,
    )
  })

  it('JSON comes back, all ways in and out', async () => {
    await fc.assert(
      fc.asyncProperty(anyJson, async (value) => {
        expect(await lostOn(value, ways.json, sameJson)).toEqual([])
      }),
      RUNS,
    )
  })

  it('text that was sealed as bytes comes back as text, and JSON as the text that it is', async () => {
    const [asBytes, asText, asJson] = [ways.bytes.in.encrypt, ways.text.out.decryptText, ways.json.in.encryptJson]
    if (!asBytes || !asText || !asJson) throw new Error('these ways are gone')
    await fc.assert(
      fc.asyncProperty(anyText, anyJson, async (value, json) => {
        expect(await asText(await asBytes(new TextEncoder().encode(value)))).toBe(value)
        expect(await asText(await asJson(json))).toBe(JSON.stringify(json))
      }),
      RUNS,
    )
  })

  it.each(sizesOf(engine))(
    '%d random bytes, and the text and JSON of them, come back',
    async (size) => {
      const bytes = new Uint8Array(randomBytes(size))
      const text = new TextDecoder('utf-16le', { ignoreBOM: true }).decode(bytes.subarray(0, Math.floor(size / 3) * 2)) // most are 3 in UTF-8
      // One way in to all ways out, and all ways in to one way out: the other pairs are those of short values.
      const firstOf = <W extends Record<string, unknown>>(all: W) =>
        Object.fromEntries(Object.entries(all).slice(0, 1)) as W
      expect(await lostOn(bytes, { in: firstOf(ways.bytes.in), out: ways.bytes.out }, isSame)).toEqual([])
      expect(await lostOn(bytes, { in: ways.bytes.in, out: firstOf(ways.bytes.out) }, isSame)).toEqual([])
      expect(await lostOn(text, { in: firstOf(ways.text.in), out: ways.text.out }, sameText)).toEqual([])
      expect(await lostOn(text, { in: ways.text.in, out: firstOf(ways.text.out) }, sameText)).toEqual([])
      expect(await lostOn({ text }, { in: firstOf(ways.json.in), out: ways.json.out }, sameJson)).toEqual([])
      expect(await lostOn({ text }, { in: ways.json.in, out: firstOf(ways.json.out) }, sameJson)).toEqual([])
    },
    120_000,
  )

  it('server mode takes as much as it promises', async () => {
    const bytes = crypto.getRandomValues(new Uint8Array(SERVER_MODE_BYTES))
    const all = { in: { ...ways.bytes.in, ...ways.server.in }, out: { ...ways.bytes.out, ...ways.server.out } }
    expect(await lostOn(bytes, all, isSame)).toEqual([])
  })
})
