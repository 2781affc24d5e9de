// `backfill` with `work: 'open'` on a real database: what stands in the columns, and an application that writes meanwhile.
import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { backfill, type PostgresQuery, postgresTable } from '../../../packages/cli/src/backfill.js'
import { boolean, bytes, date, json, number, text } from '../../../packages/sdk/src/index.js'
import { peopleOf } from './people.js'
import { eaas, keyId, query, useBackfill } from './scene.js'

useBackfill('opened')

const run = (statement: string, parameters: string[] = []) => query(statement, parameters) as Promise<Row[]>
type Row = Record<string, string | null>

/** A table whose rows are sealed, and what was in it before. */
async function sealedPeople(count: number) {
  const name = `people_${randomUUID().slice(0, 8)}`
  await run(
    `create table ${name} (id uuid primary key, email text not null, prefs jsonb, height jsonb, email_index text unique)`,
  )
  await run(`insert into ${name} (id, email, prefs, height)
    select gen_random_uuid(), 'Secret' || n || '@x.org', '{"n": 1.50, "secret": "é\\"\\\\"}', to_jsonb(n) from generate_series(1, ${count}) n`)
  const before = await run(`select id, email, prefs, height from ${name} order by id`)
  expect(await backfill(peopleOf(eaas, keyId), postgresTable(query, name))).toMatchObject({ changed: count })
  return { name, before }
}

describe('opening a table of PostgreSQL', () => {
  it('restores what was there before it was sealed', async () => {
    const { name, before } = await sealedPeople(50)
    const strict = peopleOf(eaas, keyId, false)
    const report = await backfill(strict, postgresTable(query, name), { work: 'open', batchSize: 7 })
    expect(report).toMatchObject({ rows: 50, changed: 50, failed: 0, contended: 0 })
    expect(await run(`select id, email, prefs, height from ${name} order by id`)).toEqual(before)
    const [indexes] = await run(`select count(email_index)::text as count from ${name}`)
    expect(indexes?.count).toBe('50')
  })

  it('writes all kinds of values, into text and into JSON, so that a cast of PostgreSQL reads them', async () => {
    const name = `kinds_${randomUUID().slice(0, 8)}`
    const kinds = { flag: boolean(), n: number(), at: date(), raw: bytes(), any: json<unknown>() }
    const model = eaas.model({
      name: 'kinds',
      keyId,
      bind: ['id'],
      fields: { ...kinds, inside: json<unknown>() },
      format: 'text',
    })
    const at = new Date('1815-12-10T01:02:03.456Z')
    const row = {
      id: 1,
      flag: true,
      n: -1.5e21,
      at,
      raw: new Uint8Array([0, 255, 1]),
      any: { x: ['é', null] },
      inside: [1],
    }
    const sealed = (await model.encrypt(row)) as unknown as Row
    const names = ['flag', 'n', 'at', 'raw', 'any', 'inside']
    for (const type of ['text', 'jsonb']) {
      await run(
        `create table ${name}_${type} (id int primary key, ${names.map((one) => `"${one}" ${type}`).join(', ')})`,
      )
      const values = names.map((one) => (type === 'text' ? String(sealed[one]) : JSON.stringify(sealed[one])))
      const placed = names.map((_, number) => `$${number + 1}::text::${type}`).join(', ')
      await run(`insert into ${name}_${type} values (1, ${placed})`, values)
      const table = postgresTable(query, `${name}_${type}`)
      expect(await backfill(model, table, { work: 'open' })).toMatchObject({ changed: 1, failed: 0 })
      const value = (one: string) => (type === 'text' ? `"${one}"` : `("${one}" #>> '{}')`)
      const [read] = await run(`select ${value('flag')}::bool::text as flag, ${value('n')}::float8::text as n,
        extract(epoch from ${value('at')}::timestamptz)::text as at, encode(decode(${value('raw')}, 'base64'), 'hex') as raw,
        (${value('any')}::json->'x'->>0) as any, ${value('inside')}::json::text as inside from ${name}_${type}`)
      expect({ ...read, at: Number(read?.at) }).toEqual({
        ...{ flag: 'true', n: '-1.5e+21', at: at.getTime() / 1000, raw: '00ff01', any: 'é', inside: '[1]' },
      })
    }
  })

  it('writes back the text that was there, of all kinds, without a reader', async () => {
    const name = `texts_${randomUUID().slice(0, 8)}`
    const fields = { flag: boolean(), n: number(), at: date(), raw: bytes(), list: json<unknown>() }
    const more = { name: 'texts', keyId, bind: ['id'], format: 'text', warn: false } as const
    const model = eaas.model({ ...more, acceptPlaintext: true, fields })
    const table = postgresTable(query, name)
    await run(`create table ${name} (id int primary key, flag text, n text, at text, raw text, list text)`)
    await run(`insert into ${name} values
      (1, 'true', '-1.5', '1815-12-10T01:02:03.456Z', 'AP8B', '{"x":["é",null],"n":1.5}'),
      (2, 'false', '1e+21', '2026-01-31T00:00:00.000Z', '', '[]'),
      (3, 'false', '7', '2026-01-31T00:00:00', '', '[]'),
      (4, 'no', '7', '2026-01-31', '', '[]')`)
    const all = () => run(`select * from ${name} order by id`)
    const before = await all()
    const [first] = (await model.decryptMany(before as never[])).ok
    expect(first).toMatchObject({ flag: true, n: -1.5, at: new Date('1815-12-10T01:02:03.456Z'), list: { n: 1.5 } })
    expect(await backfill(model, table, { dryRun: true })).toMatchObject({ changed: 2, failed: 2 })
    const report = await backfill(model, table)
    expect(report).toMatchObject({ changed: 2, failed: 2 })
    expect(report.failures.map(({ key, field }) => [key, field])).toEqual([
      ['["3"]', 'at'],
      ['["4"]', 'flag'],
    ])
    expect(JSON.stringify(report)).not.toMatch(/2026-01-31T00|"no"/)
    expect((await all()).slice(2)).toEqual(before.slice(2))
    const strict = eaas.model({ ...more, fields })
    expect((await strict.decryptMany((await all()).slice(0, 2) as never[])).ok[0]).toMatchObject({ n: -1.5 })
    expect(await backfill(model, table, { work: 'open' })).toMatchObject({ changed: 2, failed: 0 })
    expect(await all()).toEqual(before)
  })

  it('leaves a row that the column cannot hold, or of which a trigger changes what is written', async () => {
    const { name } = await sealedPeople(4)
    await run(
      `create function lower_${name}() returns trigger language plpgsql as $$ begin new.email := lower(new.email); return new; end $$`,
    )
    await run(`create trigger lower before update on ${name} for each row execute function lower_${name}()`)
    const before = await run(`select * from ${name} order by id`)
    const report = await backfill(peopleOf(eaas, keyId), postgresTable(query, name), { work: 'open' })
    expect(report).toMatchObject({ changed: 0, failed: 4 })
    for (const { code, message } of report.failures)
      expect([code, message]).toEqual(['E_DATABASE', expect.stringMatching(/a trigger .* changes what is written/)])
    expect(JSON.stringify(report)).not.toMatch(/secret/i)
    expect(await run(`select * from ${name} order by id`)).toEqual(before)
  })

  it('tells which rows have a character that their column cannot hold, and opens the others', async () => {
    const name = `nul_${randomUUID().slice(0, 8)}`
    const fields = { note: json<unknown>(), name: text() }
    const model = eaas.model({ name: 'nul', keyId, bind: ['id'], fields })
    await run(`create table ${name} (id int primary key, note jsonb, name text)`)
    const table = postgresTable(query, name)
    const notes: unknown[] = ['\0', { '\\\0': 1 }, '\ud800', '\\u0000', '', '']
    const names = ['', '', '', '\ufffd', '\0', 'x']
    for (const [id, row] of (
      await model.encryptMany(notes.map((note, at) => ({ id: at, note, name: names[at] ?? '' })))
    ).entries())
      await run(`insert into ${name} values ($1::int, $2::text::jsonb, $3)`, [
        String(id),
        JSON.stringify(row.note),
        JSON.stringify(row.name),
      ])
    const wrong = [
      ['["0"]', 'note'],
      ['["1"]', 'note'],
      ['["2"]', 'note'],
      ['["4"]', 'name'],
    ]
    for (const [work, counts] of [
      ['check', { changed: 0, current: 2 }],
      ['open', { changed: 2, current: 0 }],
      ['open', { changed: 0, current: 2 }],
    ] as const) {
      const { failures, ...report } = await backfill(model, table, { work })
      expect(report).toMatchObject({ rows: 6, failed: 4, contended: 0, ...counts })
      expect(failures.map(({ key, field }) => [key, field])).toEqual(wrong)
      for (const { code, message } of failures)
        expect([code, message]).toEqual(['E_CONTENT', expect.stringMatching(/such as NUL, that no (jsonb|text) of/)])
    }
    expect(await run(`select note #>> '{}' as note, name from ${name} where id = 3`)).toEqual([
      { note: '\\u0000', name: '\ufffd' },
    ])
  })

  it('tells which rows have a date that PostgreSQL could not cast, and opens the others', async () => {
    const name = `dates_${randomUUID().slice(0, 8)}`
    const model = eaas.model({ name: 'dates', keyId, bind: ['id'], format: 'text', fields: { born: date() } })
    await run(`create table ${name} (id int primary key, born text)`)
    const times = [
      '-000044-03-15T00:00:00.000Z',
      '0000-01-01',
      '0001-01-01',
      '9999-12-31',
      '+012000-01-01T00:00:00.000Z',
    ]
    const rows = await model.encryptMany(times.map((time, id) => ({ id, born: new Date(time) })))
    for (const { id, born } of rows) await run(`insert into ${name} values ($1::int, $2)`, [String(id), String(born)])
    for (const work of ['check', 'open'] as const) {
      const { failures } = await backfill(model, postgresTable(query, name), { work })
      expect(failures.map(({ key, field, message }) => [key, field, message])).toEqual(
        [0, 1, 4].map((id) => [`["${id}"]`, 'born', expect.stringMatching(/a date before the year 1 or after 9999/)]),
      )
    }
    expect(
      await run(`select born::timestamptz::date::text as born from ${name} where born !~ '^eaas' order by id`),
    ).toEqual([{ born: '0001-01-01' }, { born: '9999-12-31' }])
  })

  it('loses no write of an application that seals meanwhile', async () => {
    const { name } = await sealedPeople(40)
    const model = peopleOf(eaas, keyId)
    const newest = new Map<string, string>()
    const write = async (id: string) => {
      const email = `newest-${randomUUID()}@x.org`
      const changed = (await model.encryptPartial({ id, email })) as unknown as Row
      const values = [id, String(changed.email), String(changed.email_index)]
      await run(`update ${name} set email = $2, email_index = $3 where id = $1::text::uuid`, values)
      newest.set(id, email)
    }
    const written = new Set<string>()
    // Just before a page is written, the application seals a row of it anew, and one that the run has opened.
    const racing: PostgresQuery = async (statement, parameters) => {
      if (statement.includes('skip locked')) {
        const [{ k: key }] = JSON.parse(parameters[0] ?? '') as [{ k: [string] }]
        const opened = [...newest.keys()].at(-2)
        if (!written.has(key[0])) for (const id of [key[0], ...(opened ? [opened] : [])]) await write(id)
        written.add(key[0])
      }
      return query(statement, parameters)
    }
    const report = await backfill(model, postgresTable(racing, name), { work: 'open', batchSize: 8 })
    expect(report).toMatchObject({ rows: 40, changed: 40, failed: 0, contended: 0 })
    expect(newest.size).toBeGreaterThan(4)
    // What was sealed behind the run is opened by the last one, after the application has stopped.
    const last = await backfill(model, postgresTable(query, name), { work: 'open' })
    expect(last).toMatchObject({ failed: 0, contended: 0, rows: 40 })
    expect(last.changed).toBeGreaterThan(0)
    const rows = await run(`select id, email from ${name}`)
    expect(rows.filter(({ email }) => !/@x\.org$/.test(String(email)))).toEqual([])
    for (const [id, email] of newest) expect(rows.find((row) => row.id === id)?.email).toBe(email)
  })
})
