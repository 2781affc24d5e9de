import { describe, expect, it } from 'vitest'
import * as z from 'zod/mini'
import { type Answer, readAnswer } from './answers.js'
import { count } from './values.js'

const one = z.literal(1, 'must be 1')
const schema = z.object({
  name: z.string(),
  size: z.enum(['s', 'm']),
  at: z.optional(z.nullable(one)),
  parts: z.array(z.object({ one })),
})
const whole: z.output<typeof schema> = { name: 'x', size: 's', parts: [{ one: 1 }] }

describe('an answer', () => {
  it('is returned without the members that its schema does not name', () => {
    expect(readAnswer(schema, { ...whole, at: null, parts: [{ one: 1, two: 2 }], more: { x: 1 } })).toEqual({
      ...whole,
      at: null,
    })
    expect(readAnswer(schema, whole)).toEqual(whole)
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
  ])('is refused with what is wrong, and none of its content: %s', (message, value) => {
    expect(() => readAnswer(schema, value)).toThrow(new Error(message))
  })

  it.each([
    ['text', '1'],
    ['a fraction', 1.5],
    ['negative', -1],
    ['beyond what a number holds exactly', 2 ** 53],
    ['missing', undefined],
  ])('needs a whole number where one is counted, not one that is %s', (_, value) => {
    expect(() => readAnswer(z.object({ count }), { count: value })).toThrow('count: must be a whole number from 0')
  })

  it('does not take for a member what every object inherits', () => {
    expect(() => readAnswer(z.object({ toString: z.string() }), {})).toThrow('toString: must be text')
    expect(() => readAnswer(z.object({ constructor: z.string() }), {})).toThrow('constructor: must be text')
  })

  it('takes members of any name where it says so, without touching a prototype', () => {
    const names: Answer<Record<string, 1>> = z.record(z.string(), one)
    const read = readAnswer(names, JSON.parse('{"a":1,"__proto__":{"x":1},"constructor":1}'))
    expect(Object.entries(read)).toEqual(Object.entries({ a: 1, constructor: 1 }))
    expect(Object.getPrototypeOf(read)).toBe(Object.prototype)
    expect(({} as { x?: unknown }).x).toBeUndefined()
  })

  it('is read without code made of text, which a page with a content security policy forbids', () => {
    const made: unknown[] = []
    const own = globalThis.Function
    const Recording = new Proxy(own, {
      construct: (target, args) => {
        made.push(args)
        return Reflect.construct(target, args) as object
      },
    })
    try {
      globalThis.Function = Recording
      readAnswer(schema, whole)
      expect(() => readAnswer(schema, {})).toThrow()
    } finally {
      globalThis.Function = own
    }
    expect(made).toEqual([])
  })
})
