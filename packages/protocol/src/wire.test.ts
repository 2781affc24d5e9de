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

describe('a wrapped key', () => {
  it('is not empty', () => {
    expect(wire.wrapped.safeParse({ wrapped_key: 'AAAA', key_id, key_version: 1 }).success).toBe(true)
    expect(wire.wrapped.safeParse({ wrapped_key: '', key_id, key_version: 1 }).success).toBe(false)
  })
})
