import { describe, expect, it } from 'vitest'
import { checked, choice, type Infer, list, nullable, object, optional, readShape, record, string } from './shape.js'

const one = checked<1>((value) => value === 1, 'must be 1')
const shape = object({
  name: string,
  size: choice(['s', 'm']),
  at: optional(nullable(one)),
  parts: list(object({ one })),
})
const whole: Infer<typeof shape> = { name: 'x', size: 's', parts: [{ one: 1 }] }

describe('the shape of an answer', () => {
  it('returns what has it, without the members that it does not name', () => {
    expect(readShape(shape, { ...whole, at: null, parts: [{ one: 1, two: 2 }], more: { x: 1 } })).toEqual({
      ...whole,
      at: null,
    })
    expect(readShape(shape, whole)).toEqual(whole)
  })

  it.each([
    ['the body: must be an object', null],
    ['the body: must be an object', [whole]],
    ['name: must be text', {}],
    ['name: must be text', { ...whole, name: 7 }],
    ['size: must be one of s, m', { ...whole, size: 'l' }],
    ['size: must be one of s, m', { ...whole, size: ['s'] }],
    ['at: must be 1', { ...whole, at: 2 }],
    ['parts: must be an array', { ...whole, parts: { 0: { one: 1 }, length: 1 } }],
    ['parts.1.one: must be 1', { ...whole, parts: [{ one: 1 }, { one: 'secret' }] }],
  ])('names what is wrong, and none of its content: %s', (message, value) => {
    expect(() => readShape(shape, value)).toThrow(message)
  })

  it('does not take for a member what every object inherits', () => {
    expect(() => readShape(object({ constructor: checked(() => false, 'must not be read') }), {})).toThrow(
      'constructor',
    )
    expect(() => readShape(object({ toString: string }), {})).toThrow('toString: must be text')
    expect(readShape(object({ valueOf: optional(string) }), {})).toEqual({})
  })

  it('takes members of any name where it says so, `__proto__` among them, without touching a prototype', () => {
    const sent = JSON.parse('{"a":1,"__proto__":1,"constructor":1}')
    const read = readShape(record(one), sent)
    expect(Object.entries(read)).toEqual(Object.entries(sent))
    expect(Object.getPrototypeOf(read)).toBe(Object.prototype)
    expect(() => readShape(record(one), JSON.parse('{"__proto__":{"x":1}}'))).toThrow('__proto__: must be 1')
  })
})
