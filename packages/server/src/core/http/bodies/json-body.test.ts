// Bodies: JSON in UTF-8 of a limited depth, and nothing else.
import { Readable } from 'node:stream'
import { MAX_BODY_BYTES } from '@eaas/protocol'
import fc from 'fast-check'
import { fastify } from 'fastify'
import { afterAll, describe, expect, it } from 'vitest'
import { Refusal } from '../../runner/refusal.js'
import { readJsonBodies } from './json-body.js'

const app = fastify({ bodyLimit: MAX_BODY_BYTES })
const outcomes: ({ body: unknown } | { error: unknown })[] = []
readJsonBodies(app)
app.setErrorHandler((error, _, reply) => {
  outcomes.push({ error })
  return reply.send()
})
app.post('/', ({ body }, reply) => {
  outcomes.push({ body })
  return reply.send()
})
afterAll(() => app.close())

/** What a call has as its body; what refuses it is thrown. */
async function readAsBody(payload: Uint8Array | Readable): Promise<unknown> {
  const sent = payload instanceof Readable ? payload : Buffer.from(payload)
  await app.inject({ method: 'POST', url: '/', headers: { 'content-type': 'application/json' }, payload: sent })
  const outcome = outcomes.pop()
  if (!outcome || 'error' in outcome) throw outcome?.error
  return outcome.body
}

const utf8 = (text: string) => new TextEncoder().encode(text)
const nested = (depth: number, [opening, closing]: readonly [string, string] = ['[', ']']) =>
  utf8(`${opening.repeat(depth)}1${closing.repeat(depth)}`)
const OBJECTS = ['{"a":', '}'] as const

describe('a body', () => {
  it.each<[string, string, unknown]>([
    ['an object', '{"a":1}', { a: 1 }],
    ['white space around', ' \t\r\n{"a": 1 } \n', { a: 1 }],
    ['an array', '[1,2]', [1, 2]],
    ['a string', '"a"', 'a'],
    ['null', 'null', null],
    ['a number with an exponent', '1e3', 1000],
    ['text beyond ASCII', '{"a":"é漢🔐\u2028"}', { a: 'é漢🔐\u2028' }],
    ['an escaped NUL, which the schemas refuse', '"\\u0000"', '\0'],
    ['an escaped lone surrogate, which the schemas refuse', '"\\ud800"', '\ud800'],
    ['a name in two objects', '{"a":{"a":1},"b":[{"a":1},{"a":1}]}', { a: { a: 1 }, b: [{ a: 1 }, { a: 1 }] }],
    ['colons in names and texts', '{":\\":":"\\\\:"}', { ':":': '\\:' }],
  ])('is read: %s', async (_, text, value) => {
    expect(await readAsBody(utf8(text))).toEqual(value)
  })

  it.each([
    '{"a":1,"a":2}',
    '{"a":1,"a":1}',
    '{"a":1,"\\u0061":2}',
    '{"na\\u006de":1,"name":2}',
    '{"":1,"":2}',
    '{"__proto__":1,"__proto__":2}',
    '{"b":{"a":1,"c":[],"a":2}}',
    '{"operations":[{"op":"a"},{"op":"a","op":"b"}]}',
    '{"operations":[{"a":1}],"operations":[{"a":1}]}',
    '[[{"a":{"b":1,"b":1}}]]',
  ])('is refused if a member stands twice: %s', async (text) => {
    const repeated = malformed('an object in the body has a member twice: send each member once')
    await expect(readAsBody(utf8(text))).rejects.toThrow(repeated)
    await expect(readAsBody(Readable.from([...text].map(utf8)))).rejects.toThrow(repeated)
  })

  it('may be empty', async () => {
    expect(await readAsBody(new Uint8Array(0))).toBeUndefined()
    expect(await readAsBody(Readable.from([]))).toBeUndefined()
  })

  it.each([
    ['a blank', ' '],
    ['a line feed', '\n'],
    ['cut after the brace', '{'],
    ['cut in a name', '{"a'],
    ['cut after a colon', '{"a":'],
    ['cut in a string', '{"a":"b'],
    ['cut in an escape', '"\\u00'],
    ['cut in a word', 'tru'],
    ['something behind', '{"a":1}x'],
    ['two objects', '{}{}'],
    ['a NUL behind', '{}\0'],
    ['a byte order mark', '\ufeff{}'],
    ['a comment', '{"a":1/* b */}'],
    ['a comment to the end of the line', '{} // b'],
    ['a comma behind the last member', '{"a":1,}'],
    ['a comma behind the last item', '[1,]'],
    ['NaN', '{"a":NaN}'],
    ['Infinity', '{"a":Infinity}'],
    ['-Infinity', '-Infinity'],
    ['undefined', 'undefined'],
    ['a number with a plus', '+1'],
    ['a number with a zero in front', '01'],
    ['a number in hexadecimal', '0x10'],
    ['a number with a full stop behind', '1.'],
    ['a number that starts with a full stop', '.5'],
    ['single quotes', "{'a':1}"],
    ['a name without quotes', '{a:1}'],
    ['a bare line feed in a string', '"a\nb"'],
    ['a bare tab in a string', '"a\tb"'],
    ['a bare NUL in a string', '"a\0b"'],
    ['an unknown escape', '"\\x41"'],
    ['a form', 'a=1&b=2'],
    ['a non-breaking space', '\u00a0{}'],
    ['capitals', 'NULL'],
  ])('is refused: %s', async (_, text) => {
    await expect(readAsBody(utf8(text))).rejects.toThrow(malformed('the body is not valid JSON in UTF-8'))
  })

  it.each([
    ['a byte that starts nothing', [0xff]],
    ['a continuation byte alone', [0x80]],
    ['a sequence cut', [0xc3]],
    ['a sequence of three cut', [0xe2, 0x82]],
    ['an overlong slash', [0xc0, 0xaf]],
    ['an overlong NUL', [0xc0, 0x80]],
    ['an overlong character of three bytes', [0xe0, 0x80, 0xaf]],
    ['a surrogate', [0xed, 0xa0, 0x80]],
    ['a pair of surrogates', [0xed, 0xa0, 0xbd, 0xed, 0xb4, 0x90]],
    ['beyond U+10FFFF', [0xf4, 0x90, 0x80, 0x80]],
    ['five bytes', [0xf8, 0x88, 0x80, 0x80, 0x80]],
    ['Latin-1', [0xe9]],
  ])('is refused, not repaired: %s', async (_, bytes) => {
    const body = new Uint8Array([...utf8('{"a":"'), ...bytes, ...utf8('"}')])
    await expect(readAsBody(body)).rejects.toThrow(malformed('the body is not valid JSON in UTF-8'))
  })

  it.each(['utf-16le', 'utf-16be'] as const)('is refused in %s', async (encoding) => {
    const little = Buffer.from('{"a":1}', 'utf16le')
    await expect(readAsBody(encoding === 'utf-16le' ? little : Buffer.from(little).swap16())).rejects.toThrow(Refusal)
  })

  it.each([
    ['arrays', ['[', ']']],
    ['objects', OBJECTS],
  ] as const)('is read 32 %s deep and refused from 33 on, however deep', async (_, brackets) => {
    await expect(readAsBody(nested(32, brackets))).resolves.toBeDefined()
    for (const depth of [33, 34, 1_000, 100_000, 170_000]) {
      await expect(readAsBody(nested(depth, brackets)), `${depth}`).rejects.toThrow(
        malformed('the body is nested deeper than 32'),
      )
    }
  })

  it('is refused for its deepest part, wherever that stands', async () => {
    const deep = '['.repeat(40) + ']'.repeat(40)
    for (const text of [
      `{"a":1,"b":${deep}}`,
      `[[],{},${deep},null]`,
      `{"__proto__":${deep}}`,
      `{"a":{"b":[0,${deep}]}}`,
    ]) {
      await expect(readAsBody(utf8(text)), text).rejects.toThrow('nested deeper than 32')
    }
  })

  it('is read when it has 20,000 values, and refused from 20,001 on, before it is parsed', async () => {
    expect(await readAsBody(utf8(`[${'0,'.repeat(19_997)}0]`))).toHaveLength(19_998)
    expect(await readAsBody(utf8(`[${'[],'.repeat(9_998)}0]`))).toHaveLength(9_999)
    for (const text of [
      `[${'0,'.repeat(20_000)}0]`,
      `[${'[],'.repeat(10_001)}`,
      `{${'"a":1,'.repeat(20_000)}`,
      ','.repeat(20_001),
    ]) {
      await expect(readAsBody(utf8(text)), text.slice(0, 20)).rejects.toThrow(
        malformed('the body has more than 20000 values'),
      )
    }
  })

  it('has no structure within its strings', async () => {
    const text = '"\\\\\\"[{,'.repeat(20_000)
    expect(await readAsBody(utf8(JSON.stringify({ text })))).toEqual({ text })
    await expect(readAsBody(utf8(`{"a":"\\\\",${'['.repeat(33)}`))).rejects.toThrow('nested deeper than 32')
  })

  it('pollutes nothing', async () => {
    for (const name of ['__proto__', 'constructor', 'prototype']) {
      const value = (await readAsBody(utf8(`{"${name}":{"polluted":1,"prototype":{"polluted":1}}}`))) as object
      expect(Object.hasOwn(value, name)).toBe(true)
      expect(({} as { polluted?: unknown }).polluted).toBeUndefined()
    }
  })

  it('is repeated in no message', async () => {
    await expect(readAsBody(utf8('{"dek":"c2VjcmV0IGJhbmNhaXJl"'))).rejects.toThrow(
      expect.objectContaining({ message: expect.not.stringContaining('c2VjcmV0') }),
    )
  })

  it('is whatever JSON says, or refused as malformed', async () => {
    await fc.assert(
      fc.asyncProperty(fc.jsonValue({ maxDepth: 5 }), async (value) => {
        expect(await readAsBody(utf8(JSON.stringify(value)))).toEqual(JSON.parse(JSON.stringify(value)))
      }),
    )
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(fc.uint8Array(), fc.string({ unit: fc.constantFrom(...'{}[]":,\\u0d8ae1-. \n') }).map(utf8)),
        async (body) => {
          try {
            await readAsBody(body)
          } catch (error) {
            expect(error).toMatchObject({ code: 'E_MALFORMED_REQUEST' })
          }
        },
      ),
    )
  })
})

function malformed(message: string) {
  return expect.objectContaining({ name: 'Refusal', code: 'E_MALFORMED_REQUEST', message })
}
