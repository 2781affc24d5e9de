import { expect, it } from 'vitest'
import { withoutSkips } from './values.js'

const skip = { ifUndefined: () => undefined }

it('leaves out what is Prisma.skip on every level, but not in a list, where Prisma refuses it', () => {
  const born = new Date(0)
  const args = { where: { id: skip, born }, data: [{ nick: skip, city: 'Rome' }, skip], take: undefined }
  const given = { ...args }
  expect(withoutSkips(args)).toStrictEqual({ where: { born }, data: [{ city: 'Rome' }, skip], take: undefined })
  expect(args).toStrictEqual(given)
})

it('copies JSON as it is, also a member named __proto__, and deeper than the stack', () => {
  const odd: unknown = JSON.parse('{"__proto__":{"a":[1,null]}}')
  expect(JSON.stringify(withoutSkips({ data: odd }))).toBe(JSON.stringify({ data: odd }))
  for (const [open, close] of [
    ['[', ']'],
    ['{"a":', '}'],
  ]) {
    let deep: unknown = withoutSkips(JSON.parse(`{"data":${open?.repeat(50_000)}1${close?.repeat(50_000)}}`))
    let levels = -1
    for (; typeof deep === 'object' && deep !== null; deep = Object.values(deep)[0]) levels++
    expect([levels, deep]).toEqual([50_000, 1])
  }
})
