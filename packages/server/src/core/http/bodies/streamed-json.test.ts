// Parsing a body in parts gives the result of JSON.parse, or refuses what JSON.parse refuses, however the
// body is cut into chunks.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createPartedJson } from './json-body.js'

const parseWhole = (bytes: Uint8Array) => JSON.parse(Buffer.from(bytes).toString())

function parseParts(body: string, { chunk, limit = 1_000_000 }: { chunk: number; limit?: number }) {
  let largest = 0
  const parse = (bytes: Uint8Array) => {
    largest = Math.max(largest, bytes.length)
    return parseWhole(bytes)
  }
  const parted = createPartedJson(parse, limit)
  const bytes = Buffer.from(body)
  for (let at = 0; at < bytes.length; at += chunk) parted.add(bytes.subarray(at, at + chunk))
  return { value: parted.finish(), largest }
}

const outcome = (parse: () => unknown) => {
  try {
    return { value: parse() }
  } catch {
    return 'refused'
  }
}

describe('a body in parts', () => {
  it.each([
    '{"operations":[{"op":"wrap","a":{"b":[{}]}},{"op":"}]\\"{["}]}',
    '{"operations":[{"a":1}],"operations":[{"a":2},[{"item":0}],7,null,"x"]}',
    '{"a":{"item":1},"b":[{"item":1},{"item":0}],"c":[[{"a":1}]],"__proto__":[{"a":3}]}',
    '{"a":[{"item":0}',
    '{"a":[{"b":1]}',
    '{"a":[{"b":1}{"b":2}]}',
    '{"a":[{"b":}]}',
    '{"a":[{"b":1}]}}',
    '{"a"[{"b":1}]}',
    '{"a":[x{"b":1}]}',
    '[[{"a":1}]]',
    '[{"a":[{"a":1}]}]',
    ']]}[{"a":[{"a":1}]}',
    '7',
    '"{[{"',
    '{"é":[{"漢":"🔐"}]}',
  ])('is what JSON.parse makes of it: %s', (body) => {
    for (const chunk of [1, 2, 3, 7, 1_000]) {
      expect(outcome(() => parseParts(body, { chunk }).value)).toEqual(outcome(() => JSON.parse(body)))
    }
  })

  it('is what JSON.parse makes of it, whatever it is, and with any byte altered', () => {
    const lists = fc.dictionary(
      fc.string(),
      fc.oneof(fc.jsonValue({ maxDepth: 3 }), fc.array(fc.jsonValue({ maxDepth: 2 }))),
    )
    const altered = fc.option(fc.tuple(fc.nat(), fc.constantFrom(...'{}[]",:\\1 ')))
    fc.assert(
      fc.property(lists, fc.integer({ min: 1, max: 40 }), altered, (value, chunk, change) => {
        let body = JSON.stringify(value)
        if (change) {
          const at = change[0] % body.length
          body = body.slice(0, at) + change[1] + body.slice(at + 1)
        }
        expect(outcome(() => parseParts(body, { chunk }).value)).toEqual(outcome(() => JSON.parse(body)))
      }),
    )
  })

  it('ends its strings where JSON.parse ends them, however long they are and wherever their backslashes stand', () => {
    const text = fc.string({
      unit: fc.constantFrom('x', 'x', 'x', '\\', '"', '{', '[', 'é'),
      maxLength: 120,
      size: 'max',
    })
    fc.assert(
      fc.property(fc.array(text, { maxLength: 4 }), fc.integer({ min: 1, max: 60 }), (texts, chunk) => {
        const body = JSON.stringify({ a: texts.map((text) => ({ [text]: text, b: [text] })) })
        expect(parseParts(body, { chunk }).value).toEqual(JSON.parse(body))
      }),
    )
  })

  it('is never parsed in more than its longest part', () => {
    const operations = Array.from({ length: 1_000 }, (_, at) => ({ op: 'wrap', at, dek: 'x'.repeat(1_000) }))
    const { value, largest } = parseParts(JSON.stringify({ operations }), { chunk: 65_536 })
    expect(value).toEqual({ operations })
    expect(largest).toBeLessThan(20_000)
  })

  it.each([
    ['an item', `{"operations":[{"a":"${'x'.repeat(2_000)}"}]}`],
    ['what is left without the items', `{"operations":[${' '.repeat(2_000)}{}]}`],
  ])('is refused while it arrives where %s is longer than a part may be', (_, body) => {
    const parted = createPartedJson(parseWhole, 1_000)
    expect(() => parted.add(Buffer.from(body.slice(0, 1_800)))).toThrow(
      expect.objectContaining({ code: 'E_BODY_TOO_LARGE' }),
    )
  })
})
