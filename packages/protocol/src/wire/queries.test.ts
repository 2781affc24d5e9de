// Query strings: text parsed strictly into numbers and times.
import { describe, expect, it } from 'vitest'
import type { ZodMiniType } from 'zod/mini'
import { describeIssue } from '../wire.js'
import { QUERIES } from './queries.js'

const { listAudit, listKeys, getUsage } = QUERIES

function read<Value>(schema: ZodMiniType<Value>, query: Record<string, unknown>): Value {
  return schema.parse(query)
}

/** Values that are not whole numbers, each with its name. */
const NO_NUMBERS: [string, unknown][] = [
  ['nothing', ''],
  ['a blank', ' '],
  ['a word', 'ten'],
  ['negative', '-1'],
  ['negative zero', '-0'],
  ['an exponent', '1e3'],
  ['hexadecimal', '0x10'],
  ['octal', '0o7'],
  ['binary', '0b1'],
  ['a fraction', '1.5'],
  ['a fraction of zeros', '5.0'],
  ['a full stop behind', '5.'],
  ['a blank in front', ' 5'],
  ['a blank behind', '5 '],
  ['a plus', '+5'],
  ['a plus that became a blank', ' 5'],
  ['a zero in front', '05'],
  ['a line feed behind', '5\n'],
  ['a NUL behind', '5\0'],
  ['thousands', '1,000'],
  ['an underscore', '1_000'],
  ['an n behind', '5n'],
  ['NaN', 'NaN'],
  ['Infinity', 'Infinity'],
  ['null', 'null'],
  ['true', 'true'],
  ['Arabic digits', '\u0665'],
  ['full-width digits', '\uff15'],
  ['a superscript', '\u00b2'],
  ['twice', ['5', '6']],
  ['twice the same', ['5', '5']],
  ['an object', { a: '5' }],
  ['a number, which no query string holds', 5],
]

/** Whole numbers that a number of JavaScript does not hold exactly, or not as the only one. */
const BEYOND_EXACT: [string, string][] = [
  ['2^53', '9007199254740992'],
  ['2^53 + 1', '9007199254740993'],
  ['10^16 - 1', '9999999999999999'],
]

const TOO_MANY_DIGITS: [string, string][] = [
  ['2^63', '9223372036854775808'],
  ['2^63 - 1', '9223372036854775807'],
  ['10^20', '100000000000000000000'],
  ['10^400', `1${'0'.repeat(400)}`],
]

describe('limit', () => {
  it.each([
    ['1', 1],
    ['5', 5],
    ['99', 99],
    ['100', 100],
    ['101', 100],
    ['1000', 100],
    ['2147483647', 100],
    ['2147483648', 100],
    ['9007199254740992', 100],
    ['9999999999999999', 100],
  ])('of the log may be %s, which is %d: there is a cap, and no error above it', (text, limit) => {
    expect(read(listAudit, { limit: text }).limit).toBe(limit)
  })

  it.each(TOO_MANY_DIGITS)('of the log is 100 however many digits it has: %s', (_, limit) => {
    expect(read(listAudit, { limit }).limit).toBe(100)
  })

  it.each([['10001', 10_000], ...TOO_MANY_DIGITS.map(([, text]) => [text, 10_000] as const)] as const)(
    'of keys has a cap of its own, as many as a tenant has: %s',
    (limit, most) => {
      expect(read(listKeys, { limit }).limit).toBe(most)
    },
  )

  it('of the log is 50 where it is not given', () => {
    expect(read(listAudit, {})).toEqual({ limit: 50, offset: 0, order: 'desc' })
  })

  it('of keys has no default', () => {
    expect(read(listKeys, {})).toEqual({})
  })

  it.each([...NO_NUMBERS, ['zero', '0']])('is refused: %s', (_, limit) => {
    expect(() => read(listAudit, { limit })).toThrow(invalid('limit'))
    expect(() => read(listKeys, { limit })).toThrow(invalid('limit'))
  })
})

describe.each(['offset', 'after_id'] as const)('%s', (name) => {
  it.each([
    ['0', 0],
    ['1', 1],
    ['2147483648', 2 ** 31],
    ['9007199254740991', Number.MAX_SAFE_INTEGER],
  ])('may be %s', (text, value) => {
    expect(read(listAudit, { [name]: text })[name]).toBe(value)
  })

  it.each([...NO_NUMBERS, ...BEYOND_EXACT, ...TOO_MANY_DIGITS])('is refused: %s', (_, value) => {
    expect(() => read(listAudit, { [name]: value })).toThrow(invalid(name))
  })

  it.each([...BEYOND_EXACT, ...TOO_MANY_DIGITS])('is refused with the largest that it may be: %s', (_, value) => {
    const { error } = listAudit.safeParse({ [name]: value })
    expect(error && describeIssue(error, '')).toBe(`${name}: must be a whole number from 0 to 9007199254740991`)
  })
})

describe('a time', () => {
  it('is rounded inwards, so that both bounds stay inclusive', () => {
    const time = '2026-08-11T09:30:00.0001Z'
    const { date_from, date_to } = read(listAudit, { date_from: time, date_to: time })
    expect(date_from).toBe('2026-08-11T09:30:00.001Z')
    expect(date_to).toBe('2026-08-11T09:30:00.000Z')
  })

  it.each([
    ['nothing', ''],
    ['a number', '1'],
    ['a date only', '2026-08-11'],
    ['no zone', '2026-08-11T09:30:00'],
    ['30 February', '2026-02-30T00:00:00Z'],
    ['a bare plus, which is a blank by now', '2026-08-11T09:30:00 02:00'],
    ['twice', ['2026-08-11T09:30:00Z', '2026-08-11T09:30:00Z']],
  ])('is refused, never ignored: %s', (_, time) => {
    expect(() => read(listAudit, { date_from: time })).toThrow(invalid('date_from'))
    expect(() => read(listAudit, { date_to: time })).toThrow(invalid('date_to'))
  })
})

describe('a filter', () => {
  it('takes what is', () => {
    const filter = { key_id: '0b54f9a4-6f0e-4c1c-9d2a-5e7a1c3b8f60', action: 'key.wrap', order: 'asc' }
    expect(read(listAudit, filter)).toMatchObject(filter)
    const [ID, OPERATOR] = [filter.key_id.toUpperCase(), `operator:${filter.key_id}`]
    expect(read(listAudit, { ...filter, key_id: ID, actor: ID })).toMatchObject({ ...filter, actor: filter.key_id })
    expect(read(listAudit, { actor: `operator:${ID}` })).toMatchObject({ actor: OPERATOR })
    expect(read(listAudit, { actor: 'operator:Ada' })).toMatchObject({ actor: 'operator:Ada' })
    expect(read(listKeys, { status: 'active', name: 'ключ 🗝' })).toEqual({ status: 'active', name: 'ключ 🗝' })
    expect(read(getUsage, { month: '2026-08' })).toEqual({ month: '2026-08' })
    expect(read(getUsage, {})).toEqual({})
  })

  it.each([
    ['a name for a key', listAudit, 'key_id', 'users'],
    ['a UUID without dashes', listAudit, 'key_id', '0b54f9a46f0e4c1c9d2a5e7a1c3b8f60'],
    ['no UUID', listAudit, 'key_id', ''],
    ['an unknown action', listAudit, 'action', 'key.steal'],
    ['an action in capitals', listAudit, 'action', 'KEY.WRAP'],
    ['a property of every object as the action', listAudit, 'action', 'toString'],
    ['no action', listAudit, 'action', ''],
    ['two actions', listAudit, 'action', ['key.wrap', 'key.unwrap']],
    ['an order in capitals', listAudit, 'order', 'ASC'],
    ['an order with SQL behind', listAudit, 'order', 'asc; drop table keys'],
    ['an unknown status', listKeys, 'status', 'lost'],
    ['a name with a NUL, which the database refuses', listKeys, 'name', 'a\0'],
    ['two names', listKeys, 'name', ['a', 'b']],
    ['month 0', getUsage, 'month', '2026-00'],
    ['month 13', getUsage, 'month', '2026-13'],
    ['year 0', getUsage, 'month', '0000-01'],
    ['a day', getUsage, 'month', '2026-08-11'],
    ['a month of one digit', getUsage, 'month', '2026-8'],
    ['no month', getUsage, 'month', ''],
    ['a line feed behind the month', getUsage, 'month', '2026-08\n'],
    ['Arabic digits in the month', getUsage, 'month', '\u0662\u0660\u0662\u0666-08'],
  ])('refuses %s', (_, schema, name, value) => {
    expect(() => read(schema as ZodMiniType<unknown>, { [name]: value })).toThrow(invalid(name))
  })

  it.each(['user', 'date_form', 'Limit', 'limit ', '', 'toString', 'constructor', '__proto__'])(
    'of any call refuses a parameter that it does not know: %j',
    (name) => {
      for (const query of Object.values(QUERIES)) {
        const { success, error } = query.safeParse(JSON.parse(`{${JSON.stringify(name)}:"1"}`))
        expect(success).toBe(false)
        const [takes] = Object.keys(query.shape)
        expect(error && describeIssue(error, '')).toMatch(`${name}: is no parameter of this call, which takes ${takes}`)
      }
    },
  )

  it('repeats no name that is longer than a misspelt one: it can be an API key in the wrong place', () => {
    const { error } = listAudit.safeParse({ ['x'.repeat(21)]: '1' })
    expect(error && describeIssue(error, '')).toMatch(/^a longer name: is no/)
  })
})

function invalid(field: string) {
  return expect.objectContaining({ issues: [expect.objectContaining({ path: [field] })] })
}
