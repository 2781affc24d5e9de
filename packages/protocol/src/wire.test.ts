import fc from 'fast-check'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { decodeBase64, encodeBase64 } from './bytes.js'
import * as wire from './wire.js'

afterEach(() => {
  vi.restoreAllMocks()
})

const key_id = '00000000-0000-4000-8000-000000000000'

function fits(schema: wire.Answer, value: unknown): boolean {
  try {
    wire.readAnswer(schema, value)
    return true
  } catch (error) {
    if (!(error instanceof wire.AnswerError)) throw error
    return false
  }
}

describe('what checks a DEK', () => {
  it('makes no copy of it', () => {
    const dek = btoa('\u0007'.repeat(32))
    wire.wrap.safeParse({ dek }) // the first check of a process makes the buffer that all of them decode into
    const alloc = vi.spyOn(Buffer, 'alloc')
    expect(fits(wire.unwrapped, { dek, key_id, key_version: 1 })).toBe(true)
    expect(wire.wrap.safeParse({ dek }).success).toBe(true)
    expect(alloc).not.toHaveBeenCalled()
  })

  it.each([0, 16, 31, 33, 64])('refuses one of %d bytes', (length) => {
    const dek = btoa('\u0007'.repeat(length))
    expect(wire.wrap.safeParse({ dek }).success).toBe(false)
    expect(fits(wire.unwrapped, { dek, key_id, key_version: 1 })).toBe(false)
  })
})

describe('base64 in a body', () => {
  const isTaken = (wrapped_key: string) => wire.unwrap.safeParse({ wrapped_key }).success
  const isDecoded = (text: string) => {
    try {
      decodeBase64(text)
      return true
    } catch {
      return false
    }
  }

  it('is taken where it can be decoded, and nowhere else', () => {
    const characters = fc.constantFrom(...'AQgwEIZz059+/=-_ \n\u00e9\u0141')
    fc.assert(
      fc.property(fc.array(characters, { maxLength: 9 }), (text) => {
        expect(isTaken(text.join(''))).toBe(isDecoded(text.join('')))
      }),
      { numRuns: 3_000 },
    )
    fc.assert(fc.property(fc.uint8Array({ maxLength: 99 }), (bytes) => isTaken(encodeBase64(bytes))))
  })

  it('is taken with any last character that leaves no bits over, and with no other', () => {
    for (const last of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/') {
      for (const text of [`AA${last}=`, `A${last}==`]) expect([text, isTaken(text)]).toEqual([text, isDecoded(text)])
    }
  })

  it('may be as long as a body', () => {
    expect(isTaken('A'.repeat(8 * 1_048_576))).toBe(true)
  })
})

describe('a wrapped key that a service answers', () => {
  const bundle = { ciphertext: 'AAAA', iv: 'AAAA' }
  const isTaken = (wrapped_key: string) => {
    const answer = { wrapped_key, key_id, key_version: 1 }
    const asBundle = fits(wire.bundle, { ...answer, ...bundle })
    expect(fits(wire.wrapped, answer)).toBe(asBundle)
    return asBundle
  }

  it.each([
    ['of format 1', btoa('\u0001'.repeat(65))],
    ['of one byte', 'AA=='],
    ['of a KMS', btoa('\u0002'.repeat(184))],
    ['of 1,024 characters', 'A'.repeat(1_024)],
  ])('may be one %s: it is opaque', (_, wrapped_key) => {
    expect(isTaken(wrapped_key)).toBe(true)
  })

  it.each([
    ['empty', ''],
    ['a lone surrogate', '\ud800'],
    ['not base64', 'vault:v1:AAAA'],
    ['URL-safe base64', '_-_-'],
    ['base64 without padding', 'AA'],
    ['followed by a line feed', 'AAAA\n'],
    ['of 1,028 characters', 'A'.repeat(1_028)],
  ])('is refused when it is %s', (_, wrapped_key) => {
    expect(isTaken(wrapped_key)).toBe(false)
  })
})
