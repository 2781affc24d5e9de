import { afterEach, describe, expect, it, vi } from 'vitest'
import * as wire from './wire.js'

afterEach(() => {
  vi.restoreAllMocks()
})

const key_id = '00000000-0000-4000-8000-000000000000'

describe('what checks a DEK', () => {
  it('leaves no copy of it behind', () => {
    const copies: Uint8Array[] = []
    const alloc = Buffer.alloc.bind(Buffer)
    vi.spyOn(Buffer, 'alloc').mockImplementation((length) => {
      const made = alloc(length)
      if (length === 32) copies.push(made)
      return made
    })
    const dek = btoa('\u0007'.repeat(32))
    expect(wire.unwrapped.safeParse({ dek, key_id, key_version: 1 }).success).toBe(true)
    expect(wire.wrap.safeParse({ dek }).success).toBe(true)
    expect(copies.map((copy) => [...copy])).toEqual([Array(32).fill(0), Array(32).fill(0)])
  })

  it.each([0, 16, 31, 33, 64])('refuses one of %d bytes', (length) => {
    const dek = btoa('\u0007'.repeat(length))
    expect(wire.wrap.safeParse({ dek }).success).toBe(false)
    expect(wire.unwrapped.safeParse({ dek, key_id, key_version: 1 }).success).toBe(false)
  })
})

describe('a wrapped key that a service answers', () => {
  const bundle = { ciphertext: 'AAAA', iv: 'AAAA' }
  const isTaken = (wrapped_key: string) => {
    const answer = { wrapped_key, key_id, key_version: 1 }
    const asBundle = wire.bundle.safeParse({ ...answer, ...bundle }).success
    expect(wire.wrapped.safeParse(answer).success).toBe(asBundle)
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
