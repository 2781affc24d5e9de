// A backfill of a table that an application reads and writes meanwhile, killed and run again, on a real database.
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { backfill, inspectTable, type PostgresQuery, postgresTable } from '../../../packages/cli/src/backfill.js'
import { text } from '../../../packages/sdk/src/index.js'
import { failure } from '../../../packages/sdk/src/test-support/clients.js'
import { backend } from '../../support/database/database.js'
import { type GuardedDir, guardedDir } from '../../support/run/guarded-dir.js'
import { peopleOf } from './people.js'
import { connection, database, eaas, keyId, query, useBackfill } from './scene.js'

/** How often each part of the application reads or writes at most. */
const MAX_TURNS = 150

useBackfill('backfill')

const run = (statement: string, parameters: string[] = []) => query(statement, parameters) as Promise<Person[]>
interface Person {
  id: string
  email: string
  prefs: unknown
  height: unknown
  email_index: string | null
  seen: number
}

/** A table of plaintext, by a name of its own. */
async function createPeople(count: number) {
  const name = `people_${randomUUID().slice(0, 8)}`
  await run(`create table ${name} (
    id uuid primary key, email text not null, prefs jsonb, height jsonb, email_index text unique, seen int not null default 0)`)
  await run(`insert into ${name} (id, email, prefs, height)
    select gen_random_uuid(), 'Secret' || n || '@x.org', '{"n": 1.50, "secret": "é\\"\\\\"}', to_jsonb(n) from generate_series(1, ${count}) n`)
  return name
}

const modelOf = () => peopleOf(eaas, keyId)
const strict = () => peopleOf(eaas, keyId, false)

async function openAll(table: string) {
  const rows = await run(`select id, email, prefs, height, email_index, seen from ${table} order by id`)
  const { ok, failed } = await strict().decryptMany(rows as never[])
  expect(failed).toEqual([])
  return ok as unknown as Person[]
}

/** Takes one session for itself. */
async function reserve() {
  if (database.backend === 'embedded') return { query, release: () => undefined }
  const own = await database.sql.reserve()
  const run: PostgresQuery = (statement, parameters) => own.unsafe(statement, parameters)
  return { query: run, release: () => own.release() }
}

/** Works in a session that has these settings. */
async function withSettings(settings: Record<string, string>, work: (query: PostgresQuery) => Promise<void>) {
  const session = await reserve()
  try {
    for (const [name, value] of Object.entries(settings)) await session.query(`set ${name} = '${value}'`, [])
    await work(session.query)
  } finally {
    for (const name of Object.keys(settings)) await session.query(`reset ${name}`, [])
    session.release()
  }
}

const modelOfMail = (more: object = {}) =>
  eaas.model({
    name: 'mail',
    keyId,
    bind: false,
    format: 'text',
    acceptPlaintext: true,
    warn: false,
    fields: { email: text({ index: 'email_index', normalize: ['lowercase'] }) },
    ...more,
  })

describe('a table of PostgreSQL', () => {
  it('is encrypted in place: text and JSON columns, and nothing else is changed', async () => {
    const name = await createPeople(50)
    const before = await run(`select id, email, prefs, height, seen from ${name} order by id`)
    const report = await backfill(modelOf(), postgresTable(query, name), { batchSize: 7 })
    expect(report).toMatchObject({ rows: 50, changed: 50, failed: 0, contended: 0 })
    const [all] = (await run(`select json_agg(t)::text as all from ${name} t`)) as unknown as { all: string }[]
    expect(all?.all).not.toMatch(/secret|1\.5/i)
    expect((await openAll(name)).map(({ email_index: _, ...row }) => row)).toEqual(before)
    expect(await inspectTable(strict(), postgresTable(query, name), { open: true })).toMatchObject({
      failed: 0,
      found: {
        rows: 50,
        left: 0,
        fields: { email: { v2: 50 }, prefs: { v2: 50 } },
        indexes: { email_index: { present: 50 } },
      },
    })
  })

  it('is written only where the row still holds what was read, also in a column that is not written', async () => {
    const name = await createPeople(4)
    const table = postgresTable(query, name)
    if (typeof table !== 'function') throw new Error('a table that is opened')
    const columns = {
      fields: ['email', 'prefs'],
      indexes: [{ column: 'email_index', list: false, of: ['email'] }],
      bind: ['id'],
    }
    const { page, again, swap } = await table({ ...columns, header: { column: 'envelope', required: false } })
    const rows = await page(undefined, 10)
    const [first, second, third] = rows.map(({ row }) => row.id as string)
    await run(`update ${name} set prefs = null where id = $1::text::uuid`, [first ?? ''])
    await run(`delete from ${name} where id = $1::text::uuid`, [second ?? ''])
    await run(`update ${name} set seen = 9 where id = $1::text::uuid`, [third ?? '']) // not a column of the model
    const changes = rows.map((from) => ({ from, to: { email_index: `i${from.key}` } }))
    expect(await swap(changes)).toEqual([false, false, true, true])
    const after = await run(`select id, email_index, seen from ${name} order by id`)
    expect(after.map(({ email_index, seen }) => [email_index === null, seen])).toEqual([
      [true, 0],
      [false, 9],
      [false, 0],
    ])
    expect(await swap(changes)).toEqual([false, false, false, false])
    expect((await again(rows.map(({ key }) => key))).map(({ row }) => row.id)).toEqual([first, third, rows[3]?.row.id])
  })

  it('tells what it cannot work with, before a row is read', async () => {
    const name = await createPeople(1)
    await run(`create table bare_${name} (id int, email text, email_index text, prefs jsonb, height jsonb)`)
    await run(`create table typed_${name} (id int primary key, email text, email_index text, prefs date, height jsonb)`)
    await run(
      `create table short_${name} (id int primary key, email varchar(100), email_index text, prefs jsonb, height jsonb)`,
    )
    const refused = async (table: string, options = {}) =>
      (await failure(backfill(modelOf(), postgresTable(query, table, options)))).message
    expect(await refused('nobody')).toMatch(/there is no table "nobody"/)
    expect(await refused(`bare_${name}`)).toMatch(/no unique key/)
    expect(await refused(name, { key: ['seen'] })).toMatch(/no unique key/)
    expect(await refused(`typed_${name}`)).toMatch(/"prefs" is of type date/)
    expect(await refused(`short_${name}`)).toMatch(/"email" holds at most 100 characters/)
    expect(await refused(name, { columns: { email: 'emails' } })).toMatch(/no column "emails": did you mean "email"/)
    expect(await refused(name, { columns: { emial: 'email' } })).toMatch(/no option "emial"/)
    expect((await failure(backfill(modelOf(), postgresTable(query, name), { after: '["x"' }))).message).toMatch(
      /no key/,
    )
  })

  it('reads pages by a key of several columns and of any type, under other names, and in another schema', async () => {
    await run('create schema "My Schema"')
    const table = 'My Schema.Odd "names"'
    const quoted = '"My Schema"."Odd ""names"""'
    await run(`create table ${quoted} ("at" timestamptz, n numeric, "E-mail" text, idx text, primary key ("at", n))`)
    await run(`insert into ${quoted} select '2020-01-01'::timestamptz + (n / 10) * interval '1 microsecond', n % 10, 'secret' || n, null
      from generate_series(0, 99) n`)
    const model = eaas.model({
      name: 'odd',
      keyId,
      bind: ['n'],
      format: 'text',
      acceptPlaintext: true,
      warn: false,
      fields: { email: text({ index: 'email_index' }) },
    })
    const seen: unknown[] = []
    const source = postgresTable(query, table, { columns: { email: 'E-mail', email_index: 'idx' } })
    const report = await backfill(model, source, { batchSize: 9, onProgress: ({ rows }) => seen.push(rows) })
    expect(report).toMatchObject({ rows: 100, changed: 100, failed: 0 })
    expect(seen).toHaveLength(13)
    expect((await inspectTable(model, source, { open: true })).found.left).toBe(0)
    const inQuotes = postgresTable(query, quoted, { columns: { email: 'E-mail', email_index: 'idx' } })
    expect((await inspectTable(model, inQuotes, { open: true })).found).toMatchObject({ rows: 100, left: 0 })
  })

  it.each([
    ['timestamptz', `'2026-01-31 23:59Z'::timestamptz + n * interval '1.000001 s'`],
    ['tstzrange', `tstzrange('2026-01-31 23:59Z'::timestamptz + n * interval '1 s', null)`],
    ['date', `'2026-01-31'::date + n`],
    ['float8', 'sqrt(n) + 1e9'],
    ['real', 'sqrt(n)::real'],
    ['interval', `n * interval '-1 month -1 day 1.000001 s'`],
    ['bytea', `decode(lpad(to_hex(n), 8, '0'), 'hex')`],
    ['text[]', `array[n::text, null, '"']`],
    ['bit(16)', 'n::bit(16)'],
    ['char(3)', 'n::text'],
  ])('is read by a key of type %s, whatever the settings of the session are', async (type, value) => {
    const name = `keyed_${randomUUID().slice(0, 8)}`
    await run(`create table ${name} (k ${type} primary key, email text, email_index text)`)
    await run(`insert into ${name} select ${value}, 'secret' || n from generate_series(1, 9) n`)
    const settings = {
      DateStyle: 'SQL, DMY',
      IntervalStyle: 'sql_standard',
      TimeZone: 'Asia/Kolkata',
      extra_float_digits: '0',
      bytea_output: 'escape',
    }
    await withSettings(settings, async (query) => {
      const table = postgresTable(query, name)
      const report = await backfill(modelOfMail(), table, { batchSize: 2 })
      expect(report).toMatchObject({ rows: 9, changed: 9, gone: 0 })
      expect((await inspectTable(modelOfMail(), table, { batchSize: 2 })).found).toMatchObject({ rows: 9, left: 0 })
      const [row] = (await query('show DateStyle', [])) as { DateStyle: string }[]
      expect(row?.DateStyle).toBe('SQL, DMY')
    })
  })

  it('is refused when the text of a key does not lead back to its row', async () => {
    const name = `rounded_${randomUUID().slice(0, 8)}`
    await run(`create type ${name}_key as (n int)`)
    await run(
      `create function ${name}_text(${name}_key) returns text language sql as $$ select '(' || $1.n / 10 || ')' $$`,
    )
    await run(`create cast (${name}_key as text) with function ${name}_text(${name}_key)`)
    await run(`create table ${name} (k ${name}_key primary key, email text, email_index text)`)
    await run(`insert into ${name} select row(n)::${name}_key, 'secret' from generate_series(11, 13) n`)
    for (const ran of [backfill, inspectTable]) {
      const { code, message } = await failure(ran(modelOfMail(), postgresTable(query, name)))
      expect([code, message]).toEqual(['E_INVALID_INPUT', expect.stringContaining(`"k" of type ${name}_key`)])
    }
  })

  it('is refused before a row is read when the model binds to a type that drivers return in other forms', async () => {
    const name = `bound_${randomUUID().slice(0, 8)}`
    await run(`create type ${name}_mood as enum ('glad')`)
    await run(`create domain ${name}_code as char(8)`)
    await run(`create domain ${name}_codes as ${name}_code`)
    await run(`create domain ${name}_word as varchar(9)`)
    await run(`create domain ${name}_words as ${name}_word`)
    await run(`create table ${name} (id int primary key, email text, email_index text)`)
    await run(`insert into ${name} values (1, 'secret')`)
    const refused =
      'char(8) bpchar inet cidr bool float8 real date time timestamp timestamptz bytea interval bit(3) money int[] xml'
    for (const type of [...refused.split(' '), `${name}_codes`]) {
      await run(`alter table ${name} add column "a ${type}" ${type}`)
      const model = modelOfMail({ bind: [`a ${type}`] })
      for (const ran of [backfill, inspectTable]) {
        const { code, message, hint } = await failure(ran(model, postgresTable(query, name)))
        const says = expect.stringContaining(`binds to the column ${JSON.stringify(`a ${type}`)} of type `)
        expect([code, message, hint]).toEqual(['E_INVALID_INPUT', says, expect.stringContaining('Bind to a column')])
      }
    }
    const taken = {
      text: 'x',
      'varchar(9)': 'x',
      name: 'x',
      uuid: randomUUID(),
      int2: 1,
      int8: 1,
      'numeric(9,2)': 1.5,
      oid: 1,
      jsonb: 1,
    }
    const named = { [`${name}_mood`]: 'glad', [`${name}_words`]: 'x' }
    for (const [type, value] of Object.entries({ ...taken, ...named })) {
      await run(`alter table ${name} add column "a ${type}" ${type} not null default '${value}'`)
      const report = await backfill(modelOfMail({ bind: [`a ${type}`] }), postgresTable(query, name), { dryRun: true })
      expect([type, report.changed, report.failed]).toEqual([type, 1, 0])
    }
  })

  it('has any name, and so have its columns and constraints', async () => {
    const names = ['userTable', 'users.old', 'say "users"', 'Ünïcode users; --', 'select']
    const columns = { email: 'e.mail', email_index: 'e"mail_index' }
    await run(`create schema "odd.schema"`)
    for (const [number, name] of names.entries()) {
      for (const schema of ['', '"odd.schema".']) {
        const quoted = `${schema}"${name.replaceAll('"', '""')}"`
        await run(`create table ${quoted} ("user Id" int, "e.mail" text, "e""mail_index" text,
          constraint "pk: 100%; ""odd"" ${number}" primary key ("user Id"), constraint "unique 'index' $1 ${number}" unique ("e""mail_index"),
          constraint "check %s" check ("user Id" <> 4 or "e.mail" not like 'eaas.%'))`)
        await run(`insert into ${quoted} values (1, 'Ada'), (2, 'ada'), (3, 'Ben'), (4, 'Cem')`)
        const report = await backfill(modelOfMail(), postgresTable(query, quoted, { columns }), { batchSize: 3 })
        expect(report).toMatchObject({ rows: 4, changed: 2, failed: 2 })
        expect(report.failures.map(({ key, message }) => [key, /SQLSTATE (\d+)/.exec(message)?.[1]])).toEqual([
          ['["2"]', '23505'],
          ['["4"]', '23514'],
        ])
        expect(JSON.stringify(report)).not.toMatch(/Cem|violates/)
        expect(report.failures[0]?.message).toMatch(
          /"unique 'index' \$1 \d": .*The row \["1"\] has the same in "e""mail_index"/,
        )
      }
    }
    // Without a dot, the quotes of SQL are not needed.
    for (const name of ['userTable', 'say "users"', 'Ünïcode users; --', 'select'])
      expect((await inspectTable(modelOfMail(), postgresTable(query, name, { columns }))).found.rows).toBe(4)
    for (const wrong of ['', '.', 'a.', '.a', 'a..b', '"a', '"a"b', '"a".', '""', '__proto__', 7])
      expect(() => postgresTable(query, wrong as string)).toThrow('table must be a name')
  })

  it('fails a row whose JSON around a field is no object as JavaScript reads it', async () => {
    const name = `profiles_${randomUUID().slice(0, 8)}`
    const profiles = [
      '{"email":"secret","n":12345678901234567890}',
      '"{\\"email\\":\\"secret\\"}"',
      '[{"email":"secret"}]',
      '{"email":"secret"}',
      'null',
    ]
    const fields = { 'profile.email': text().optional() }
    const model = eaas.model({ name, keyId, bind: ['id'], acceptPlaintext: true, warn: false, fields })
    for (const type of ['jsonb', 'text']) {
      await run(`create table ${name}_${type} (id int primary key, profile ${type})`)
      for (const [id, profile] of profiles.entries())
        await run(`insert into ${name}_${type} values ($1::int, $2::text::${type})`, [String(id), profile])
      await run(`insert into ${name}_${type} values (5, null)`)
      const unreadable = type === 'jsonb' ? ['["0"]', '["1"]', '["2"]'] : profiles.map((_, id) => `["${id}"]`)
      for (const work of ['seal', 'rewrap', 'check'] as const) {
        const { failures, found } = await backfill(model, postgresTable(query, `${name}_${type}`), { work })
        expect([type, work, failures.map(({ key }) => key)]).toEqual([type, work, unreadable])
        expect(found.fields['profile.email']).toMatchObject({ unreadable: unreadable.length })
      }
    }
  })

  it('goes on behind a key of its own only', async () => {
    const [one, other] = [await createPeople(6), await createPeople(6)]
    const stop = new Error('stop')
    let after: string | undefined
    const interrupted = backfill(modelOf(), postgresTable(query, one), {
      batchSize: 2,
      onProgress: (progress) => {
        after = progress.after
        throw stop
      },
    })
    await expect(interrupted).rejects.toBe(stop)
    for (const table of [postgresTable(query, other), postgresTable(query, one, { key: ['id', 'seen'] })]) {
      const { message } = await failure(backfill(modelOf(), table, { after }))
      expect(message).toContain(`.${one} ("id"), and this is`)
      expect((await failure(inspectTable(modelOf(), table, { after }))).message).toContain('after belongs to')
    }
    const { key } = JSON.parse(after ?? '') as { key: string }
    expect((await failure(backfill(modelOf(), postgresTable(query, one), { after: key }))).message).toContain(
      'after is no key',
    )
    // Its name with the schema is the same table.
    const [schema] = await run('select current_schema()::text as id')
    const rest = await backfill(modelOf(), postgresTable(query, `${schema?.id}.${one}`), { after })
    expect(rest).toMatchObject({ rows: 4, changed: 4 })
  })

  it('keeps a number that JavaScript would change, and says so', async () => {
    const name = await createPeople(2)
    await run(`update ${name} set prefs = '{"n": 12345678901234567890}' where height = '1'`)
    const report = await backfill(modelOf(), postgresTable(query, name))
    expect(report).toMatchObject({ changed: 1, failed: 1, failures: [{ field: 'prefs', code: 'E_CONTENT' }] })
    expect(await run(`select prefs::text as prefs from ${name} where height = '1'`)).toMatchObject([
      { prefs: '{"n": 12345678901234567890}' },
    ])
  })

  it.each(['email', 'envelope'])(
    'is refused where the text of a trigger shows that it changes the column %s',
    async (column) => {
      const name = await createPeople(2)
      await run(`alter table ${name} add column envelope jsonb`)
      await run(
        `create function reset_${name}() returns trigger language plpgsql as $$ begin new.${column} := null; return new; end $$`,
      )
      await run(`create trigger resets before update on ${name} for each row execute function reset_${name}()`)
      const before = await run(`select id, email from ${name} order by id`)
      for (const options of [{}, { work: 'rewrap' }, { dryRun: true }] as const) {
        const refused = await failure(backfill(modelOf(), postgresTable(query, name), options))
        expect([refused.code, refused.message]).toEqual([
          'E_INVALID_INPUT',
          `the trigger resets of the table of ${name} changes the column ${column}, whose values would never open again`,
        ])
      }
      expect(await run(`select id, email from ${name} order by id`)).toEqual(before)
      expect((await inspectTable(modelOf(), postgresTable(query, name))).found).toMatchObject({ rows: 2, left: 2 })
    },
  )

  it('leaves a row of which a trigger changes what is written where its text does not show that', async () => {
    const name = await createPeople(4)
    await run(
      `create function lowered(given ${name}) returns ${name} language plpgsql as $$ begin given.email := lower(given.email); return given; end $$`,
    )
    await run(
      `create function lower_${name}() returns trigger language plpgsql as $$ begin return lowered(new); end $$`,
    )
    await run(
      `create trigger lower before update on ${name} for each row when (old.seen <> 2) execute function lower_${name}()`,
    )
    await run(`update ${name} set seen = 2 where height = '2'`)
    const before = await run(`select id, email from ${name} where seen <> 2 order by id`)
    const report = await backfill(modelOf(), postgresTable(query, name))
    expect(report).toMatchObject({ changed: 1, failed: 3, contended: 0 })
    for (const { code, message } of report.failures) {
      expect([code, message]).toEqual(['E_DATABASE', expect.stringMatching(/a trigger .* changes what is written/)])
    }
    expect(await run(`select id, email from ${name} where seen <> 2 order by id`)).toEqual(before)
  })

  it('is refused where children inherit from the table, since its key is not theirs', async () => {
    const name = await createPeople(1)
    await run(`create table child_of_${name} () inherits (${name})`)
    const refused = await failure(backfill(modelOf(), postgresTable(query, name)))
    expect([refused.code, refused.message]).toEqual(['E_INVALID_INPUT', expect.stringContaining('inherit')])
  })

  it('is refused where row-level security hides rows from the role', async () => {
    const name = await createPeople(2)
    await run(`alter table ${name} enable row level security`)
    await run(`create policy mine on ${name} using (height = '1')`)
    await run(`grant select, update on ${name} to pg_monitor`) // a role that every server has
    expect((await inspectTable(modelOf(), postgresTable(query, name))).found.rows).toBe(2) // the owner
    await withSettings({ role: 'pg_monitor' }, async (query) => {
      for (const ran of [inspectTable, backfill]) {
        const { code, message } = await failure(ran(modelOf(), postgresTable(query, name)))
        expect([code, message]).toEqual(['E_INVALID_INPUT', expect.stringContaining('row-level security')])
      }
    })
    expect((await inspectTable(modelOf(), postgresTable(query, name))).found).toMatchObject({ rows: 2, left: 2 })
  })

  it('leaves a row that a constraint refuses, and shows nothing of it', async () => {
    const name = await createPeople(6)
    await run(`update ${name} set email = 'SECRET1@x.org' where height = '2'`) // equal after normalize
    const report = await backfill(modelOf(), postgresTable(query, name))
    expect(report).toMatchObject({ changed: 5, failed: 1, failures: [{ code: 'E_DATABASE' }] })
    expect(report.failures[0]?.message).toMatch(/SQLSTATE 23505/)
    expect(JSON.stringify(report)).not.toMatch(/secret/i)
  })

  it('ends with an error without a value when the database does', async () => {
    const name = await createPeople(3)
    const broken: PostgresQuery = async (statement, parameters) => {
      if (statement.includes('update')) throw Object.assign(new Error(`secret ${parameters}`), { detail: 'secret' })
      return query(statement, parameters)
    }
    const error = await failure(backfill(modelOf(), postgresTable(broken, name)))
    expect(error).toMatchObject({ code: 'E_DATABASE', sqlState: undefined })
    expect(error.cause).toBeUndefined()
    expect(JSON.stringify(error)).not.toMatch(/secret/i)
  })
})

describe('an application that reads and writes meanwhile', () => {
  it('loses nothing, and every row ends encrypted, with its newest value', { timeout: 240_000 }, async () => {
    const name = await createPeople(400)
    const model = modelOf()
    const ids = (await run(`select id from ${name} order by id`)).map(({ id }) => id)
    const newest = new Map<string, string>()
    for (const { id, email } of await run(`select id, email from ${name}`)) newest.set(id, email)
    const stop = new AbortController()
    const counts = { writes: 0, reads: 0 }
    const pick = (list: readonly string[]) => list[Math.floor(Math.random() * list.length)] ?? ''
    const writer = async (number: number) => {
      // Each row has one writer, so that the test knows its newest value.
      const own = ids.filter((_, at) => at % 3 === number)
      for (let turn = 1; turn <= MAX_TURNS && !stop.signal.aborted; turn++) {
        const id = pick(own)
        if (turn % 20 === 0) {
          own.splice(own.indexOf(id), 1)
          newest.delete(id)
          await run(`delete from ${name} where id = $1::text::uuid`, [id])
          continue
        }
        const email = `newest-${randomUUID()}@x.org`
        const changed = await model.encryptPartial({ id, email })
        newest.set(id, email)
        const values = [id, changed.email as string, changed.email_index as string]
        await run(`update ${name} set email = $2, email_index = $3, seen = seen + 1 where id = $1::text::uuid`, values)
        counts.writes++
        await setTimeout(2) // PGlite runs one statement at a time: the backfill needs its turns
      }
    }
    const reader = async () => {
      for (let turn = 0; turn < MAX_TURNS && !stop.signal.aborted; turn++) {
        const [row] = await run(`select id, email, prefs, height, email_index from ${name} where id = $1::text::uuid`, [
          pick(ids),
        ])
        if (!row) continue
        expect(await model.decrypt(row as never)).toMatchObject({ prefs: { n: 1.5, secret: 'é"\\' } })
        counts.reads++
        await setTimeout(2)
      }
    }
    const application = Promise.all([writer(0), writer(1), writer(2), reader()])
    const report = await backfill(model, postgresTable(query, name), { batchSize: 20, rowsPerSecond: 400 }).finally(
      () => stop.abort(),
    )
    await application
    expect(report.failed).toBe(0)
    expect(Math.min(counts.writes, counts.reads)).toBeGreaterThan(10)
    const rest = await backfill(model, postgresTable(query, name)) // what was contended, if anything
    expect(rest).toMatchObject({ failed: 0, contended: 0, rows: newest.size })
    expect(new Map((await openAll(name)).map(({ id, email }) => [id, email]))).toEqual(newest)
    const [sum] = await run(`select sum(seen)::int as seen from ${name}`)
    expect(sum?.seen).toBeGreaterThan(0)
    expect((await inspectTable(strict(), postgresTable(query, name), { open: true })).found.left).toBe(0)
  })
})

// On the embedded back end, nobody but this process can open the database.
describe.runIf(backend() === 'postgres')('beside other connections', () => {
  it('skips a row that a transaction holds, and comes back to it', async () => {
    const name = await createPeople(5)
    if (database.backend !== 'postgres') return
    const client = new pg.Client(database.url)
    await client.connect()
    await client.query('begin')
    await client.query(`update ${name} set email = 'held@x.org' where height = '3'`)
    let commit: Promise<unknown> | undefined
    const onProgress = ({ contended }: { contended: number }) => {
      if (contended === 1) commit ??= client.query('commit')
      return commit
    }
    const report = await backfill(modelOf(), postgresTable(query, name), { batchSize: 2, onProgress })
    await client.end()
    expect(commit).toBeDefined()
    expect(report).toMatchObject({ changed: 5, contended: 0, failed: 0 })
    expect((await openAll(name)).find(({ height }) => height === 3)?.email).toBe('held@x.org')
  })

  it('works with pg as with postgres.js', async () => {
    const name = await createPeople(5)
    if (database.backend !== 'postgres') return
    const pool = new pg.Pool({ connectionString: database.url, max: 2 })
    const byPg: PostgresQuery = async (statement, parameters) => (await pool.query(statement, parameters)).rows
    expect(await backfill(modelOf(), postgresTable(byPg, name), { batchSize: 2 })).toMatchObject({
      changed: 5,
      failed: 0,
    })
    await pool.end()
    expect(await openAll(name)).toHaveLength(5)
  })

  it('loses nothing and skips nothing when it is killed again and again', { timeout: 240_000 }, async () => {
    const name = await createPeople(300)
    if (database.backend !== 'postgres') return
    const dir: GuardedDir = guardedDir('eaas-test-backfill')
    const program = join(dir.path, 'process.mjs')
    const entry = fileURLToPath(new URL('./process.ts', import.meta.url))
    await build({
      entryPoints: [entry],
      outfile: program,
      bundle: true,
      platform: 'node',
      format: 'esm',
      target: 'node20',
      alias: { '@eaas/sdk': fileURLToPath(new URL('../../../packages/sdk/src', import.meta.url)) },
    })
    const settings = {
      ...connection,
      keyId,
      table: name,
      databaseUrl: database.url,
      state: join(dir.path, 'state'),
    }
    const ids = (await run(`select id from ${name} order by id`)).map(({ id }) => id)
    let kills = 0
    let lastKey = ''
    /** Runs the program, kills it while it works on the page behind so many, and returns how it ended. */
    const runUntil = async (pages: number) => {
      const child = spawn(process.execPath, [program, JSON.stringify(settings)], { stdio: ['pipe', 'pipe', 'inherit'] })
      const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
      child.stdin.on('error', () => undefined) // it was killed first
      let seen = 0
      if (pages === Number.POSITIVE_INFINITY) child.stdin.end()
      for await (const line of createInterface(child.stdout)) {
        lastKey = line
        if (++seen < pages && pages !== Number.POSITIVE_INFINITY) child.stdin.write('go\n')
        if (seen !== pages) continue
        child.stdin.write('go\n')
        globalThis.setTimeout(() => child.kill('SIGKILL'), Math.random() * 25)
        kills++
      }
      return ended
    }
    for (const pages of [3, 1, 5, 2]) expect(await runUntil(pages)).toBeNull()
    expect(kills).toBe(4)
    // The application writes into a row before the last key and into one behind it.
    const [last] = JSON.parse((JSON.parse(lastKey) as { key: string }).key) as [string]
    const at = ids.indexOf(last)
    for (const id of [ids[at - 5], ids[at + 5]] as [string, string]) {
      const changed = await modelOf().encryptPartial({ id, email: `newest-${id}` })
      const values = [id, changed.email as string, changed.email_index as string]
      await run(`update ${name} set email = $2, email_index = $3 where id = $1::text::uuid`, values)
    }
    expect(await runUntil(Number.POSITIVE_INFINITY)).toBe(0)
    const people = await openAll(name)
    expect(people.map(({ id }) => id)).toEqual(ids)
    for (const [number, { id, email, height }] of people.entries()) {
      const isChanged = number === at - 5 || number === at + 5
      expect(email).toBe(isChanged ? `newest-${id}` : `Secret${height}@x.org`)
    }
    expect((await inspectTable(strict(), postgresTable(query, name), { open: true })).found.left).toBe(0)
    await dir.remove()
  })
})
