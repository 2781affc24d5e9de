// The sample customers: every awkward cell is in them.
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'

const COLUMNS = ['id', 'full_name', 'email', 'phone', 'birth_date', 'address', 'notes', 'balance', 'country'] as const

type Customer = Record<(typeof COLUMNS)[number], string>

const committed = readFileSync(new URL('../../examples/data/customers.csv', import.meta.url))
const [header = [], ...rows] = parseCsv(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(committed))
const customers = rows.map((cells) => Object.fromEntries(COLUMNS.map((name, at) => [name, cells[at]])) as Customer)
const cells = rows.flat()

describe('the sample customers', () => {
  it('are at least 1,000, with a cell for each column', () => {
    expect(header).toEqual(COLUMNS)
    expect(rows.length).toBeGreaterThanOrEqual(1000)
    expect(rows.filter((row) => row.length !== COLUMNS.length)).toEqual([])
  })

  it('have an id and an email of their own, at a reserved domain', () => {
    expect(new Set(customers.map(({ id }) => id)).size).toBe(customers.length)
    expect(new Set(customers.map(({ email }) => email)).size).toBe(customers.length)
    for (const { email } of customers) expect(email).toMatch(/^[a-z0-9.+-]+@example\.(com|org|net)$/)
  })

  it('have telephone numbers of ranges kept for fiction only', () => {
    const fiction = [
      /^$/,
      /^\+999 /,
      /^(\+1 202 |\(312\) )555[ -]01\d\d$/,
      /^\+44 (20 7946 0|7700 900)\d{3}$/,
      /^\+33 (1 99 00|6 39 98) \d\d \d\d$/,
      /^\+49 (30 23125 \d{3}|171 39200\d\d)$/,
    ]
    for (const { phone } of customers)
      expect(
        fiction.some((range) => range.test(phone)),
        phone,
      ).toBe(true)
  })

  it.each([
    ['an accent', /é/],
    ['a sharp s', /ß/],
    ['an l with stroke', /ł/],
    ['Arabic', /\p{Script=Arabic}/u],
    ['Hebrew', /\p{Script=Hebrew}/u],
    ['Chinese', /\p{Script=Han}/u],
    ['a character beyond the basic plane', /𠮷/u],
    ['Hindi', /\p{Script=Devanagari}/u],
    ['an emoji joined of several', /👨‍👩‍👧‍👦/u],
    ['a right-to-left mark', /\u200f/],
    ['a combining accent', /[a-z]\u0301/],
    ['a quote', /"/],
    ['a comma', /,/],
    ['a line feed without a carriage return', /[^\r]\n/],
    ['a carriage return with a line feed', /\r\n/],
    ['a leading blank', /^ /],
    ['a trailing blank', /[ \t]$/],
    ['nothing', /^$/],
    ['a formula', /^=1\+1$/],
    ['NULL', /^NULL$/],
    ['a number with leading zeros', /^007$/],
  ])('have a cell with %s', (_, awkward) => {
    expect(cells.some((cell) => awkward.test(cell))).toBe(true)
  })

  it('have names both composed and decomposed', () => {
    const accented = customers.filter(
      (customer) => customer.full_name.normalize('NFC') !== customer.full_name.normalize('NFD'),
    )
    expect(accented.some((customer) => customer.full_name === customer.full_name.normalize('NFC'))).toBe(true)
    expect(accented.some((customer) => customer.full_name === customer.full_name.normalize('NFD'))).toBe(true)
  })

  it('have one note of 10 KB', () => {
    expect(customers.filter(({ notes }) => new TextEncoder().encode(notes).length >= 10 * 1024)).toHaveLength(1)
  })
})

/** RFC 4180: rows end with CRLF; a quoted cell may hold anything, its quotes doubled. */
function parseCsv(text: string): string[][] {
  const parsed: string[][] = []
  let row: string[] = []
  const cell = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/y
  while (cell.lastIndex < text.length) {
    const at = cell.lastIndex
    const [, quoted, plain = '', end] = cell.exec(text) ?? []
    if (end === undefined) throw new Error(`no CSV cell at character ${at}: ${text.slice(at, at + 40)}`)
    row.push(quoted?.replaceAll('""', '"') ?? plain)
    if (end === ',') continue
    parsed.push(row)
    row = []
  }
  return parsed
}
