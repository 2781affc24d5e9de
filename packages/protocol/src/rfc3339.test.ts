// Times of RFC 3339, read strictly.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseRfc3339 } from './rfc3339.js'

describe('a time', () => {
  it.each([
    ['2026-08-11T09:30:00Z', '2026-08-11T09:30:00.000Z'],
    ['2026-08-11t09:30:00z', '2026-08-11T09:30:00.000Z'],
    ['2026-08-11T09:30:00+02:00', '2026-08-11T07:30:00.000Z'],
    ['2026-08-11T09:30:00-05:30', '2026-08-11T15:00:00.000Z'],
    ['2026-08-11T09:30:00+00:00', '2026-08-11T09:30:00.000Z'],
    ['2026-08-11T09:30:00-00:00', '2026-08-11T09:30:00.000Z'],
    ['2026-08-11T09:30:00+23:59', '2026-08-10T09:31:00.000Z'],
    ['2026-08-11T09:30:00-23:59', '2026-08-12T09:29:00.000Z'],
    ['2026-08-11T09:30:00.1Z', '2026-08-11T09:30:00.100Z'],
    ['2026-08-11T09:30:00.12Z', '2026-08-11T09:30:00.120Z'],
    ['2026-08-11T09:30:00.123Z', '2026-08-11T09:30:00.123Z'],
    ['2026-08-11T09:30:00.123000000Z', '2026-08-11T09:30:00.123Z'],
    ['2026-08-11T09:30:00.123000000000000Z', '2026-08-11T09:30:00.123Z'],
    ['2024-02-29T00:00:00Z', '2024-02-29T00:00:00.000Z'],
    ['2000-02-29T00:00:00Z', '2000-02-29T00:00:00.000Z'],
    ['2026-12-31T23:59:59.999Z', '2026-12-31T23:59:59.999Z'],
    ['2026-12-31T23:30:00-01:00', '2027-01-01T00:30:00.000Z'],
    ['0001-01-01T00:00:00Z', '0001-01-01T00:00:00.000Z'],
    ['0026-08-11T00:00:00Z', '0026-08-11T00:00:00.000Z'],
    ['0099-12-31T00:00:00Z', '0099-12-31T00:00:00.000Z'],
    ['1582-10-10T00:00:00Z', '1582-10-10T00:00:00.000Z'],
    ['9999-12-31T23:59:59.999Z', '9999-12-31T23:59:59.999Z'],
    ['1990-12-31T23:59:60Z', '1991-01-01T00:00:00.000Z'],
    ['1990-12-31T15:59:60-08:00', '1991-01-01T00:00:00.000Z'],
    ['2016-12-31T23:59:60Z', '2017-01-01T00:00:00.000Z'],
    ['2017-01-01T00:59:60+01:00', '2017-01-01T00:00:00.000Z'],
    ['2015-06-30T23:59:60.25Z', '2015-07-01T00:00:00.250Z'],
    ['2015-07-01T05:29:60+05:30', '2015-07-01T00:00:00.000Z'],
    ['2024-02-29T23:59:60Z', '2024-03-01T00:00:00.000Z'],
    ['9999-12-31T23:59:60Z', '9999-12-31T23:59:59.999Z'],
  ])('%s is %s, rounded up or down', (text, time) => {
    expect(parseRfc3339(text, 'up')).toBe(time)
    expect(parseRfc3339(text, 'down')).toBe(time)
  })

  it.each([
    ['2026-08-11T09:30:00.1234Z', '.123Z', '.124Z'],
    ['2026-08-11T09:30:00.123000001Z', '.123Z', '.124Z'],
    ['2026-08-11T09:30:00.123999999Z', '.123Z', '.124Z'],
    ['2026-08-11T09:30:00.1230000000001Z', '.123Z', '.124Z'],
    ['2026-08-11T09:30:00.000000001Z', '.000Z', '.001Z'],
  ])('%s ends in %s rounded down, in %s rounded up', (text, down, up) => {
    expect(parseRfc3339(text, 'down')).toBe(`2026-08-11T09:30:00${down}`)
    expect(parseRfc3339(text, 'up')).toBe(`2026-08-11T09:30:00${up}`)
  })

  it('rounded up carries into the next year', () => {
    expect(parseRfc3339('2026-12-31T23:59:59.9991Z', 'up')).toBe('2027-01-01T00:00:00.000Z')
    expect(parseRfc3339('2026-12-31T23:59:59.9991Z', 'down')).toBe('2026-12-31T23:59:59.999Z')
  })

  it.each([
    ['0000-01-01T00:00:00Z', '0001-01-01T00:00:00.000Z'],
    ['0000-12-31T23:59:59.999Z', '0001-01-01T00:00:00.000Z'],
    ['0001-01-01T00:00:00+00:01', '0001-01-01T00:00:00.000Z'],
    ['9999-12-31T23:59:59.9999Z', '9999-12-31T23:59:59.999Z'],
    ['9999-12-31T23:59:59-00:01', '9999-12-31T23:59:59.999Z'],
    ['9999-12-31T23:59:59-23:59', '9999-12-31T23:59:59.999Z'],
  ])('beyond what the log can hold is its edge: %s is %s', (text, time) => {
    expect(parseRfc3339(text, 'up')).toBe(time)
    expect(parseRfc3339(text, 'down')).toBe(time)
  })

  it.each([
    ['nothing', ''],
    ['a number', '1'],
    ['seconds since 1970', '1786440600'],
    ['a word', 'now'],
    ['a date only', '2026-08-11'],
    ['no offset', '2026-08-11T09:30:00'],
    ['no seconds', '2026-08-11T09:30Z'],
    ['an hour only', '2026-08-11T09Z'],
    ['30 February', '2026-02-30T00:00:00Z'],
    ['31 February', '2026-02-31T00:00:00Z'],
    ['29 February of no leap year', '2026-02-29T00:00:00Z'],
    ['29 February 1900', '1900-02-29T00:00:00Z'],
    ['31 April', '2026-04-31T00:00:00Z'],
    ['32 January', '2026-01-32T00:00:00Z'],
    ['day 0', '2026-01-00T00:00:00Z'],
    ['month 0', '2026-00-01T00:00:00Z'],
    ['month 13', '2026-13-01T00:00:00Z'],
    ['24 o’clock', '2026-08-11T24:00:00Z'],
    ['25 o’clock', '2026-08-11T25:00:00Z'],
    ['minute 60', '2026-08-11T09:60:00Z'],
    ['a leap second at noon', '2016-12-31T12:00:60Z'],
    ['a leap second before the last minute', '2016-12-31T23:58:60Z'],
    ['a leap second of no last minute in UTC', '2016-12-31T23:59:60+01:00'],
    ['a leap second of the last minute elsewhere', '2016-12-31T15:59:60+08:00'],
    ['a leap second within a month', '2016-12-30T23:59:60Z'],
    ['a leap second of 28 February in a leap year', '2024-02-28T23:59:60Z'],
    ['second 61 of a last minute', '2016-12-31T23:59:61Z'],
    ['second 61', '2026-08-11T09:30:61Z'],
    ['a full stop without digits', '2026-08-11T09:30:00.Z'],
    ['a comma for the fraction', '2026-08-11T09:30:00,5Z'],
    ['a fraction of minutes', '2026-08-11T09:30.5Z'],
    ['an offset of 24 hours', '2026-08-11T09:30:00+24:00'],
    ['an offset of 60 minutes', '2026-08-11T09:30:00+02:60'],
    ['an offset without a colon', '2026-08-11T09:30:00+0200'],
    ['an offset of hours only', '2026-08-11T09:30:00+02'],
    ['a plus that became a blank', '2026-08-11T09:30:00 02:00'],
    ['a plus still percent-encoded', '2026-08-11T09:30:00%2B02:00'],
    ['an offset with seconds', '2026-08-11T09:30:00+02:00:00'],
    ['a true minus sign', '2026-08-11T09:30:00\u221202:00'],
    ['Z and an offset', '2026-08-11T09:30:00Z+02:00'],
    ['another zone letter', '2026-08-11T09:30:00A'],
    ['a zone name', '2026-08-11T09:30:00 UTC'],
    ['a zone in brackets', '2026-08-11T09:30:00Z[Europe/Paris]'],
    ['a blank for the T', '2026-08-11 09:30:00Z'],
    ['an underscore for the T', '2026-08-11_09:30:00Z'],
    ['a blank in front', ' 2026-08-11T09:30:00Z'],
    ['a blank behind', '2026-08-11T09:30:00Z '],
    ['a line feed behind', '2026-08-11T09:30:00Z\n'],
    ['a NUL behind', '2026-08-11T09:30:00Z\0'],
    ['two times', '2026-08-11T09:30:00Z2026-08-11T09:30:00Z'],
    ['slashes', '2026/08/11T09:30:00Z'],
    ['no dashes', '20260811T093000Z'],
    ['one digit for the month', '2026-8-11T09:30:00Z'],
    ['two digits for the year', '26-08-11T09:30:00Z'],
    ['five digits for the year', '12026-08-11T09:30:00Z'],
    ['a year with a plus', '+275760-09-13T00:00:00Z'],
    ['a year with a minus', '-0001-01-01T00:00:00Z'],
    ['a week', '2026-W33-2T09:30:00Z'],
    ['a day of the year', '2026-223T09:30:00Z'],
    ['Arabic digits', '\u0662\u0660\u0662\u0666-08-11T09:30:00Z'],
    ['a long s for nothing', '2026-08-11T09:30:00\u017f'],
    ['the form of mail', 'Tue, 11 Aug 2026 09:30:00 GMT'],
    ['a Date in words', String(new Date(0))],
  ])('is not %s', (_, text) => {
    expect(parseRfc3339(text, 'up')).toBeUndefined()
    expect(parseRfc3339(text, 'down')).toBeUndefined()
  })

  const valid = fc.date({
    min: new Date('0001-01-03T00:00:00Z'),
    max: new Date('9999-12-29T00:00:00Z'),
    noInvalidDate: true,
  })

  it('as the platform writes it is the same time', () => {
    fc.assert(
      fc.property(valid, (date) => {
        expect(parseRfc3339(date.toISOString(), 'up')).toBe(date.toISOString())
        expect(parseRfc3339(date.toISOString(), 'down')).toBe(date.toISOString())
      }),
    )
  })

  it('with any offset is the instant that the platform reads', () => {
    const offset = fc.integer({ min: -(24 * 60 - 1), max: 24 * 60 - 1 })
    fc.assert(
      fc.property(valid, offset, (date, offset) => {
        const local = new Date(date.getTime() + offset * 60_000).toISOString().slice(0, -1)
        const [hours, minutes] = [Math.floor(Math.abs(offset) / 60), Math.abs(offset) % 60].map((part) =>
          String(part).padStart(2, '0'),
        )
        const text = `${local}${offset < 0 ? '-' : '+'}${hours}:${minutes}`
        expect(parseRfc3339(text, 'down')).toBe(date.toISOString())
        expect(parseRfc3339(text, 'down')).toBe(new Date(text).toISOString())
      }),
    )
  })

  it('with more digits lies between its two roundings, a millisecond apart unless the digits are zeros', () => {
    fc.assert(
      fc.property(valid, fc.stringMatching(/^[0-9]{1,12}$/), (date, digits) => {
        const text = date.toISOString().replace('Z', `${digits}Z`)
        const [down, up] = [Date.parse(parseRfc3339(text, 'down') ?? ''), Date.parse(parseRfc3339(text, 'up') ?? '')]
        expect(down).toBe(date.getTime())
        expect(up - down).toBe(/[1-9]/.test(digits) ? 1 : 0)
      }),
    )
  })

  it('of any text is undefined, or a time in UTC with milliseconds', () => {
    const alphabet = fc.constantFrom(...'0123456789-:.TZtz+ ')
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.string({ unit: alphabet, maxLength: 30 })), (text) => {
        const time = parseRfc3339(text, 'up')
        if (time !== undefined) expect(time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
      }),
    )
  })
})
