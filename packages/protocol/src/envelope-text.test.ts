import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { FormatError } from './bytes.js'
import { decodeEnvelopeText, encodeEnvelopeText } from './envelope-text.js'
import vectors from './envelope-text.vectors.json' with { type: 'json' }
import { decodeEnvelope, encodeSealed, type SealedParts } from './envelope-v2.js'

describe('the text form of an envelope', () => {
  it.each(vectors.encode)('is the published one, and gives the envelope back: $name', ({ envelope, text }) => {
    expect(encodeEnvelopeText(decodeEnvelope(envelope))).toBe(text)
    expect(encodeSealed(decodeEnvelopeText(text))).toEqual({ envelope_version: 1, ...envelope })
  })

  it.each(vectors.refuse)('is refused: $name', ({ text }) => {
    expect(() => decodeEnvelopeText(text)).toThrow(FormatError)
  })

  it('is refused by its length, before its fields are read', () => {
    const cut = vectors.refuse.filter(({ name }) => /^(v2 )?cut /.test(name))
    expect(cut.length).toBeGreaterThan(5)
    for (const { text } of cut) expect(() => decodeEnvelopeText(text)).toThrow('too short')
  })

  it.each(vectors.refuse_envelope)('does not exist: $name', ({ envelope }) => {
    expect(() => encodeEnvelopeText(decodeEnvelope(envelope))).toThrow(FormatError)
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
        expect(() => decodeEnvelopeText(altered)).toThrow(FormatError)
      }
    }
  })

  it('is read by its own head, whatever the text before it had', () => {
    const [envelope] = vectors.encode.map((vector) => decodeEnvelope(vector.envelope))
    if (!envelope) throw new Error('no vector')
    const { wrapped_key, key_version } = envelope
    const longer = Buffer.concat([Buffer.from(wrapped_key, 'base64'), Buffer.of(0)]).toString('base64')
    const others = [{ key_version: key_version + 1 }, { key_id: randomUUID() }, { wrapped_key: longer }]
    for (const other of [...others, ...others.reverse()]) {
      const parts = { ...envelope, ...other }
      const [text, before] = [encodeEnvelopeText(parts), encodeEnvelopeText(envelope)]
      expect(decodeEnvelopeText(before)).toEqual(envelope)
      expect(decodeEnvelopeText(text)).toEqual(parts)
      expect(encodeEnvelopeText(parts)).toBe(text)
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
        const parts: SealedParts = { ...wrapped, iv, sealed, ...(commitment && { commitment }) }
        const text = encodeEnvelopeText(parts)
        expect(decodeEnvelopeText(text)).toEqual(parts)
        expect(encodeURIComponent(text)).toBe(text)
      }),
    )
  })
})
