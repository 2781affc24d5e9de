// Values of columns as a backfill reads them.
import { expect, it } from 'vitest'
import { assertHoldsEnvelopes, readColumn } from './postgres-values.js'

const column = (base: string) => ({ name: 'w', base }) as Parameters<typeof readColumn>[0]

it.each(['{"email":"x","log":1,"log":2}', '{"a":{"b":[{"c":1,"c":1}]}}', '12345678901234567890', '{"a":1e400}'])(
  'JSON that JavaScript would read as less is not read: %s',
  (text) => {
    expect(typeof readColumn(column('json'), text)).toBe('symbol')
    expect(readColumn(column('text'), text)).toBe(text)
  },
)

it.each(['{"a":"b: \\"c\\":1","d":[{"e":1.50},{"e":-2e3}]}', '"a:b"', '[]', 'null', '7'])(
  'JSON is read: %s',
  (text) => {
    expect(readColumn(column('json'), text)).toEqual(JSON.parse(text))
  },
)

it.each([
  ['timestamp without time zone', `to_json(date_trunc('milliseconds', "w"))#>>'{}' || 'Z', if its times are UTC;`],
  ['timestamp with time zone', `to_json(date_trunc('milliseconds', "w" at time zone 'UTC'))#>>'{}' || 'Z';`],
  ['integer', '"w"::text;'],
])('a column of type %s is refused with the statement that keeps its values', (base, using) => {
  expect(() => assertHoldsEnvelopes(column(base))).toThrow(
    expect.objectContaining({ hint: expect.stringContaining(`alter column "w" type text using ${using}`) }),
  )
})
