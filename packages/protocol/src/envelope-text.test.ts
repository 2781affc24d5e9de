import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { FormatError } from './bytes.js'
import { decodeEnvelope, type Envelope, type EnvelopeParts, encodeEnvelope } from './envelope.js'
import { decodeEnvelopeText, encodeEnvelopeText } from './envelope-text.js'
import vectors from './envelope-text.vectors.json' with { type: 'json' }
import { decodeEnvelopeV2, encodeEnvelopeV2 } from './envelope-v2.js'

const partsOf = (envelope: unknown): EnvelopeParts =>
  (envelope as Envelope).envelope_version === 2 ? decodeEnvelopeV2(envelope) : decodeEnvelope(envelope)
/** As readers do: the text first, then the fields in it. */
const read = (text: string) => partsOf(decodeEnvelopeText(text))

describe('the text form of an envelope', () => {
  it.each(vectors.encode)('is the published one, and gives the envelope back: $name', ({ envelope, text }) => {
    expect(encodeEnvelopeText(partsOf(envelope))).toBe(text)
    expect(decodeEnvelopeText(text)).toEqual({ envelope_version: 1, ...envelope })
  })

  it.each(vectors.refuse)('is refused: $name', ({ text }) => {
    expect(() => read(text)).toThrow(FormatError)
  })

  it('is refused by its length, before its fields are read', () => {
    const cut = vectors.refuse.filter(({ name }) => /^(v2 )?cut /.test(name))
    expect(cut.length).toBeGreaterThan(5)
    for (const { text } of cut) expect(() => decodeEnvelopeText(text)).toThrow('too short')
  })

  it.each(vectors.refuse_envelope)('does not exist: $name', ({ envelope }) => {
    expect(() => encodeEnvelopeText(partsOf(envelope))).toThrow(FormatError)
  })

  it('has more vectors to refuse than to accept, each with a name of its own', () => {
    const refused = [...vectors.refuse, ...vectors.refuse_envelope]
    expect(refused.length).toBeGreaterThan(2 * vectors.encode.length)
    expect(new Set(refused.map(({ name }) => name)).size).toBe(refused.length)
  })

  it('is refused with any character more, less or of another kind', () => {
    const text = vectors.encode[0]?.text ?? ''
    expect(text.length).toBeGreaterThan(100)
    for (let at = 0; at < text.length; at++) {
      for (const altered of [`${text.slice(0, at)}=${text.slice(at + 1)}`, `${text.slice(0, at)} ${text.slice(at)}`]) {
        expect(() => read(altered)).toThrow(FormatError)
      }
    }
  })

  it('is one for each envelope, whatever is in it, and fits a URL', () => {
    const bytes = (minLength: number, maxLength: number) => fc.uint8Array({ minLength, maxLength })
    const sixteen = bytes(16, 16).map((id) => Buffer.from(id).toString('hex'))
    const uuids = sixteen.map((hex) => hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-'))
    const wrappedKeys = bytes(1, 768).map((key) => Buffer.from(key).toString('base64'))
    const versions = fc.integer({ min: 1, max: 2 ** 31 - 1 })
    const commitments = fc.option(bytes(32, 32), { nil: undefined })
    fc.assert(
      fc.property(uuids, wrappedKeys, versions, commitments, bytes(12, 12), bytes(16, 200), (...args) => {
        const [key_id, wrapped_key, key_version, commitment, iv, sealed] = args
        const wrapped = { wrapped_key, key_id, key_version }
        const envelope = commitment
          ? encodeEnvelopeV2(wrapped, commitment, iv, sealed)
          : encodeEnvelope(wrapped, iv, sealed)
        const text = encodeEnvelopeText({ ...wrapped, iv, sealed, ...(commitment && { commitment }) })
        expect(decodeEnvelopeText(text)).toEqual(envelope)
        expect(encodeURIComponent(text)).toBe(text)
      }),
    )
  })
})
