// Texts that a cast left in a column, which a field does not read: a run gives each reason once, with the statement that
// converts all of its rows.
import { describe, expect, it } from 'vitest'
import { backfill, type FailureCause, postgresTable } from '../../../packages/cli/src/backfill.js'
import type { Column, FoundTable } from '../../../packages/cli/src/init/application.js'
import { convertColumns } from '../../../packages/cli/src/init/migration.js'
import { boolean, bytes, date, number } from '../../../packages/sdk/src/index.js'
import { eaas, keyId, query, useBackfill } from './scene.js'

useBackfill('cast_texts')

const FIELDS = {
  at: date().nullable(),
  flag: boolean().nullable(),
  size: number().nullable(),
  raw: bytes().nullable(),
}
type Kind = keyof typeof FIELDS
const utc = (text: string) => new Date(`${text}Z`)

/** What a column holds, what a model makes of it once it is converted, and what the cause says of it. */
const TEXTS: [Kind, string, unknown, string][] = [
  ['at', '1990-01-02 00:00:00', utc('1990-01-02T00:00:00'), 'a time without a zone. If it is UTC'],
  ['at', '1990-01-02 00:00:00.5', utc('1990-01-02T00:00:00.500'), 'a time without a zone. If it is UTC'],
  ['at', '1990-01-02 00:00:00.123456', utc('1990-01-02T00:00:00.123'), 'to the microsecond. If it is UTC'],
  ['at', '2026-01-31 10:00:00.123456+05:30', utc('2026-01-31T04:30:00.123'), 'or with an offset to the second'],
  ['at', '1900-01-01 00:09:21+00:09:21', utc('1900-01-01T00:00:00'), 'or with an offset to the second'],
  ['at', '02.01.1990', utc('1990-01-02T00:00:00'), 'a day in the order of a country'],
  ...['t', 'TRUE', 'yes', '1'].map((one): (typeof TEXTS)[number] => ['flag', one, true, 'a boolean in another']),
  ...['f', 'no', ' off '].map((one): (typeof TEXTS)[number] => ['flag', one, false, 'a boolean in another']),
  ['size', '007.50', 7.5, 'a number in another spelling'],
  ['size', ' 1', 1, 'a number in another spelling'],
  ['size', '+.5', 0.5, 'a number in another spelling'],
  ['size', '0.1000000000000000055511151231257827', 0.1, 'more digits than JavaScript holds'],
  ['size', '12345678901234567890', 12345678901234567000, 'more digits than JavaScript holds'],
  ['raw', '\\x00ff', new Uint8Array([0, 255]), 'what bytea prints'],
]
/** What no conversion is known for, and what is right as it is. */
const OTHERS: [Kind, string][] = [
  ['at', 'infinity'],
  ['at', '2026-02-30'],
  ['flag', 'maybe'],
  ['size', 'NaN'],
  ['size', ''],
  ['raw', 'not base64!'],
]
const RIGHT: [Kind, string, unknown][] = [
  ['at', '1990-01-02T00:00:00.000Z', utc('1990-01-02T00:00:00')],
  ['at', '1990-01-02 00:00:00+00', utc('1990-01-02T00:00:00')],
  ['flag', 'true', true],
  ['size', '12.50', 12.5],
]

const modelOf = () => {
  const all = { name: 'casts', keyId, bind: ['id'], format: 'text', acceptPlaintext: true, warn: false } as const
  return eaas.model({ ...all, fields: FIELDS })
}

async function fill(name: string, texts: readonly (readonly [Kind, string, ...unknown[]])[]) {
  await query(`create table ${name} (id int primary key, at_time text, flag text, size text, raw text)`, [])
  for (const [at, [kind, text]] of texts.entries())
    await query(`insert into ${name} (id, ${kind === 'at' ? 'at_time' : kind}) values (${at}, $1)`, [text])
  return postgresTable(query, name, { columns: { at: 'at_time' } })
}

const statementOf = ({ message }: FailureCause) => /It is .*?: (update .*)$/.exec(message)?.[1]

describe('columns of other types', () => {
  it.each<[type: string, sql: string, text: string]>([
    ['double precision', "'0.30000000000000004'", '0.30000000000000004'],
    ['real', "'0.1234567'", '0.1234567'],
    ['date', "'1931-02-04'", '1931-02-04'],
    ['timestamp without time zone', "'2026-03-29 02:00:00.123456'", '2026-03-29T02:00:00.123Z'],
    ['timestamp with time zone', "'2026-03-29 02:00:00.5+00'", '2026-03-29T02:00:00.5Z'],
    ['interval', "'1 day 02:00'", '1 day 02:00:00'],
  ])('of %s become exact text, whatever the database has set', async (type, value, text) => {
    const name = `cast_${type.replaceAll(' ', '_')}`
    await query(`create table ${name} as select ${value}::${type} as v`, [])
    const converted = { stored: 'v', type, kind: 'number' } as unknown as Column
    const table = { stored: name } as FoundTable
    const [statement = ''] = convertColumns({ table, columns: [converted], lacking: [], timeZone: 'UTC' })
    const set = "set_config('DateStyle', 'German', true), set_config('extra_float_digits', '0', true)"
    await query(`do $$ begin perform ${set}, set_config('IntervalStyle', 'iso_8601', true); ${statement} end $$`, [])
    expect(await query(`select v from ${name}`, [])).toEqual([{ v: text }])
  })
})

describe('texts that a field does not read', () => {
  it('are converted by the statement of their cause, and no others are', async () => {
    const table = await fill('casts', [...TEXTS, ...RIGHT])
    const dry = await backfill(modelOf(), table, { dryRun: true })
    expect([dry.failed, dry.causes.length]).toEqual([
      TEXTS.length,
      new Set(TEXTS.map(([kind, , , what]) => kind + what)).size,
    ])
    for (const [at, [kind, , , what]] of TEXTS.entries()) {
      const cause = dry.causes.find(({ keys }) => keys.includes(JSON.stringify([String(at)])))
      expect(cause).toMatchObject({ field: kind, code: 'E_INVALID_INPUT', message: expect.stringContaining(what) })
      expect(cause?.rows).toBe(TEXTS.filter((one) => one[0] === kind && one[3] === what).length)
    }
    for (const cause of dry.causes) await query(statementOf(cause) ?? '', [])
    expect(await backfill(modelOf(), table)).toMatchObject({ failed: 0, changed: TEXTS.length + RIGHT.length })
    const rows = await query('select id, at_time as at, flag, size, raw from casts order by id', [])
    const values = [...TEXTS, ...RIGHT].map(([kind, , value]) => ({ [kind]: value }))
    expect(await modelOf().decryptMany(rows as never[])).toMatchObject({ ok: values, failed: [] })
  })

  it('are only named where no conversion is known', async () => {
    const dry = await backfill(modelOf(), await fill('others', OTHERS), { dryRun: true })
    expect(dry.failed).toBe(OTHERS.length)
    for (const cause of dry.causes) {
      expect(statementOf(cause)).toBeUndefined()
      expect(cause.message).toContain('Correct the stored text')
    }
  })

  it('have one cause for all rows, with the keys of the first ten', async () => {
    const days = Array.from({ length: 150 }, (_, at): [Kind, string] => [
      'at',
      `1990-01-02 00:00:${String(at % 60).padStart(2, '0')}`,
    ])
    const { failed, failures, causes } = await backfill(modelOf(), await fill('many', days), { dryRun: true })
    expect([failed, failures.length, causes.length]).toEqual([150, 100, 1])
    expect(causes[0]).toMatchObject({ rows: 150, keys: failures.slice(0, 10).map(({ key }) => key) })
  })
})
