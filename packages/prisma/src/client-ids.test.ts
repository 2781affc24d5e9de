import { describe, expect, it } from 'vitest'
import { findClientDefault } from './client-ids.js'

describe('an id of a Prisma client', () => {
  it.each([
    ['uuid', '', /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/],
    ['uuid', '7', /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/],
    ['cuid', '', /^c[0-9a-z]{24}$/],
    ['cuid', '2', /^[a-z][0-9a-z]{23}$/],
    ['nanoid', '', /^[\w-]{21}$/],
    ['nanoid', '10', /^[\w-]{10}$/],
    ['ulid', '', /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/],
  ])('of %s(%s) has its form, and is never made twice', (name, argument, form) => {
    const make = findClientDefault(name, argument)
    const made = Array.from({ length: 1_000 }, () => make?.() ?? '')
    for (const id of made) expect(id).toMatch(form)
    expect(new Set(made).size).toBe(made.length)
  })
  it('sorts by the time where its form does', async () => {
    for (const [name, argument] of [
      ['uuid', '7'],
      ['ulid', ''],
      ['cuid', ''],
    ] as const) {
      const make = findClientDefault(name, argument)
      const first = make?.() ?? ''
      await new Promise((resolve) => setTimeout(resolve, 3))
      expect(first < (make?.() ?? '')).toBe(true)
    }
  })
  it('is none of what the database makes', () => {
    for (const name of ['autoincrement', 'dbgenerated', 'now']) expect(findClientDefault(name, '')).toBeUndefined()
  })
})
