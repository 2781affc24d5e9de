// `backfill` and `inspect-table` of the command line, on a table of PostgreSQL: in this process, and as processes that are killed.
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import postgres from 'postgres'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type CommandOptions, runCommand } from '../../packages/cli/src/test-support/command.js'
import { type Client, createClient } from '../../packages/sdk/src/index.js'
import { backend, freshDatabase, type TestDatabase } from '../support/database/database.js'
import { type GuardedDir, guardedDir } from '../support/run/guarded-dir.js'
import { type Service, startService } from '../support/service/service.js'
import { ROOT } from '../support/sources/source-files.js'

const MAIN = join(ROOT, 'packages/cli/dist/main.js')
const here = (name: string) => fileURLToPath(new URL(`./tables/${name}`, import.meta.url))
const MODULE = here('people.mjs')
const COLUMN = ['--column', 'emailIndex=email_index']

// The command connects by DATABASE_URL, and nobody can connect to the embedded database.
describe.runIf(backend() === 'postgres')('the commands for tables', () => {
  let database: TestDatabase
  let service: Service
  let sql: postgres.Sql
  let dir: GuardedDir
  let folder: string
  let eaas: Client
  let environment: Record<string, string>
  let table: string
  let keyName: string
  let keyId: string

  beforeAll(async () => {
    ;[database, service] = await Promise.all([freshDatabase('sdk_backfill'), startService()])
    if (database.backend !== 'postgres') throw new Error('a PostgreSQL')
    sql = postgres(database.directUrl, { max: 1, onnotice: () => undefined })
    const { secret } = await service.createTenant()
    eaas = createClient({ baseUrl: service.url, apiKey: secret })
    environment = { EAAS_URL: service.url, EAAS_API_KEY: secret, DATABASE_URL: database.directUrl }
    dir = guardedDir('eaas-test-cli-backfill')
    folder = dir.path
  })
  afterAll(async () => {
    eaas.close()
    await sql.end()
    await service.close()
    await database.drop()
    await dir.remove()
  })
  beforeEach(async () => {
    table = `people_${randomUUID().slice(0, 8)}`
    keyName = table
    keyId = (await eaas.keys.create({ name: keyName })).id
  })

  async function createPeople(count: number) {
    await sql`create table ${sql(table)} (id int primary key, email text not null, phone text, email_index text)`
    await sql`insert into ${sql(table)} (id, email) select n, 'Secret' || n || '@x.org' from generate_series(1, ${count}) n`
  }

  const command = (argv: string[], more: Partial<CommandOptions> = {}) =>
    runCommand([...argv, '--table', table, ...COLUMN], { env: environment, folder, ...more })
  const backfill = (argv: string[] = [], more: Partial<CommandOptions> = {}) =>
    command(['backfill', MODULE, '--key', keyName, ...argv], more)
  const inspect = (argv: string[] = []) => command(['inspect-table', MODULE, '--key', keyName, ...argv])
  const sealed = async () => {
    const [row] = await sql`select count(*)::int as count from ${sql(table)} where email like 'eaas.%'`
    return row?.count as number
  }
  const readKept = (file: string) => JSON.parse(readFileSync(join(folder, file), 'utf8'))
  /** The state, with the key alone of `after`. */
  const state = () => {
    const { after, ...rest } = readKept('state.json')
    const { scope, key } = JSON.parse(after)
    expect(scope).toMatch(new RegExp(`^\\w+\\.public\\.${table} \\("id"\\)$`))
    return { ...rest, after: key }
  }

  it.each(['pg', 'postgres'])('encrypt it, and say what was found, by the driver %s', async (driver) => {
    await createPeople(50)
    const before = await inspect(['--driver', driver])
    expect(before).toMatchObject({ code: 0, err: '' })
    expect(String(before.out)).toBe(
      `${table}: 50 rows, 50 with something to do\n  email: 50 plaintext\n  phone: 50 empty\n  emailIndex: 50 missing\n`,
    )
    const dry = await backfill(['--driver', driver, '--dry-run'])
    expect({ ...dry, out: String(dry.out) }).toEqual({
      code: 0,
      err: '',
      out: `${table}: 50 rows, 50 to change, 0 current\n`,
    })
    expect(await sealed()).toBe(0)
    const ran = await backfill(['--driver', driver, '--batch-size', '7'])
    expect({ ...ran, out: String(ran.out) }).toEqual({
      code: 0,
      err: '',
      out: `${table}: 50 rows, 50 changed, 0 current\n`,
    })
    const after = await inspect(['--driver', driver, '--export', 'strict', '--open', '--json'])
    expect(JSON.parse(String(after.out))).toMatchObject({
      table,
      failed: 0,
      found: { rows: 50, left: 0, fields: { email: { v2: 50 } }, indexes: { emailIndex: { present: 50 } } },
    })
  })

  it('rewrap and reseal after a rotation, and take what a reader reads', async () => {
    await createPeople(5)
    await sql`update ${sql(table)} set phone = 'v1.aesgcm256.3bab9a53.7TL8lBQwmVghjHMQ.0_d9ytGHVHzoVv2bi64W6itmVbCdYjQyaFTvE6CA5g==' where id = 3`
    expect(await backfill(['--read', 'readers'])).toMatchObject({ code: 0, err: '' })
    await eaas.keys.rotate(keyId)
    expect(String((await inspect()).out)).toMatch(/5 with something to do\n {2}email: 5 v2, 5 old key version/)
    const ran = await backfill(['--work', 'rewrap', '--json'])
    expect(JSON.parse(String(ran.out))).toMatchObject({
      table,
      work: 'rewrap',
      dryRun: false,
      rows: 5,
      changed: 5,
      failed: 0,
    })
    expect(String((await inspect(['--open'])).out)).toMatch(/5 rows, 0 with something to do/)
    expect(JSON.parse(String((await backfill(['--work', 'reseal', '--json'])).out))).toMatchObject({ changed: 5 })
    const model = (await import(MODULE)).strict(eaas, keyId)
    const [row] = await sql`select id, email, phone, email_index as "emailIndex" from ${sql(table)} where id = 3`
    expect(await model.decrypt(row)).toMatchObject({ email: 'Secret3@x.org', phone: 'ada@example.org' })
  })

  it('print in which order to encrypt it, with commands that a shell reads, and change nothing', async () => {
    await createPeople(2)
    const more = ['--rows-per-second', '9000', '--export', 'default', '--key-columns', '"id"', '--create-key']
    const line = `npx @eaas/cli backfill ${MODULE} --create-key --table ${table} --export default --key ${keyName} --column emailIndex=email_index --key-columns '"id"' --rows-per-second 9000`
    const planned = await backfill(['--plan', ...more])
    expect({ ...planned, out: String(planned.out) }).toEqual({
      code: 0,
      err: '',
      out: `${table}: 2 rows, 2 values to seal, 2 indexes to fill
1. add the columns and indexes of the model, by a migration of your ORM or by this
     create index concurrently on "${table}" ("email_index");
2. fill the indexes, before the application with the model runs; correct rows that this names, and run it again
     ${line} --work index
3. if it is not done yet, deploy the application with the model and its acceptPlaintext: true, and end all processes of the version before, which cannot read what is sealed
4. at once, fill the indexes again: the rows that the version before inserted since come first, and searches miss them only as long as these take; then come those that it changed
     ${line} --work index
5. seal the rows, and have the database refuse plaintext
     ${line} --constrain
6. remove acceptPlaintext from the model if it has it, and deploy that
`,
    })
    expect(await sql`select email, email_index from ${sql(table)} order by id`).toEqual([
      { email: 'Secret1@x.org', email_index: null },
      { email: 'Secret2@x.org', email_index: null },
    ])
    // A key that is to be created is not created by a plan.
    const none = await command(['backfill', MODULE, '--key', `${keyName}-none`, '--create-key', '--plan'])
    expect(none).toMatchObject({ code: 1, err: expect.stringContaining('there is no key') })
    await sql`alter table ${sql(table)} drop column email_index`
    const without = String((await backfill(['--plan', '--export', 'named'])).out)
    expect(without).toContain(`${table}: the columns of the model are not there yet\n1. add`)
    expect(without).toContain(`\n     alter table "${table}" add column "email_index" text;\n`)
    // Before there are sealed values to count, it calls no service, unless to find the key by its name.
    const { EAAS_API_KEY: _, ...env } = environment
    const plan = (key: string) => command(['backfill', MODULE, '--key', key, '--plan', '--export', 'named'], { env })
    expect(await plan(keyId)).toMatchObject({ code: 0, err: '' })
    const err = expect.stringContaining('no API key: set EAAS_API_KEY')
    expect(await plan(keyName)).toMatchObject({ code: 2, err })
  })

  it('show one line for all rows that fail for one reason, with their number and the first ten keys', async () => {
    await createPeople(13)
    await sql`update ${sql(table)} set email = 'eaas.2.cut' where id <= 12`
    await sql`update ${sql(table)} set phone = 'eaas.2.cut' where id = 13`
    const { code, err } = await backfill(['--dry-run'])
    const keys = Array.from({ length: 10 }, (_, at) => `["${at + 1}"]`).join(', ')
    const [many, one, sum, ...rest] = err.split('\n')
    expect(many).toMatch(new RegExp(`^12 rows \\(${keys.replaceAll(/[[\]]/g, '\\$&')} and so on\\), email: E_`))
    expect(one).toMatch(/^row \["13"\], phone: E_/)
    expect([code, sum, rest]).toEqual([1, 'eaas-cli: rows that failed, and stay as they were: 13', ['']])
  })

  it('make the database refuse plaintext once nothing is in plaintext, and say what to drop before they open it', async () => {
    await createPeople(3)
    await sql`update ${sql(table)} set email = 'eaas.2.cut' where id = 3`
    const checks = () => sql`select conname from pg_constraint where conrelid = ${table}::regclass and contype = 'c'`
    const dry = await backfill(['--dry-run', '--constrain'])
    expect(dry).toMatchObject({ code: 1, err: expect.stringContaining('row ["3"], email') })
    const failed = await backfill(['--constrain'])
    expect(failed).toMatchObject({ code: 1, err: expect.stringContaining('row ["3"], email') })
    expect(failed.err).toContain('no constraint was added')
    expect(await checks()).toEqual([])
    await sql`update ${sql(table)} set email = 'secret3@x.org', phone = '1' where id = 3`
    const printed = String((await backfill(['--dry-run', '--constrain'])).out)
    const [email, phone] = [`${table}_email_sealed`, `${table}_phone_sealed`]
    expect(printed).toMatch(
      /^people_\w+: 3 rows, 1 to change, 2 current\nalter table .* not valid;\nalter table .* validate constraint .*;\n$/,
    )
    expect(await checks()).toEqual([])
    const { code, out } = await backfill(['--constrain'])
    expect({ code, out: String(out) }).toEqual({
      code: 0,
      out: `${table}: 3 rows, 1 changed, 2 current\n${table} refuses plaintext now: ${email}, ${phone}\n`,
    })
    const report = JSON.parse(String((await backfill(['--constrain', '--work', 'reseal', '--json'])).out))
    expect(report).toMatchObject({
      changed: 3,
      constraints: [email, phone],
      statements: [expect.any(String), expect.any(String)],
    })
    await expect(sql`update ${sql(table)} set phone = 'LEAK?'`).rejects.toMatchObject({ constraint_name: phone })
    const drops = `alter table "${table}" drop constraint "${email}", drop constraint "${phone}"`
    expect(await backfill(['--work', 'open'])).toMatchObject({
      code: 2,
      err: `eaas-cli: constraints of the table refuse plaintext\nDrop them first: ${drops}\n`,
    })
    expect(await backfill(['--work', 'check'])).toMatchObject({ code: 0 })
    await sql.unsafe(drops)
    expect(await backfill(['--work', 'open'])).toMatchObject({ code: 0 })
    expect(await sealed()).toBe(0)
  })

  it('check, and restore the plaintext, with the service and by a recovery kit without it', async () => {
    await createPeople(20)
    const before = await sql`select id, email, phone from ${sql(table)} order by id`
    expect(await backfill()).toMatchObject({ code: 0 })
    const checked = await backfill(['--work', 'check'])
    expect({ ...checked, out: String(checked.out) }).toEqual({
      code: 0,
      err: '',
      out: `${table}: 20 rows, 20 readable, 0 failed\n  email: 20 v2\n  phone: 20 empty\n  emailIndex: 20 present\n`,
    })
    writeFileSync(join(folder, 'kit'), JSON.stringify(await eaas.keys.export(keyId)))
    const offline: Partial<CommandOptions> = {
      env: { DATABASE_URL: environment.DATABASE_URL },
      fetch: () => Promise.reject(new Error('the network was used')),
    }
    for (const exported of ['default', 'named']) {
      // The one finds its key by --key, the other by the name that its model has.
      const key = exported === 'default' ? ['--key', keyName] : []
      process.env.PEOPLE_KEY = keyName
      const argv = ['backfill', MODULE, '--export', exported, ...key, '--kit', 'kit']
      const byKit = await command([...argv, '--work', 'check'], offline).finally(() => delete process.env.PEOPLE_KEY)
      expect({ code: byKit.code, out: String(byKit.out) }).toMatchObject({
        code: 0,
        out: expect.stringContaining('20 readable'),
      })
    }
    const missing = await command(['backfill', MODULE, '--export', 'named', '--kit', 'kit', '--work', 'check'], offline)
    expect(missing).toMatchObject({ code: 1, err: expect.stringContaining('kit has no key of the name that') })
    const half = await command(
      [
        'backfill',
        MODULE,
        '--key',
        keyName,
        '--kit',
        'kit',
        '--work',
        'open',
        '--state',
        'kit.json',
        '--batch-size',
        '5',
      ],
      { ...offline, signal: AbortSignal.abort('SIGINT') },
    )
    expect(half).toMatchObject({ code: 130 })
    const byKit = ['backfill', MODULE, '--key', keyName, '--kit', 'kit', '--work', 'open']
    const interruption = new AbortController()
    const options = ['--state', 'open.json', '--batch-size', '5']
    const stopped = await command([...byKit, ...options], {
      ...offline,
      signal: interruption.signal,
      onTerminal: () => interruption.abort('SIGINT'),
    })
    expect(stopped).toMatchObject({ code: 130, err: expect.stringContaining('stopped after 5 rows') })
    expect(await sealed()).toBe(15)
    const rest = await backfill(['--work', 'open', ...options]) // the service goes on where the kit stopped
    expect({ ...rest, out: String(rest.out) }).toEqual({
      code: 0,
      err: '',
      out: `${table}: 20 rows, 20 changed, 0 current\n`,
    })
    expect(await sql`select id, email, phone from ${sql(table)} order by id`).toEqual(before)
    const [row] = await sql`select count(email_index)::int as count from ${sql(table)}`
    expect(row?.count).toBe(20)
  })

  it('read under a disabled key, and encrypt nothing', async () => {
    await createPeople(2)
    await sql`alter table ${sql(table)} drop column email_index`
    const argv = (name: string, ...more: string[]) =>
      runCommand([name, MODULE, '--key', keyName, '--table', table, '--export', 'plain', ...more], {
        env: environment,
        folder,
      })
    expect(await argv('backfill')).toMatchObject({ code: 0 })
    await eaas.keys.disable(keyId)
    expect(await argv('backfill', '--work', 'reseal')).toMatchObject({
      code: 1,
      err: expect.stringContaining('is disabled: enable it first'),
    })
    expect(await argv('inspect-table', '--open')).toMatchObject({ code: 0 })
    expect(await argv('backfill', '--work', 'check')).toMatchObject({ code: 0 })
    expect(await argv('backfill', '--work', 'open')).toMatchObject({ code: 0 })
    expect(await sealed()).toBe(0)
  })

  it('name --key to a function that lacks the id of a key', async () => {
    const { code, err } = await command(['backfill', MODULE])
    expect({ code, err }).toMatchObject({ code: 2, err: expect.stringContaining('give --key <name>') })
  })

  it('create the key where it is missing, if they are told to', async () => {
    await createPeople(3)
    const name = `${keyName} new`
    const without = await command(['backfill', MODULE, '--key', name])
    expect(without).toMatchObject({ code: 1, err: expect.stringContaining('--create-key creates it') })
    for (const changed of [3, 0]) {
      const ran = await command(['backfill', MODULE, '--key', name, '--create-key'])
      expect(String(ran.out)).toContain(`3 rows, ${changed} changed`)
    }
    expect((await eaas.keys.list({ name })).keys).toHaveLength(1)
    const { secret } = await eaas.apiKeys.create({
      name: 'no right',
      permissions: ['keys:read', 'wrap', 'unwrap', 'hash'],
    })
    const env = { ...environment, EAAS_API_KEY: secret }
    const refused = await command(['backfill', MODULE, '--key', `${name} 2`, '--create-key'], { env })
    expect(refused).toMatchObject({ code: 1, err: expect.stringMatching(/keys:create/) })
  })

  it('take names in the quotes of SQL and of CSV', async () => {
    await sql.unsafe(
      `create table "odd.${table}" (id int, "b,c" int not null unique, email text not null, phone text, email_index text)`,
    )
    await sql.unsafe(`insert into "odd.${table}" (id, "b,c", email) values (1, 1, 'a@x.org'), (2, 2, 'b@x.org')`)
    const names = ['--table', `"odd.${table}"`, '--key-columns', '"b,c"']
    const argv = ['backfill', MODULE, '--key', keyName, ...COLUMN, ...names]
    const ran = await runCommand(argv, { env: environment, folder })
    expect({ ...ran, out: String(ran.out) }).toEqual({
      code: 0,
      err: '',
      out: `"odd.${table}": 2 rows, 2 changed, 0 current\n`,
    })
  })

  it('leave what does not seal, show its key and no value, and exit with 1', async () => {
    await createPeople(4)
    await sql`create unique index on ${sql(table)} (email_index)`
    await sql`update ${sql(table)} set email = 'SECRET1@x.org' where id = 2`
    const { code, out, err } = await backfill()
    expect({ code, out: String(out) }).toEqual({ code: 1, out: `${table}: 4 rows, 3 changed, 0 current, 1 failed\n` })
    expect(err).toMatch(/^row \["2"\]: E_DATABASE: .*SQLSTATE 23505/)
    expect(err).not.toMatch(/secret/i)
  })

  it('show a bar with rate and time left on a terminal alone', async () => {
    await createPeople(10)
    const shown: string[] = []
    const ran = await backfill([], { onTerminal: (part) => shown.push(part) })
    expect(ran.code).toBe(0)
    expect(shown[0]).toMatch(/^\r.{3}sealing \[#{24}\] 100 % 10 rows, \d+ a second, 0 s left$/s)
    expect(shown.at(-1)).toMatch(/^\r.\[K$/s)
  })

  it('end on Ctrl-C when the page in flight is written, and go on there', async () => {
    await createPeople(30)
    const interruption = new AbortController()
    const options = ['--state', 'state.json', '--batch-size', '10']
    // The service is asked while the first page is in flight.
    const stopped = await backfill(options, {
      signal: interruption.signal,
      fetch: (url, init) => {
        if (String(url).endsWith('/wrap') || String(url).endsWith('/batch')) interruption.abort('SIGINT')
        return fetch(url, init)
      },
    })
    expect(stopped).toMatchObject({ code: 130, out: Buffer.alloc(0) })
    expect(stopped.err).toBe(
      'stopped after 10 rows, which stay as they are now: run the same command again to go on there\n',
    )
    expect(await sealed()).toBe(10)
    expect(state()).toMatchObject({ after: '["10"]', done: { rows: 10, changed: 10, failed: 0 } })
    const rest = await backfill([...options, '--json'])
    expect(JSON.parse(String(rest.out))).toMatchObject({ rows: 30, changed: 30, found: { rows: 20 } })
    expect(readdirSync(folder).filter((name) => name.startsWith('state'))).toEqual([])
  })

  it('end on Ctrl-C while they wait for their turn', async () => {
    await createPeople(20)
    const interruption = new AbortController()
    const begun = performance.now()
    const stopped = await backfill(['--batch-size', '10', '--rows-per-second', '1'], {
      signal: interruption.signal,
      onTerminal: () => setTimeout(() => interruption.abort('SIGINT'), 20),
    })
    expect(stopped).toMatchObject({ code: 130, err: expect.stringContaining('run the same command again: rows') })
    expect(performance.now() - begun).toBeLessThan(9_000) // ten rows have ten seconds
    expect(await sealed()).toBe(10)
  })

  it('count what failed before a stop, and go on for the same table, work, database and model only', async () => {
    await createPeople(30)
    const options = ['--state', 'state.json', '--batch-size', '10']
    await sql`update ${sql(table)} set phone = 'eaas.2.cut' where id = 5`
    const interruption = new AbortController()
    await backfill(options, { signal: interruption.signal, onTerminal: () => interruption.abort('SIGINT') })
    expect(state()).toMatchObject({ after: '["10"]', done: { rows: 10, changed: 9, failed: 1 } })
    for (const other of [
      ['--work', 'reseal'],
      ['--key-columns', 'id'],
      ['--export', 'strict'],
      ['--read', 'readers'],
    ]) {
      expect(await backfill([...options, ...other])).toMatchObject({
        code: 2,
        err: expect.stringContaining('another run'),
      })
    }
    const { name: otherKey } = await eaas.keys.create({ name: `${keyName} 2` })
    const elsewhere = new URL(environment.DATABASE_URL ?? '')
    elsewhere.pathname = '/postgres'
    const env = { ...environment, DATABASE_URL: elsewhere.href }
    expect(await backfill(options, { env })).toMatchObject({ code: 2, err: expect.stringContaining('another run') })
    expect(await command(['backfill', MODULE, '--key', otherKey, ...options])).toMatchObject({
      code: 2,
      err: expect.stringContaining('another run'),
    })
    expect(await sealed()).toBe(9)
    const rest = await backfill(options)
    expect(rest).toMatchObject({
      code: 1,
      err: expect.stringMatching(/^1 more row failed.*\neaas-cli: rows that failed.*: 1/),
    })
    expect(String(rest.out)).toBe(`${table}: 30 rows, 29 changed, 0 current, 1 failed\n`)
    expect(await inspect(['--open'])).toMatchObject({ code: 1, err: expect.stringMatching(/^row \["5"\], phone: E_/) })
    expect(existsSync(join(folder, 'state.json'))).toBe(false) // the next run reads the row that failed
  })

  it('go on with the same model only: the module may have changed meanwhile', async () => {
    await createPeople(30)
    const options = ['--state', 'state.json', '--batch-size', '10']
    const interruption = new AbortController()
    await backfill(options, { signal: interruption.signal, onTerminal: () => interruption.abort('SIGINT') })
    for (const [name, value, was] of [
      ['PEOPLE_NAME', 'persons', 'model.name was "people"'],
      ['PEOPLE_NORMALIZE', 'trim', 'model.indexes was [{"column":"emailIndex",'],
    ] as const) {
      process.env[name] = value
      const ran = await backfill(options).finally(() => delete process.env[name])
      expect(ran).toMatchObject({ code: 2, err: expect.stringContaining(`it belongs to another run: ${was}`) })
    }
    expect(await backfill(options)).toMatchObject({ code: 0 })
  })

  it('begin a rewrap again where the key was rotated meanwhile', async () => {
    await createPeople(30)
    expect(await backfill()).toMatchObject({ code: 0 })
    await eaas.keys.rotate(keyId)
    const options = ['--work', 'rewrap', '--state', 'rotated.json', '--batch-size', '10']
    const interruption = new AbortController()
    await backfill(options, { signal: interruption.signal, onTerminal: () => interruption.abort('SIGINT') })
    expect(readKept('rotated.json')).toMatchObject({ done: { changed: 10 } })
    await eaas.keys.rotate(keyId)
    const refused = await backfill(options)
    const was = `it belongs to another run: versions was {"${keyId}":2}. Remove it to begin at the first row`
    expect(refused).toMatchObject({ code: 2, err: expect.stringContaining(was) })
    rmSync(join(folder, 'rotated.json'))
    expect(String((await backfill(options)).out)).toContain('30 rows, 30 changed')
  })

  it('refuse a state of a version that did not keep what the run makes', async () => {
    await createPeople(30)
    const options = ['--work', 'rewrap', '--state', 'earlier.json', '--batch-size', '10']
    const interruption = new AbortController()
    await backfill(options, { signal: interruption.signal, onTerminal: () => interruption.abort('SIGINT') })
    const kept = readKept('earlier.json')
    kept.run.model.indexes = ['emailIndex']
    delete kept.run.versions
    writeFileSync(join(folder, 'earlier.json'), JSON.stringify(kept))
    const was = 'model.indexes was ["emailIndex"]; versions was not kept. Remove it'
    expect(await backfill(options)).toMatchObject({ code: 2, err: expect.stringContaining(was) })
  })

  it('refuse a wrapped key that opens nothing, of a service that answers wrongly', async () => {
    await createPeople(10)
    const lying = async (url: Parameters<typeof fetch>[0], init?: Parameters<typeof fetch>[1]) => {
      const response = await fetch(url, init)
      if (!/\/(wrap|batch)$/.test(String(url))) return response
      const text = (await response.text()).replaceAll(
        /"wrapped_key":"(.{60})(.)/g,
        (_, start, changed) => `"wrapped_key":"${start}${changed === 'A' ? 'B' : 'A'}`,
      )
      return new Response(text, { status: response.status, headers: response.headers })
    }
    const { code, err } = await backfill([], { fetch: lying })
    expect({ code, err }).toMatchObject({ code: 1, err: expect.stringContaining('does not unwrap to the same DEK') })
    expect(await sealed()).toBe(0)
  })

  it('keep a state behind which a row that others hold is still to do', async () => {
    await createPeople(30)
    const options = ['--state', 'state.json', '--batch-size', '10']
    const holder = await sql.reserve()
    await holder`begin`
    await holder`select id from ${sql(table)} where id = 15 for update`
    const held = await backfill(options)
    await holder`commit`
    holder.release()
    expect(held).toMatchObject({ code: 1, err: expect.stringContaining('1 row was changed or locked each time') })
    expect(String(held.out)).toBe(`${table}: 30 rows, 29 changed, 0 current, 1 contended\n`)
    expect(state()).toMatchObject({ after: '["10"]', done: { rows: 10, changed: 10 } })
    const rest = await backfill(options)
    expect({ ...rest, out: String(rest.out) }).toEqual({
      code: 0,
      err: '',
      out: `${table}: 30 rows, 11 changed, 19 current\n`,
    })
  })

  it.each(['', '{', 'null', '{"format":"eaas/backfill-state/2"}', '{"format":"eaas/backfill-state/0","after":"[]"}'])(
    'refuse a state that is none: %s',
    async (text) => {
      await createPeople(1)
      writeFileSync(join(folder, 'broken.json'), text)
      const ran = await backfill(['--state', 'broken.json'])
      expect(ran).toMatchObject({ code: 2, err: expect.stringContaining('it is no state of a backfill') })
      expect(await sealed()).toBe(0)
    },
  )

  it.each([
    ['a password', (url: URL) => Object.assign(url, { username: 'nobody', password: 'hidden%21' })],
    ['no database', (url: URL) => Object.assign(url, { pathname: '/none', password: 'hidden%21' })],
    ['no server', (url: URL) => Object.assign(url, { port: '1', password: 'hidden%21' })],
  ])('say why there is no connection, and no secret: %s', async (_, change) => {
    const env = { ...environment, DATABASE_URL: change(new URL(environment.DATABASE_URL ?? '')).href }
    for (const driver of ['pg', 'postgres']) {
      const { code, err } = await backfill(['--driver', driver], { env })
      expect({ code, err }).toMatchObject({
        code: 1,
        err: expect.stringMatching(/no connection to the database.*[A-Z0-9]{5}/),
      })
      expect(err).not.toMatch(/hidden/)
    }
  })

  describe('as processes', () => {
    const start = (argv: string[]) => {
      const env = {
        ...environment,
        PATH: process.env.PATH,
        APP_API_KEY: environment.EAAS_API_KEY,
        APP_KEY_ID: keyId,
        EAAS_API_KEY: '',
      }
      const child = spawn(process.execPath, [MAIN, ...argv, '--table', table, ...COLUMN], {
        cwd: folder,
        env,
        stdio: ['ignore', 'pipe', 'pipe'],
      })
      const printed = { out: '', err: '' }
      child.stdout.on('data', (part) => (printed.out += part))
      child.stderr.on('data', (part) => (printed.err += part))
      const ended = once(child, 'close').then(([code, signal]) => ({ code, signal, ...printed }))
      return { child, ended }
    }

    it('say what to do with a module that Node.js does not load', async () => {
      writeFileSync(join(dir.path, 'model.unknown'), 'export default {}')
      expect(await start(['backfill', join(dir.path, 'model.unknown')]).ended).toMatchObject({
        code: 2,
        err: expect.stringMatching(
          /npm install --save-dev tsx, and then this command behind NODE_OPTIONS="--import tsx"/,
        ),
      })
      mkdirSync(join(folder, 'node_modules/tsx'), { recursive: true })
      writeFileSync(join(folder, 'node_modules/tsx/index.js'), '')
      expect(await start(['backfill', join(dir.path, 'model.unknown')]).ended).toMatchObject({
        code: 2,
        err: expect.stringMatching(/or run this command behind NODE_OPTIONS="--import tsx"/),
      })
    })

    it('are killed and go on, with a model that has a client of its own, by import and by require', async () => {
      await createPeople(60)
      const argv = [
        'backfill',
        MODULE,
        '--export',
        'own',
        '--state',
        'killed.json',
        '--batch-size',
        '5',
        '--rows-per-second',
        '50',
      ]
      const first = start(argv)
      await expect.poll(() => existsSync(join(folder, 'killed.json'))).toBe(true)
      first.child.kill('SIGKILL')
      expect(await first.ended).toMatchObject({ signal: 'SIGKILL' })
      const kept = JSON.parse(readFileSync(join(folder, 'killed.json'), 'utf8'))
      expect(kept.done.rows).toBeGreaterThanOrEqual(5)
      expect(kept.done.rows).toBeLessThan(60)
      const second = start(argv)
      await expect
        .poll(() => JSON.parse(readFileSync(join(folder, 'killed.json'), 'utf8')).done.rows)
        .toBeGreaterThan(kept.done.rows)
      second.child.kill('SIGINT')
      const { code, err } = await second.ended
      expect({ code, err }).toEqual({
        code: 130,
        err: expect.stringMatching(/^stopped after \d+ rows.*to go on there\n$/),
      })
      const last = await start([...argv.slice(0, -2), '--json']).ended
      expect({ ...last, out: JSON.parse(last.out) }).toMatchObject({
        code: 0,
        err: '',
        out: { rows: 60, failed: 0, contended: 0 },
      })
      expect(existsSync(join(folder, 'killed.json'))).toBe(false)
      const byRequire = await start(['inspect-table', here('people.cjs'), '--open', '--json']).ended
      expect({ ...byRequire, out: JSON.parse(byRequire.out) }).toMatchObject({
        code: 0,
        err: '',
        out: { failed: 0, found: { rows: 60, left: 0 } },
      })
    })

    it('are killed while they open a table, and go on; what the application seals meanwhile is opened too', async () => {
      await createPeople(60)
      const before = await sql`select id, email from ${sql(table)} where id <> 55 order by id`
      expect(await backfill()).toMatchObject({ code: 0 })
      const open = ['backfill', MODULE, '--export', 'own', '--work', 'open', '--state', 'opened.json']
      const argv = [...open, '--batch-size', '5', '--rows-per-second', '50']
      const first = start(argv)
      await expect.poll(() => existsSync(join(folder, 'opened.json'))).toBe(true)
      first.child.kill('SIGKILL')
      expect(await first.ended).toMatchObject({ signal: 'SIGKILL' })
      const kept = JSON.parse(readFileSync(join(folder, 'opened.json'), 'utf8'))
      expect(kept.done.rows).toBeLessThan(55)
      expect(60 - (await sealed())).toBeGreaterThanOrEqual(kept.done.rows)
      const model = (await import(MODULE)).default(eaas, keyId)
      const newest = await model.encrypt({ id: 55, email: 'Newest@x.org', phone: null })
      await sql`update ${sql(table)} set email = ${newest.email}, email_index = ${newest.emailIndex} where id = 55`
      const last = await start([...open, '--json']).ended
      expect({ ...last, out: JSON.parse(last.out) }).toMatchObject({ code: 0, err: '', out: { rows: 60, failed: 0 } })
      expect(existsSync(join(folder, 'opened.json'))).toBe(false)
      expect(await sql`select id, email from ${sql(table)} where id <> 55 order by id`).toEqual(before)
      const [row] = await sql`select email from ${sql(table)} where id = 55`
      expect(row?.email).toBe('Newest@x.org')
    })
  })
})
