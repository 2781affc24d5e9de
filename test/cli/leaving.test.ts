// The page "Leaving EaaS", followed: each command of it runs as it is written, on a real server and a table of PostgreSQL.
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { backend, freshDatabase, type TestDatabase } from '../support/database/database.js'
import { databaseWithTenant } from '../support/database/filled-database.js'
import { findOrInstallPrograms } from '../support/run/apt-program.js'
import { type GuardedDir, guardedDir } from '../support/run/guarded-dir.js'
import { EAAS, environmentOf } from '../support/service/eaas-process.js'
import { type RunningServer, startServer } from '../support/service/server.js'
import { readPage } from '../support/sources/snippets.js'
import { ROOT } from '../support/sources/source-files.js'
import { PYTHON } from '../support/vectors/python.js'

const MAIN = join(ROOT, 'packages/cli/dist/main.js')
const PAGE = readPage('packages/cli/docs/leaving.md')
const OPEN_KIT = join(ROOT, 'packages/server/dist/open-kit')

/** Of another key: its line of the kit has a line end of Unicode. */
const ODD_NAME = 'a\u2028b'

/** The blocks of a language, in their order. */
const blocks = (language: string) =>
  [...PAGE.matchAll(new RegExp(`^ *\`\`\`${language}\n(.*?)^ *\`\`\``, 'gms'))].map(([, text = '']) => text)

// The commands connect by DATABASE_URL, and nobody can connect to the embedded database.
const canRun = backend() === 'postgres' && findOrInstallPrograms(['age', 'age-keygen'], ['age'])

describe.runIf(canRun)('the page about leaving', { timeout: 240_000 }, () => {
  let installation: TestDatabase
  let application: TestDatabase
  let server: RunningServer
  let sql: postgres.Sql
  let dir: GuardedDir
  let environment: Record<string, string>

  const [withService = '', withKit = '', inPython = ''] = blocks('sh')
  const people = () => sql`select id, email, phone from people order by id`
  const bash = async (script: string, more: Record<string, string> = {}) => {
    const programs = [
      `npx() { shift; '${process.execPath}' '${MAIN}' "$@"; }`,
      `eaas() { env ${Object.entries(environmentOf({ database: installation }))
        .map(([name, value]) => `${name}='${value}'`)
        .join(' ')} '${process.execPath}' '${EAAS}' "$@"; }`,
      `python3() { '${PYTHON}' "$@"; }`,
    ]
    const { stdout } = await promisify(execFile)(
      'bash',
      ['--norc', '-c', `${programs.join('\n')}\nset -euo pipefail\n${script}`],
      {
        cwd: dir.path,
        env: { ...environment, ...more },
      },
    )
    return stdout
  }
  const seal = async () => {
    const ran = await bash('npx @eaas/cli backfill models/people.mjs --table people')
    expect(ran).toBe('people: 3 rows, 3 changed, 0 current\n')
  }

  beforeAll(async () => {
    const filled = await databaseWithTenant()
    installation = filled.database
    application = await freshDatabase('leaving')
    if (application.backend !== 'postgres') throw new Error('a PostgreSQL')
    server = await startServer({ database: installation })
    const headers = { authorization: `Bearer ${filled.api_key.secret}`, 'content-type': 'application/json' }
    const body = JSON.stringify({ name: ODD_NAME })
    expect((await fetch(`${server.url}/v1/keys`, { method: 'POST', headers, body })).status).toBe(201)
    sql = postgres(application.directUrl, { max: 1, onnotice: () => undefined })
    await sql`create table people (id int primary key, email text not null, phone text, email_index text)`
    await sql`insert into people values (1, 'Ada@example.org', '+33 1'), (2, 'g,"race"@example.org', null), (3, 'é', '+33 3')`
    dir = guardedDir('eaas-test-leaving')
    mkdirSync(join(dir.path, 'models'))
    writeFileSync(join(dir.path, 'models/people.mjs'), blocks('js')[0] ?? '')
    writeFileSync(join(dir.path, 'open_table.py'), blocks('python')[0] ?? '')
    cpSync(OPEN_KIT, dir.path, { recursive: true })
    symlinkSync(join(ROOT, 'node_modules'), join(dir.path, 'node_modules'), 'junction')
    environment = {
      PATH: process.env.PATH ?? '',
      EAAS_URL: server.url,
      EAAS_API_KEY: filled.api_key.secret,
      DATABASE_URL: application.directUrl,
    }
  })
  afterAll(async () => {
    await sql?.end()
    await server?.stop()
    await dir?.remove()
    await application?.drop()
    await installation?.drop()
  })

  it('has three programs', () => {
    expect(blocks('sh')).toHaveLength(3)
    expect([blocks('js').length, blocks('python').length]).toEqual([1, 1])
  })

  it('restores the plaintext with the service', async () => {
    const before = await people()
    await seal()
    expect(JSON.stringify(await people())).not.toMatch(/example/)
    expect(await bash(withService)).toBe(
      'people: 3 rows, 3 readable, 0 failed\n  email: 3 v2\n  phone: 1 empty, 2 v2\n  email_index: 3 present\npeople: 3 rows, 3 changed, 0 current\n',
    )
    expect(await people()).toEqual(before)
  })

  it('restores it with a recovery kit alone', async () => {
    const before = await people()
    await seal()
    // No service is reached, and no API key is there.
    const ran = await bash(withKit, { EAAS_URL: 'http://127.0.0.1:1', EAAS_API_KEY: '' })
    expect(ran).toContain('people: 3 rows, 3 readable, 0 failed\n')
    expect(ran).toMatch(/people: 3 rows, 3 changed, 0 current\n$/)
    expect(await people()).toEqual(before)
  })

  it('opens it in Python', async () => {
    const before = await people()
    await seal()
    await bash(inPython, { EAAS_URL: '', EAAS_API_KEY: '' })
    const withAnotherKey = inPython.replace('ada.key people', `ada.key "${ODD_NAME}"`)
    await expect(bash(withAnotherKey.replace('open.csv', 'refused.csv'), { EAAS_URL: '' })).rejects.toThrow(
      'DoesNotOpen',
    )
    await sql`create table opened (id int, email text, phone text)`
    await bash(`psql "$DATABASE_URL" -q -c '\\copy opened from open.csv csv header'`)
    expect(await sql`select id, email, phone from opened order by id`).toEqual(before)
    expect(readFileSync(join(dir.path, 'sealed.csv'), 'utf8')).not.toMatch(/example/)
  })

  it('opens fields of every kind in Python, also inside an object and bound to two columns', async () => {
    const model = `import { boolean, bytes, date, json, number, text } from '@eaas/sdk'
export default (eaas) => eaas.model({ name: 'visits', key: 'people', bind: ['tenant', 'id'], acceptPlaintext: true, warn: false,
  fields: { smokes: boolean(), note: text({ pad: 32 }), photo: bytes(), kilos: number({ pad: 8 }), born: date(), prefs: json(), 'address.street': text() } })`
    writeFileSync(join(dir.path, 'models/visits.mjs'), model)
    const [tenant, id, note, photo, born] = ['a/b', 7, 'é, "x"', '/wD/AA==', '1815-12-10T00:00:00.000Z']
    const plain = { smokes: true, note, photo, kilos: 61.5, born, prefs: { dark: [1, null] } }
    const columns = Object.keys(plain)
    await sql.unsafe(
      `create table visits (tenant text, id int primary key, address jsonb, ${columns.join(' jsonb, ')} jsonb)`,
    )
    const jsons = { ...plain, address: { street: '12 Main St', city: 'Paris' } }
    const given = Object.entries(jsons).map(([name, value]) => [name, sql.json(value as never)])
    await sql`insert into visits ${sql({ tenant, id, ...Object.fromEntries(given) })}`
    await bash('npx @eaas/cli backfill models/visits.mjs --table visits')
    const selected = `tenant, id, ${columns.join(', ')}, address->>'street' as "address.street", address->>'city' as city`
    const opened = await bash(
      `psql "$DATABASE_URL" -q <<< ${JSON.stringify(`\\copy (select ${selected} from visits) to visits.csv csv header`)}
       python3 open_table.py kit.age ada.key people visits tenant,id smokes note photo:bytes kilos born prefs address.street < visits.csv`,
      { EAAS_URL: '', EAAS_API_KEY: '' },
    )
    expect(readFileSync(join(dir.path, 'visits.csv'), 'utf8')).not.toMatch(/Main|true|61\.5|dark/)
    const values = `a/b,7,true,"é, ""x""",${photo},61.5,${born},"{""dark"":[1,null]}",12 Main St,Paris`
    expect(opened.replaceAll('\r\n', '\n')).toBe(`tenant,id,${columns.join(',')},address.street,city\n${values}\n`)
  })
})
