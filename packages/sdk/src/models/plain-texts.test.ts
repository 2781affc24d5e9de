// Values of all kinds that a column of type text or JSON holds as text, not sealed yet.
import { beforeEach, describe, expect, it } from 'vitest'
import { boolean, bytes, type Client, date, json, number, text } from '../index.js'
import { maintain } from '../maintenance.js'
import { failure, keyId, useClients } from '../test-support/clients.js'
import { itemsOf } from '../test-support/items-of.js'

const { connect } = useClients()
const kinds = {
  date: date().nullable(),
  number: number().nullable(),
  boolean: boolean().nullable(),
  json: json<unknown>().nullable(),
  bytes: bytes().nullable(),
  text: text().nullable(),
}
type Kind = keyof typeof kinds
let eaas: Client
beforeEach(() => {
  eaas = connect()
})

const nothing = { id: 7, date: null, number: null, boolean: null, json: null, bytes: null, text: null }
const modelOf = (more: object = {}) =>
  eaas.model({
    ...{ name: 'all', keyId, bind: ['id'], format: 'text', acceptPlaintext: true, warn: false },
    ...more,
    fields: kinds,
  })
const read = async (kind: Kind, stored: unknown, more: object = {}) =>
  ((await modelOf(more).decrypt({ ...nothing, [kind]: stored } as never)) as Record<string, unknown>)[kind]

describe('a text that is not sealed', () => {
  it.each<[Kind, string, unknown]>([
    ['date', '2026-01-31T10:00:00.123Z', new Date('2026-01-31T10:00:00.123Z')],
    ['date', '1906-12-09', new Date('1906-12-09T00:00:00.000Z')],
    ['date', '2026-01-31 10:00:00+00', new Date('2026-01-31T10:00:00.000Z')],
    ['date', '2026-01-31 10:00:00.12+05:30', new Date('2026-01-31T04:30:00.120Z')],
    ['date', '2026-01-31T10:00:00.120000-0230', new Date('2026-01-31T12:30:00.120Z')],
    ['date', '0001-01-01T00:00:00Z', new Date('0001-01-01T00:00:00.000Z')],
    ['number', '0', 0],
    ['number', '-7', -7],
    ['number', '12.50', 12.5],
    ['number', '0.1', 0.1],
    ['number', '1e21', 1e21],
    ['number', '9007199254740991', 9_007_199_254_740_991],
    ['boolean', 'true', true],
    ['boolean', 'false', false],
    ['json', '{"a": [1, "\\":", null], "b": {"a": 1.50}}', { a: [1, '":', null], b: { a: 1.5 } }],
    ['json', '[]', []],
    ['bytes', 'AP8=', new Uint8Array([0, 255])],
    ['bytes', '', new Uint8Array()],
    ['bytes', `${'AAAA'.repeat(19)}\n${'AAAA'.repeat(2)}`, new Uint8Array(63)],
    ['text', '7', '7'],
  ])('of a %s, %j, is read exactly', async (kind, stored, value) => {
    expect(await read(kind, stored)).toEqual(value)
    expect(modelOf().accepted.plaintext).toBe(0)
  })

  it.each<[Kind, string]>([
    ['date', '2025-01-31T10:00:00'], // of which zone?
    ['date', '2026-01-31 10:00:00.123456+00'],
    ['date', '2026-02-30'],
    ['date', '2026-01-31T25:00:00Z'],
    ['date', '2026-01-31T24:00:00Z'],
    ['date', '31.01.2026'],
    ['date', '2025-01'],
    ['date', '1769853600000'],
    ['date', 'infinity'],
    ['date', ''],
    ['number', '9007199254740993'],
    ['number', '0.1000000000000000055511151231257827'],
    ['number', '1e400'],
    ['number', '1e-400'],
    ['number', '0x10'],
    ['number', '007'],
    ['number', '1,5'],
    ['number', ' 1'],
    ['number', 'NaN'],
    ['number', ''],
    ['boolean', 't'],
    ['boolean', 'TRUE'],
    ['boolean', '1'],
    ['boolean', 'constructor'],
    ['json', 'null'],
    ['json', '"a"'],
    ['json', '5'],
    ['json', 'a'],
    ['json', '{"a":1'],
    ['json', '{"a":1,"a":2}'],
    ['json', '{"a":9007199254740993}'],
    ['bytes', '\\x00ff'],
    ['bytes', 'AP8'],
    ['bytes', 'not base64!'],
  ])('of a %s, %j, is refused, with the row and the field, and without the text', async (kind, stored) => {
    const error = await failure(read(kind, stored))
    expect(error).toMatchObject({
      code: 'E_INVALID_INPUT',
      hint: expect.stringMatching(/^Correct the stored text, or give a backfill a reader/),
      place: { field: kind },
    })
    expect(error.hint?.includes('`(stored) => stored`')).toBe(kind === 'json')
    expect(error.message).toMatch(/^all, id "7", field .*: expected the text of/)
    if (stored.length > 3 && stored !== 'null') expect(`${error.message} ${error.hint}`).not.toContain(stored)
  })

  it('is no value without acceptPlaintext', async () => {
    const error = await failure(read('number', '7', { acceptPlaintext: false }))
    expect(error.code).toBe('E_INVALID_INPUT')
  })

  it('is never an envelope, nor JSON with one inside', async () => {
    const { text: envelope }: Record<string, unknown> = await modelOf().encrypt({ ...nothing, text: 'x' } as never)
    const sealed = String(envelope)
    for (const stored of [JSON.stringify([sealed]), JSON.stringify([1, sealed]), sealed.slice(0, 40)]) {
      for (const kind of ['json', 'bytes', 'date'] as const) {
        expect(await failure(read(kind, stored))).toMatchObject({ code: 'E_INVALID_INPUT' })
      }
    }
  })

  it('in a column of JSON is read likewise, and refused where it may be JSON or a text', async () => {
    for (const format of ['full', 'compact']) {
      expect(await read('date', '1906-12-09', { format })).toEqual(new Date('1906-12-09'))
      expect(await read('bytes', 'AP8=', { format })).toEqual(new Uint8Array([0, 255]))
      for (const value of ['a', '7', { a: 1 }]) expect(await read('json', value, { format })).toEqual(value)
      const error = await failure(read('json', '{"a":1}', { format }))
      expect([error.code, error.hint]).toEqual(['E_INVALID_INPUT', expect.stringContaining("format: 'text'")])
    }
  })

  it('of JSON is read from a column of text, whichever text the model stores there', async () => {
    for (const format of ['text', 'compact-text'] as const) {
      const model = modelOf({ format })
      const open = (json: unknown) => model.decrypt({ ...nothing, json } as never)
      await expect(open('{"a": 1}')).resolves.toMatchObject({ json: { a: 1 } })
      await expect(open('hello')).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
    }
  })

  it('is sealed by reseal as what it is, and left alone by rewrap', async () => {
    const row = { ...nothing, date: '1906-12-09', number: '12.50', boolean: 'true', json: '{"a": 1}', bytes: 'AP8=' }
    expect(await itemsOf(modelOf().rewrap([row] as never[]))).toMatchObject([{ status: 'current', row }])
    const items: unknown[] = await itemsOf(modelOf().reseal([row] as never[]))
    const [item] = items as { row: never }[]
    expect(await modelOf({ acceptPlaintext: false }).decrypt(item?.row as never)).toEqual({
      ...nothing,
      ...{ date: new Date('1906-12-09'), number: 12.5, boolean: true, json: { a: 1 }, bytes: new Uint8Array([0, 255]) },
    })
  })
})

describe('the maintenance', () => {
  it('seals texts as what they are, and those of a reader as they are', async () => {
    const row = { ...nothing, date: '1906-12-09', number: '7', json: 'ignored' }
    const bad = { ...nothing, id: 8, number: '7 apples', json: 'ignored' }
    const { workOn } = await maintain(modelOf(), { work: 'seal', read: { json: () => '{"a":1}' } })
    const [sealed, failed] = await workOn([row, bad])
    expect(sealed?.status).toBe('changed')
    const stored = { ...row, ...(sealed?.status === 'changed' ? sealed.to : {}) }
    // The reader's text is the value.
    const opened = { ...nothing, date: new Date('1906-12-09'), number: 7, json: '{"a":1}' }
    expect(await modelOf({ acceptPlaintext: false }).decrypt(stored as never)).toEqual(opened)
    expect(failed).toMatchObject({ status: 'failed', error: { code: 'E_INVALID_INPUT', place: { field: 'number' } } })
  })

  it('opens what is sealed, and leaves texts that are not as they were', async () => {
    const { text: sealed } = await modelOf().encrypt({ ...nothing, text: 'x' } as never)
    const row = { ...nothing, text: sealed, number: '12.50', json: '{"a": 1}' }
    const { workOn } = await maintain(modelOf(), { work: 'open' })
    expect(await workOn([row])).toEqual([{ status: 'changed', to: { text: 'x' } }])
  })
})
