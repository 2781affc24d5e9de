// `eaas-cli init` on whole applications of Prisma and Drizzle: what it made compiles against the packed packages, and runs against
// `eaas dev`; the rows that were there are encrypted by the command that it names.
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseEnv, promisify } from 'node:util'
import { build } from 'esbuild'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { backend, freshDatabase, isPooled } from '../support/database/database.js'
import { installPackedSdk } from '../support/platforms/packed-sdk.js'
import { type GuardedDir, guardedDir } from '../support/run/guarded-dir.js'
import { EAAS, type EaasProcess, startEaas } from '../support/service/eaas-process.js'
import { findTypeErrors } from '../support/sources/native-compiler.js'
import { ROOT } from '../support/sources/source-files.js'

const MAIN = join(ROOT, 'packages/cli/dist/main.js')
const DRIZZLE = fileURLToPath(new URL('./init', import.meta.url))
const DROP_IN = join(ROOT, 'test/orm/drop-in')
const TABLES = `create table "Customer" (id serial primary key, email text not null unique, phone text, city text not null);
create table "Order" (id text primary key, remark text not null, total integer not null, "customerId" integer not null references "Customer");
insert into "Customer" (email, city) values ('old@x.org', 'Paris');`
/** Runs the application of Prisma on a PostgreSQL in memory, to which the migration is applied. */
const PRISMA_MAIN = `
import { readFileSync } from 'node:fs'
import { PGlite } from '@electric-sql/pglite'
import { PrismaPGlite } from 'pglite-prisma-adapter'
import { openShop } from './shop.js'

const postgres = new PGlite()
await postgres.exec(process.env.TABLES ?? '')
await postgres.exec(readFileSync(process.argv[2] ?? '', 'utf8'))
const shop = await openShop(new PrismaPGlite(postgres))
await shop.signUp('Ada@x.org', 'London')
await shop.setPhone('ada@x.org', '+33 1', 'London')
const login = await shop.login('ada@x.org')
const cities = [await shop.inCity('London'), await shop.inCity('Paris')]
const { rows } = await postgres.query('select * from "Customer" order by id')
console.log(JSON.stringify({ login, cities, rows }))
await shop.close()
`

let dir: GuardedDir
let folder: string
let eaas: EaasProcess
const run = promisify(execFile)
const node = (argv: string[], more: Record<string, string | undefined> = {}) => {
  const env = { PATH: process.env.PATH, ...parseEnv(readFileSync(join(folder, '.env'), 'utf8')), ...more }
  return run(process.execPath, argv, { cwd: folder, env })
}
const put = (path: string, text: string) => {
  mkdirSync(dirname(join(folder, path)), { recursive: true })
  writeFileSync(join(folder, path), text)
}
const init = (...argv: string[]) => run(process.execPath, [MAIN, 'init', ...argv, '--yes'], { cwd: folder })
const bundle = (from: string, to: string) =>
  build({
    ...{ entryPoints: [join(folder, from)], outfile: join(folder, to), absWorkingDir: folder },
    ...{ bundle: true, packages: 'external', format: 'esm', platform: 'node', target: 'node20', logLevel: 'error' },
  })
const typeErrors = (...files: string[]) =>
  findTypeErrors({
    files: files.map((path) => join(folder, path)),
    extended: join(ROOT, 'tsconfig.json'),
    compilerOptions: { module: 'nodenext', moduleResolution: 'nodenext' },
    below: folder,
  })

beforeAll(async () => {
  dir = guardedDir('eaas-test-init')
  folder = dir.path
  await installPackedSdk(folder)
  for (const name of ['@electric-sql/pglite', 'pglite-prisma-adapter', 'postgres', 'drizzle-orm', '@prisma/client']) {
    mkdirSync(dirname(join(folder, 'node_modules', name)), { recursive: true })
    const target = join(folder, 'node_modules', name)
    if (!readdirSync(dirname(target)).includes(name.split('/').at(-1) ?? ''))
      symlinkSync(join(ROOT, 'node_modules', name), target)
  }
  put('.env', 'OTHER=1\n')
})
afterAll(async () => {
  await eaas?.stop()
  await dir?.remove()
})

async function startDev() {
  const environment = { EAAS_DATA_DIR: join(folder, '.eaas') }
  eaas = await startEaas({ rootKey: null, environment, command: [EAAS, 'dev', '--file', join(folder, '.env')] })
}

describe.runIf(backend() === 'embedded')('an application of Prisma', () => {
  it('is set up by one command: it compiles, runs, and stores no plaintext', async () => {
    const manifest = { type: 'module', dependencies: { '@prisma/client': '7' } }
    put('package.json', JSON.stringify(manifest))
    cpSync(join(ROOT, 'test/orm/prisma'), join(folder, 'prisma'), { recursive: true })
    mkdirSync(join(folder, 'prisma/migrations'))
    const head = 'datasource db {\n  provider = "postgresql"\n}\n\n'
    put('prisma/schema.prisma', head + readFileSync(join(DROP_IN, 'before.prisma'), 'utf8'))
    put('src/shop.ts', readFileSync(join(DROP_IN, 'before.ts'), 'utf8'))
    put('src/main.ts', PRISMA_MAIN)
    const { stdout } = await init('--table', 'customers', '--fields', 'email,phone', '--search', 'email')
    expect(stdout).toMatch(
      /Written\. Next:\n {2}EaaS is not on npm yet: in a clone of it, npm run pack -- .*\n {2}npm install \.\/eaas-packages\/eaas-sdk-.*\n(?: {2}npm install --save-dev tsx\n)? {2}npx prisma generate\n/,
    )
    // The generated client of the tests is of this schema.
    expect(readFileSync(join(folder, 'prisma/schema.prisma'), 'utf8')).toBe(
      head + readFileSync(join(DROP_IN, 'after.prisma'), 'utf8'),
    )
    const [before, after] = [
      readFileSync(join(DROP_IN, 'before.ts'), 'utf8'),
      readFileSync(join(folder, 'src/shop.ts'), 'utf8'),
    ]
    const lines = (text: string) => text.split('\n')
    const lacking = (some: string, others: string) => lines(some).filter((line) => !lines(others).includes(line)).length
    expect([lacking(after, before), lacking(before, after)]).toEqual([5, 1])
    expect(await typeErrors('src/shop.ts', 'src/eaas-customer.ts')).toEqual([])
    await startDev()
    await bundle('src/main.ts', 'main.mjs')
    const [migration = ''] = readdirSync(join(folder, 'prisma/migrations'))
    const ran = await node(['main.mjs', join('prisma/migrations', migration, 'migration.sql')], { TABLES })
    const { login, cities, rows } = JSON.parse(ran.stdout)
    expect(login).toEqual({ email: 'Ada@x.org', city: 'London' })
    expect(cities).toEqual([
      [{ email: 'Ada@x.org', phone: '+33 1', orders: [] }],
      [{ email: 'old@x.org', phone: null, orders: [] }], // from before, which backfill encrypts
    ])
    expect(rows[1]).toMatchObject({
      email: expect.stringMatching(/^eaas\.2\./),
      phone: expect.stringMatching(/^eaas\.2\./),
    })
    expect(rows[1].email_index).toMatch(/^[0-9a-f]{64}$/)
  })
})

describe.runIf(backend() === 'postgres' && !isPooled())('an application of Drizzle', () => {
  it('is set up by one command: it compiles, runs, and backfill encrypts the rows that were there', async () => {
    const database = await freshDatabase('init')
    if (database.backend !== 'postgres') throw new Error('a PostgreSQL')
    const sql = postgres(database.directUrl, { max: 1, onnotice: () => undefined })
    await sql`create schema shop`
    await sql`create table shop.customers (id serial primary key, full_name text not null, email text not null unique, city text not null, salary numeric(9, 2))`
    await sql`insert into shop.customers (full_name, email, city, salary) values ('Old', 'old@x.org', 'Paris', 12.5)`
    const manifest = { type: 'module', dependencies: { 'drizzle-orm': '0.45', postgres: '3' } }
    put('package.json', JSON.stringify(manifest))
    cpSync(DRIZZLE, join(folder, 'src'), { recursive: true })
    const { stdout } = await init('--table', 'customers', '--fields', 'name,email,salary', '--search', 'email')
    expect(await typeErrors('src/main.ts', 'src/eaas-customers.ts')).toEqual([])
    await sql`alter table shop.customers add column email_index text unique, alter column salary type text` // as drizzle-kit makes it of the schema
    await startDev()
    await bundle('src/main.ts', 'main.mjs')
    await bundle('src/eaas-customers.ts', 'src/eaas-customers.mjs')
    const DATABASE_URL = database.directUrl
    const use = async (...argv: string[]) => JSON.parse((await node(['main.mjs', ...argv], { DATABASE_URL })).stdout)
    const ada = { name: 'Ada', email: 'Ada@x.org', salary: null }
    const old = { name: 'Old', email: 'old@x.org', salary: '12.50' }
    expect(await use('Ada@x.org', 'new')).toEqual({ found: [ada], all: ['old@x.org', 'Ada@x.org'] })
    const printed = [...stdout.matchAll(/(backfill \S+ --table .*)/g)].map(([line]) => line)
    const line =
      'backfill src/eaas-customers.ts --table shop.customers --column name=full_name --column emailIndex=email_index'
    expect(printed).toEqual([`${line} --work index`, `${line} --constrain`, `${line} --plan`])
    const runPrinted = (at: number) => {
      const argv = printed[at]?.replace('customers.ts', 'customers.mjs').split(' ') ?? [] // this Node.js may not load TypeScript
      return node([MAIN, ...argv], { DATABASE_URL })
    }
    expect((await use('old@x.org')).found).toEqual([]) // it has no index yet
    expect((await runPrinted(0)).stdout).toBe('shop.customers: 2 rows, 1 changed, 1 current\n')
    expect((await use('OLD@x.org')).found).toEqual([old])
    const ran = await runPrinted(1)
    expect(ran.stdout).toBe(
      'shop.customers: 2 rows, 1 changed, 1 current\nshop.customers refuses plaintext now: customers_full_name_sealed, customers_email_sealed, customers_salary_sealed\n',
    )
    expect((await use('OLD@x.org')).found).toEqual([old])
    expect(JSON.stringify(await sql`select full_name, email, email_index, salary from shop.customers`)).not.toMatch(
      /x\.org|Ada|Old|12\.5/,
    )
    await sql.end()
    await eaas.stop()
    await database.drop()
  })
})
