// Searching ranges of dates and numbers by the buckets that their indexes hold.
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { describe, expect, expectTypeOf, it } from 'vitest'
import { date, number, text } from '../index.js'
import { failure, keyId, useClients } from '../test-support/clients.js'

const { connect } = useClients()

const define = async (
  fields = {
    born: date({ index: 'born_month', range: 'month' }),
    pay: number({ index: 'pay_step', range: { step: 1000 } }),
  },
) => {
  const eaas = connect()
  return eaas.model({
    name: 'staff',
    keyId,
    bind: false,
    warn: false,
    fields,
  })
}
const utc = (text: string) => new Date(`${text}T00:00:00Z`)

describe('an index of a range', () => {
  it('finds the rows of its buckets, of which matches keeps those within the bounds', async () => {
    const staff = await define()
    const days = ['1984-12-31', '1985-01-01', '1985-01-20', '1985-02-28', '1985-03-01']
    const rows = await staff.encryptMany(days.map((day, at) => ({ born: utc(day), pay: 900 + at * 100 })))
    const query = { born: { gte: utc('1985-01-10'), lt: utc('1985-03-01') } }
    const { born_month } = await staff.index(query)
    expect(born_month).toHaveLength(2)
    const { ok } = await staff.decryptMany(rows.filter((row) => born_month.includes(row.born_month)))
    expect(ok.map(({ born }) => born.toISOString().slice(0, 10))).toEqual(days.slice(1, 4))
    expect(ok.filter((row) => staff.matches(row, query))).toHaveLength(2)
    const { pay_step } = await staff.index({ pay: { gt: 900, lte: 1100 } })
    expect(rows.map((row) => pay_step.includes(row.pay_step))).toEqual([true, true, true, true, true])
    expect([900, 901, 1100, 1101].map((pay) => staff.matches({ pay }, { pay: { gt: 900, lte: 1100 } }))).toEqual([
      false,
      true,
      true,
      false,
    ])
    expectTypeOf(pay_step).toEqualTypeOf<string[]>()
  })

  it('tells which rows are in one bucket, and nothing of their order', async () => {
    const staff = await define()
    const rows = await staff.encryptMany([0, 999.99, 1000, -0.5].map((pay) => ({ born: utc('1985-01-01'), pay })))
    const [a, b, c, d] = rows.map(({ pay_step }) => pay_step)
    expect(a).toBe(b)
    expect(new Set([a, c, d]).size).toBe(3)
    for (const one of [a, c, d]) expect(one).toMatch(/^[0-9a-f]{64}$/)
  })

  it('finds the rows of one value too', async () => {
    const staff = await define()
    const row = await staff.encrypt({ born: utc('1985-01-20'), pay: 7 })
    expect(await staff.index({ born: utc('1985-01-02') })).toEqual({ born_month: row.born_month })
    expect(staff.matches({ born: utc('1985-01-20') }, { born: utc('1985-01-02') })).toBe(false)
  })

  it('takes dates of another realm, as those of Jest are', async () => {
    const staff = await define()
    const foreign = (day: string): Date => runInNewContext(`new Date('${day}T00:00:00Z')`)
    const { born_month } = await staff.encrypt({ born: foreign('1985-01-20'), pay: 7 })
    expect(await staff.index({ born: utc('1985-01-02') })).toEqual({ born_month })
    const query = { born: { gte: foreign('1985-01-01'), lt: foreign('1985-02-01') } }
    expect(await staff.index(query)).toEqual({ born_month: [born_month] })
  })

  it('finds every row within the bounds, whatever they are', async () => {
    const eaas = connect()
    const bound = fc.double({ min: -50, max: 50, noNaN: true })
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(0.1, 0.3, 1, 7),
        bound,
        bound,
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.boolean(),
        async (step, one, other, at, isOpen) => {
          const [from, to] = [Math.min(one, other), Math.max(one, other)]
          fc.pre((to - from) / step < 390)
          const model = eaas.model({
            name: 'm',
            keyId,
            bind: false,
            fields: { n: number({ index: 'n_step', range: { step } }) },
          })
          const n = Math.min(to, from + (to - from) * at)
          const query = isOpen ? { n: { gte: from, lt: to } } : { n: { gt: from, lte: to } }
          const { n_step } = await model.index(query)
          if (model.matches({ n }, query)) expect(n_step).toContain((await model.encrypt({ n })).n_step)
        },
      ),
      { numRuns: 60 },
    )
  })

  it('covers at most 400 buckets, and numbers whose bucket is exact', async () => {
    const staff = await define()
    const until = (pay: number) => staff.index({ pay: { gte: 0, lte: pay } })
    expect((await until(399_999)).pay_step).toHaveLength(400)
    expect(await failure(until(400_000))).toMatchObject({
      message: '"pay": the range covers 401 buckets, and may cover 400',
      hint: expect.stringContaining('closer together, or declare larger buckets: a larger step.'),
    })
    expect(await failure(staff.index({ born: { gte: utc('1900-01-01'), lt: utc('2020-01-01') } }))).toMatchObject({
      hint: expect.stringContaining("larger buckets: range: 'year'."),
    })
    await expect(staff.encrypt({ born: utc('1985-01-01'), pay: 2 ** 90 })).rejects.toMatchObject({
      place: { field: 'pay' },
    })
  })

  it.each([
    ['of no day', { gte: utc('1985-01-01'), lt: utc('1985-01-01') }],
    ['between the bounds of one day', { gt: utc('1985-01-20'), lt: utc('1985-01-20') }],
    ['whose bounds are exchanged', { gte: utc('1985-03-01'), lte: utc('1984-12-01') }],
  ])('finds no row by a range %s', async (_, born) => {
    const staff = await define()
    const rows = await staff.encryptMany(['1985-01-01', '1985-01-20'].map((day) => ({ born: utc(day), pay: 1 })))
    const { born_month } = await staff.index({ born })
    const { ok } = await staff.decryptMany(rows.filter((row) => born_month.includes(row.born_month)))
    expect([born_month.length, ok.filter((row) => staff.matches(row, { born }))]).toEqual([1, []])
  })

  it.each<[string, object, string]>([
    ['without an upper bound', { gte: 1 }, 'one lower and one upper bound'],
    ['without a bound', {}, 'one lower and one upper bound'],
    ['with two lower bounds', { gte: 1, gt: 1, lt: 2 }, 'one lower and one upper bound'],
    ['with another kind of bound', { gte: 1, lt: '2' }, 'expected a finite number'],
    ['with an unknown operator', { gte: 1, below: 2 }, 'no option "below"'],
  ])('refuses a range %s', async (_, pay, message) => {
    const staff = await define()
    expect((await failure(staff.index({ pay: pay as never }))).message).toContain(message)
    expect(() => staff.matches({ pay: 1 }, { pay: pay as never })).toThrow(message)
  })

  it('is declared with a bucket that is one, and not by the service, and searched only where it is declared', async () => {
    const eaas = connect()
    const of = (field: ReturnType<typeof date>, more: object = {}) =>
      eaas.model({ name: 'm', keyId, bind: false, fields: { a: field }, ...more })
    expect(() => of(date({ index: 'i', range: 'month' }), { index: { by: 'service' } })).toThrow(
      'the service makes no index of a range',
    )
    expect(() => of(date({ range: 'month' }))).toThrow('range needs an index')
    expect(() => date({ index: 'i', range: 'week' as 'day' })).toThrow('must be one of day, month, year')
    for (const step of [0, -1, Number.NaN, Number.POSITIVE_INFINITY, '1' as unknown as number])
      expect(() => number({ index: 'i', range: { step } })).toThrow('range.step must be a number above 0')
    expect(() => text({ range: 'day' } as object)).toThrow('no option "range"')
    const exact = eaas.model({
      name: 'm',
      keyId,
      bind: false,
      fields: { n: number({ index: 'n' + '_index' }) },
    })
    expect((await failure(exact.index({ n: { gte: 1, lt: 2 } }))).message).toContain('is not indexed for ranges')
    const shared = number({ index: 'i', shared: true, range: { step: 1 } })
    expect(() => eaas.model({ name: 'm', keyId, bind: false, fields: { n: shared } })).toThrow()
  })
})
