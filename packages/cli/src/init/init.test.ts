// `init` on small applications: what it adds, what it shows and asks, and what it leaves to the reader.
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { createClient, text } from '@eaas/sdk'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type GuardedDir, guardedDir } from '../../../../test/support/run/guarded-dir.js'
import { addSealedChecks } from '../backfill/sealed-checks.js'
import { sealedChecks } from '../backfill.js'
import { loaderFor } from '../model-module.js'
import { type CommandOptions, runCommand } from '../test-support/command.js'

const MODEL = createClient({ baseUrl: 'http://127.0.0.1:1', apiKey: 'key' }).model({
  name: 'customers',
  key: 'customers',
  bind: ['id'],
  format: 'text',
  fields: { email: text(), name: text(), phone: text() },
})
const SCHEMA = `datasource db {
  provider = "postgresql"
}

model Customer {
  id      Int     @id @default(autoincrement())
  email   String  @unique // how they log in
  name    String  @map("full_name")
  phone   String? @db.Text
  short   String  @db.VarChar(40)
  born    DateTime?
  tags    String[]
  role    String  @default("user")
  shopId  String
  shop    Shop    @relation(fields: [shopId], references: [id])

  @@map("customers")
}

model Shop {
  id        String @id
  customers Customer[]
}

model Log {
  text String
}
`
const CLIENT = `import { PrismaPg } from "@prisma/adapter-pg";
import { PrismaClient } from "../generated/prisma/client";

const adapter = new PrismaPg({ connectionString: process.env.DATABASE_URL });
export const db = new PrismaClient({ adapter, log: ["(", "error"] });
`
const TABLES = `import { index, integer, pgTable, serial, text as column, varchar } from 'drizzle-orm/pg-core'

export const users = pgTable('users', {
  id: serial().primaryKey(),
  email: column().notNull().unique(), // how they log in
  name: column('full_name').notNull(),
  code: varchar({ length: 20 }),
  boss: column().references(() => users.email),
})
export const posts = pgTable('posts', (t) => ({ id: t.integer().primaryKey(), title: t.text().notNull() }))
export const keyless = pgTable('keyless', { text: column() })
`

let guarded: GuardedDir
let folder: string
beforeAll(() => {
  guarded = guardedDir('eaas-cli-init')
})
afterAll(() => guarded.remove())
beforeEach(() => {
  folder = mkdtempSync(join(guarded.path, 'app-'))
})

const put = (path: string, text: string) => {
  mkdirSync(dirname(join(folder, path)), { recursive: true })
  writeFileSync(join(folder, path), text)
}
const get = (path: string) => readFileSync(join(folder, path), 'utf8')
const files = () => readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort()
const putPackage = (dependencies: object, more: object = {}) =>
  put('package.json', JSON.stringify({ dependencies, ...more }))
const putPrisma = () => {
  putPackage({ '@prisma/client': '7' })
  put('prisma/schema.prisma', SCHEMA)
  put('src/lib/db.ts', CLIENT)
}
const putDrizzle = () => {
  putPackage({ 'drizzle-orm': '0.45' }, { type: 'module' })
  put(
    'db.ts',
    `import { drizzle } from 'drizzle-orm/node-postgres'\nimport { posts } from './tables.js'\n\nconst db = drizzle(url)\n`,
  )
  put('tables.ts', TABLES)
}
const init = async (argv: string[], more: Partial<CommandOptions> = {}) => {
  const { code, out, err } = await runCommand(['init', ...argv], { env: { TZ: 'UTC' }, folder, input: '', ...more })
  return { code, out: String(out), err }
}
const OF_CUSTOMER = ['--table', 'Customer', '--fields', 'email,name,phone', '--search', 'email,name']

describe('init in an application of Prisma', () => {
  beforeEach(putPrisma)

  it('adds the model, the line that encrypts, the columns of indexes, their migration and the variables', async () => {
    mkdirSync(join(folder, 'prisma/migrations'))
    put('.env', 'DATABASE_URL=postgres://app:hidden@db/app')
    const before = files()
    const { code, out, err } = await init([...OF_CUSTOMER, '--yes'])
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(get('src/lib/eaas-customer.ts')).toBe(`import { type Client, text } from '@eaas/sdk'

/** The encrypted fields of Customer. \`npx @eaas/cli backfill\` calls it with a client of its own. */
export default function customerModel(eaas: Client) {
  return eaas.model({
    name: 'customers', // values are bound to it: never change it
    key: 'customers',
    bind: ['id'],
    format: 'text',
    acceptPlaintext: true, // until backfill has encrypted the rows that are there
    fields: {
      email: text({ index: 'email_index', normalize: ['trim', 'lowercase'] }),
      name: text({ index: 'name_index' }),
      phone: text().nullable(),
    },
  })
}
`)
    const [, first = '', rest = ''] = /^(.*@unique \/\/ how they log in\n)(.*)$/s.exec(SCHEMA) ?? []
    const added = `${first}  email_index String? @unique\n${rest}`
      .replace('@map("full_name")\n', '@map("full_name")\n  name_index String? @map("full_name_index")\n')
      .replace('  @@map("customers")\n', '  @@map("customers")\n  @@index([name_index])\n')
    expect(get('prisma/schema.prisma')).toBe(added)
    const [migration = ''] = files().filter((path) => path.endsWith('migration.sql'))
    expect(migration).toMatch(/^prisma.migrations.\d{14}_encrypt_customers.migration\.sql$/)
    expect(get(migration)).toBe(
      'ALTER TABLE "customers" ADD COLUMN "email_index" TEXT;\nCREATE UNIQUE INDEX "customers_email_index_key" ON "customers"("email_index");\n' +
        'ALTER TABLE "customers" ADD COLUMN "full_name_index" TEXT;\nCREATE INDEX "customers_full_name_index_idx" ON "customers"("full_name_index");\n' +
        addSealedChecks(
          '"customers"',
          sealedChecks(MODEL, { dialect: 'postgresql', table: 'customers', columns: { name: 'full_name' } }),
        ),
    )
    expect(get('src/lib/db.ts')).toBe(
      CLIENT.replace(
        'generated/prisma/client";\n',
        'generated/prisma/client";\nimport { createClient } from "@eaas/sdk";\nimport { encrypted } from "@eaas/prisma";\nimport customerModel from "./eaas-customer";\n',
      )
        .replace('export const db', 'const eaas = createClient();\nexport const db')
        .replace('"error"] })', '"error"] }).$extends(encrypted({ Customer: customerModel(eaas) }))'),
    )
    expect(get('.env')).toBe(
      'DATABASE_URL=postgres://app:hidden@db/app\nEAAS_URL=http://127.0.0.1:8420\nEAAS_API_KEY=\n',
    )
    expect(out).not.toMatch(/hidden/)
    const line =
      'npx @eaas/cli backfill src/lib/eaas-customer.ts --table customers --column name=full_name --column name_index=full_name_index'
    expect(out.replaceAll('NODE_OPTIONS="--import tsx" ', '')).toContain(
      `
  with DATABASE_URL set, and while the application runs as it was, fill the indexes of the rows that are there:
  ${line} --work index
  deploy the application; then, for rows that the version before wrote since, again:
  ${line} --work index
  encrypt the rows, and make the database refuse plaintext:
  ${line} --constrain
  then remove acceptPlaintext from src/lib/eaas-customer.ts
`,
    )
    expect(before.filter((path) => !files().includes(path))).toEqual([])
    const after = files().map((path) => [path, statSync(join(folder, path)).mtimeMs])
    const again = await init([...OF_CUSTOMER, '--yes'])
    expect(again).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^Every file has it already\. Next:\n {2}EaaS is not on npm yet/),
    })
    const left = `  with DATABASE_URL set, this prints the steps that are left:\n  ${line} --plan\n`
    for (const one of [out, again.out]) expect(one.replaceAll('NODE_OPTIONS="--import tsx" ', '')).toContain(left)
    expect(again.out).not.toMatch(/as it was|--work|--constrain/) // only the plan knows what is done
    expect(files().map((path) => [path, statSync(join(folder, path)).mtimeMs])).toEqual(after)
  })

  it('gives the models of further tables to the `encrypted` that is there, all by one client', async () => {
    put(
      'prisma/schema.prisma',
      SCHEMA.replace('String @id', 'String @id\n  city String').replace('text String', 'id Int @id\n  text String'),
    )
    await init([...OF_CUSTOMER, '--yes'])
    const { out } = await init(['--table', 'Shop', '--fields', 'city', '--yes'])
    expect(out).not.toContain('where the client is made')
    expect(out).not.toContain('index') // nothing of it is searched
    put(
      'src/lib/db.ts',
      get('src/lib/db.ts').replace(/\{ Customer: (.*), Shop: (.*) \}/, '{\n  Customer: $1,\n  Shop: $2,\n}'),
    )
    await init(['--table', 'Log', '--fields', 'text', '--yes'])
    const text = get('src/lib/db.ts')
    expect(text).toContain(
      '$extends(encrypted({\n  Customer: customerModel(eaas),\n  Shop: shopModel(eaas),\n  Log: logModel(eaas),\n}))',
    )
    expect(text.match(/createClient\(\)|import .* from "@eaas/g)).toHaveLength(3)
    expect(text).toContain('import logModel from "./eaas-log";\n')
    expect((await init(['--table', 'Log', '--fields', 'text', '--yes'])).out).toContain('Every file has it already')
  })

  it('shows a diff that has the same effect, and writes nothing without --yes', async () => {
    put('.env', 'DATABASE_URL=x\n')
    const before = files()
    const shown = await init(OF_CUSTOMER)
    expect(shown).toMatchObject({
      code: 2,
      err: 'eaas-cli: nothing was written: pass --yes to write this, or run it on a terminal\n',
    })
    expect(files()).toEqual(before)
    const copy = mkdtempSync(join(guarded.path, 'copy-'))
    cpSync(folder, copy, { recursive: true })
    execFileSync('git', ['apply', '--unidiff-zero', '-'], { cwd: copy, input: shown.out })
    await init([...OF_CUSTOMER, '--yes'])
    for (const path of files().filter((one) => statSync(join(folder, one)).isFile()))
      expect([path, readFileSync(join(copy, path), 'utf8')]).toEqual([path, get(path)])
  })

  it('asks on a terminal, and takes no for an answer', async () => {
    const answers = (last: string) => ({ input: `customer\nemail, phone\nemail\n${last}\n`, isTyped: true })
    const before = files()
    for (const last of ['n', '', 'yess']) expect(await init([], answers(last))).toMatchObject({ code: 1 })
    expect(await init([], { input: 'customer\n', isTyped: true })).toMatchObject({ code: 1 })
    expect(files()).toEqual(before)
    const { code, err } = await init([], answers('y'))
    expect({ code, err }).toEqual({
      code: 0,
      err: 'Table (Customer, Shop, Log): Columns to encrypt (email, name, phone, short, born): Those to search by equality (none): Write this? [y/N] ',
    })
    expect(get('src/lib/eaas-customer.ts')).toContain("email: text({ index: 'email_index'")
  })

  it.each(['typed before', 'never typed'])(
    'writes nothing after Ctrl-C at a question, with an answer %s',
    async (answer) => {
      const interruption = new AbortController()
      const before = files()
      const typing = async function* () {
        yield `customer\nemail\n\n${answer === 'never typed' ? '' : 'y\n'}`
        await new Promise(() => undefined)
      }
      const onTerminal = (text: string) => void (text.startsWith('Write this') && interruption.abort('SIGINT'))
      const typed = { input: Readable.from(typing()), isTyped: true, onTerminal, signal: interruption.signal }
      expect(await init([], typed)).toMatchObject({ code: 130 })
      expect(files()).toEqual(before)
    },
  )

  it('leaves the migration to Prisma where there is none yet, except what Prisma would convert otherwise', async () => {
    const { out } = await init([...OF_CUSTOMER, '--yes'])
    expect(out).toContain('npx prisma db push, or npx prisma migrate dev')
    expect(out).not.toContain('ALTER TABLE')
    expect(files().filter((path) => path.endsWith('.sql'))).toEqual([])
    execFileSync('rm', [join(folder, 'src/lib/eaas-customer.ts')])
    expect((await init(['--table', 'Customer', '--fields', 'born', '--yes'])).out).toContain(
      `first, since Prisma would leave out the zone of times, in the database: ALTER TABLE "customers" ALTER COLUMN "born" TYPE TEXT USING date_trunc('milliseconds', "born")::text || 'Z';\n  npx prisma db push`,
    )
  })

  it('names the schema of a table', async () => {
    mkdirSync(join(folder, 'prisma/migrations'))
    put('prisma/schema.prisma', SCHEMA.replace('@@map("customers")', '@@map("others")\n  @@schema("crm")'))
    const { out } = await init([...OF_CUSTOMER, '--yes'])
    expect(out).toContain('--table crm.others ')
    const [migration = ''] = files().filter((path) => path.endsWith('.sql'))
    expect(get(migration)).toContain('CREATE UNIQUE INDEX "others_email_index_key" ON "crm"."others"("email_index");')
    expect(get(migration)).toContain('alter table "crm"."others"\n    add constraint "others_email_sealed"')
  })

  it('makes text of columns of other types, and fields of their kinds', async () => {
    mkdirSync(join(folder, 'prisma/migrations'))
    const ordinary = `  short   String  @db.VarChar(40) // code
  born    DateTime? @db.Timestamp(6)
  seen    DateTime @map("seen_at") @db.Timestamptz(6) @unique
  day     DateTime @db.Date
  visits  Int
  share   Float?
  active  Boolean
  prefs   Json?
`
    const [before = '', after = ''] = SCHEMA.split(/ {2}short.*\n {2}born.*\n/)
    put('prisma/schema.prisma', before + ordinary + after)
    const fields = 'short,born,seen,day,visits,share,active,prefs'
    const argv = ['--table', 'Customer', '--fields', fields, '--search', 'seen', '--yes']
    const { code, out } = await init(argv)
    expect(code).toBe(0)
    expect(get('prisma/schema.prisma')).toBe(
      `${before}  short   String // code
  born    String?
  seen    String   @map("seen_at") @unique
  seen_index String? @unique @map("seen_at_index")
  day     String
  visits  String
  share   String?
  active  String
  prefs   Json?
${after}`,
    )
    const model = get('src/lib/eaas-customer.ts')
    expect(model).toMatch(/^import \{ type Client, boolean, date, json, number, text \} from '@eaas\/sdk'\n/)
    expect(model).toContain("import type { JsonValue } from '@prisma/client/runtime/client'\n")
    expect(model).toContain(`    fields: {
      short: text(),
      born: date().nullable(),
      seen: date({ index: 'seen_index' }),
      day: date(),
      visits: number(),
      share: number().nullable(),
      active: boolean(),
      prefs: json<NonNullable<JsonValue>>().nullable(),
`)
    const [migration = ''] = files().filter((path) => path.endsWith('.sql'))
    const time = (column: string) => `date_trunc('milliseconds', ${column})::text || 'Z'`
    expect(get(migration).split('\n').slice(0, 2)).toEqual([
      `ALTER TABLE "customers" ALTER COLUMN "short" TYPE TEXT, ALTER COLUMN "born" TYPE TEXT USING ${time('"born"')}, ` +
        `ALTER COLUMN "seen_at" TYPE TEXT USING ${time(`"seen_at" at time zone 'UTC'`)}, ` +
        ['day', 'visits', 'share', 'active']
          .map((one) => `ALTER COLUMN "${one}" TYPE TEXT USING "${one}"::text`)
          .join(', ') +
        ';',
      'ALTER TABLE "customers" ADD COLUMN "seen_at_index" TEXT;',
    ])
    expect(get(migration)).toContain('"customers_prefs_sealed" check ')
    expect(out.slice(out.indexOf('  when the new')).split('\n')).toEqual([
      '  when the new version is ready, end the running one: it cannot use born, seen, day, visits, share, active as text',
      '  npx prisma generate',
      '  npx prisma migrate dev',
      '  npx @eaas/server dev --file .env',
      '  with DATABASE_URL set, fill the indexes of the rows that are there:',
      expect.stringMatching(/ --column seen=seen_at --column seen_index=seen_at_index --work index$/),
      '  deploy the application',
      '  encrypt the rows, and make the database refuse plaintext:',
      expect.stringMatching(/ --column seen=seen_at --column seen_index=seen_at_index --constrain$/),
      '  then remove acceptPlaintext from src/lib/eaas-customer.ts',
      '  with DATABASE_URL set, this prints the steps that are left:',
      expect.stringMatching(/ --column seen=seen_at --column seen_index=seen_at_index --plan$/),
      '',
    ])
    expect((await init(argv)).out).toMatch(/^Every file has it already/)
  })

  it('reads a schema whose lines end as those of Windows', async () => {
    const windows = (text: string) => text.replaceAll('\n', '\r\n')
    put('prisma/schema.prisma', windows(SCHEMA))
    expect((await init(['--table', 'Customer', '--fields', 'email,short', '--search', 'email', '--yes'])).code).toBe(0)
    expect(get('prisma/schema.prisma')).toBe(
      windows(
        SCHEMA.replace('// how they log in\n', '// how they log in\n  email_index String? @unique\n').replace(
          '  @db.VarChar(40)',
          '',
        ),
      ),
    )
  })

  it.each([
    ['a client of a class', 'import { PrismaClient } from "./x"\nexport class Db extends PrismaClient {}\n'],
    ['one that is kept', 'import { PrismaClient } from "./x"\nconst db = globalThis.db ?? new PrismaClient()\n'],
    ['one that is extended', 'import { PrismaClient } from "./x"\nconst db = new PrismaClient().$extends(other)\n'],
    ['one on the next line', 'import { PrismaClient } from "./x"\nconst db = new PrismaClient()\n  .$extends(other)\n'],
    ['one with a type', 'import { PrismaClient } from "./x"\nconst db: PrismaClient = new PrismaClient()\n'],
    [
      'one in the middle of an expression',
      'import { PrismaClient } from "./x"\nconst db = new PrismaClient() as never\n',
    ],
    ['one beside our name', 'import { PrismaClient } from "./x"\nconst eaas = 1\nconst db = new PrismaClient()\n'],
    ['two', 'import { PrismaClient } from "./x"\nconst a = new PrismaClient()\nconst b = new PrismaClient()\n'],
    ['one that is required', 'const { PrismaClient } = require("./x")\nconst db = new PrismaClient()\n'],
    ['one that is never closed', 'import { PrismaClient } from "./x"\nconst db = new PrismaClient({ log: [\n'],
  ])('prints the line for %s, and leaves the file alone', async (_, text) => {
    put('src/lib/db.ts', text)
    const { code, out } = await init([...OF_CUSTOMER, '--yes'])
    expect(code).toBe(0)
    expect(out).toContain(
      'const eaas = createClient()\n  new PrismaClient(…).$extends(encrypted({ Customer: customerModel(eaas) }))',
    )
    expect(out).toContain("import { encrypted } from '@eaas/prisma'")
    expect(get('src/lib/db.ts')).toBe(text)
  })

  it.each([
    [['--table', 'Customer', '--fields', 'id'], 'Customer.id is the id'],
    [['--table', 'Customer', '--fields', 'tags'], 'Customer.tags is String[]: init takes String, DateTime, Int'],
    [['--table', 'Customer', '--fields', 'made'], 'Customer.made has @updatedAt'],
    [['--table', 'Customer', '--fields', 'code'], 'Customer.code is String @db.Char: init takes String'],
    [
      ['--table', 'Customer', '--fields', 'flag', '--search', 'flag'],
      '--search flag: a field of boolean() has no index',
    ],
    [
      ['--table', 'Customer', '--fields', 'role'],
      'has a default, which would be stored as it is: take it away, give the value in each create',
    ],
    [['--table', 'Customer', '--fields', 'shopId'], 'is the key of a relation'],
    [
      ['--table', 'Customer', '--fields', 'emial'],
      'Customer has no emial. It has: email, name, phone, short, born, flag. Not taken: id is the id; made has @updatedAt',
    ],
    [['--table', 'Customer'], '--fields is missing. Customer has: email, name, phone, short, born, flag'],
    [['--table', 'Customer', '--fields', 'email', '--search', 'name'], '--search name: it is not one of --fields'],
    [['--table', 'Log', '--fields', 'text'], 'Log has no primary key'],
    [['--table', 'Nobody', '--fields', 'x'], 'there is no Nobody. There are: Customer, Shop, Log'],
    [['--fields', 'email'], '--table is missing. There are: Customer, Shop, Log'],
    [[], '--table is missing, and so is --fields. There are'],
  ])('refuses, and says why: %j', async (argv, message) => {
    const more = '  made DateTime @updatedAt\n  code String @db.Char(5)\n  flag Boolean\n'
    put('prisma/schema.prisma', SCHEMA.replace('  tags ', `${more}  tags `))
    const before = files()
    expect(await init([...argv, '--yes'])).toMatchObject({ code: 2, out: '', err: expect.stringContaining(message) })
    expect(files()).toEqual(before)
  })

  it('takes no other database than PostgreSQL, whose text may be too short', async () => {
    put('prisma/schema.prisma', SCHEMA.replace('postgresql', 'mysql'))
    const { code, err } = await init([...OF_CUSTOMER, '--yes'])
    expect({ code, err }).toMatchObject({ code: 2, err: expect.stringContaining('the schema is of mysql') })
  })

  it('replaces no file, and writes none that was changed while it asked', async () => {
    put('src/lib/eaas-customer.ts', '// mine\n')
    expect(await init([...OF_CUSTOMER, '--yes'])).toMatchObject({
      code: 2,
      err: expect.stringContaining('it exists already with another content'),
    })
    expect(get('src/lib/eaas-customer.ts')).toBe('// mine\n')
    execFileSync('rm', [join(folder, 'src/lib/eaas-customer.ts')])
    const typing = async function* () {
      put('src/lib/db.ts', `${CLIENT}// mine\n`)
      yield 'y\n'
    }
    const changed = await init(OF_CUSTOMER, { input: Readable.from(typing()), isTyped: true })
    expect(changed).toMatchObject({ code: 2, err: expect.stringContaining('src/lib/db.ts: it was changed meanwhile') })
    expect(get('src/lib/db.ts')).toBe(`${CLIENT}// mine\n`)
  })

  it('finishes what a run that was killed between two files has begun', async () => {
    mkdirSync(join(folder, 'prisma/migrations'))
    put('prisma/schema.prisma', SCHEMA.replace('phone   String? @db.Text', 'phone   DateTime?'))
    const started = join(guarded.path, 'started')
    cpSync(folder, started, { recursive: true })
    expect((await init([...OF_CUSTOMER, '--yes'])).code).toBe(0)
    const [done, after] = [
      files(),
      new Map(files().map((path) => [path, statSync(join(folder, path)).isFile() && get(path)])),
    ]
    const order = ['.env', ...done.filter((path) => path.endsWith('.sql')), 'src/lib/db.ts', 'src/lib/eaas-customer.ts']
    for (let kept = 0; kept <= order.length; kept++) {
      rmSync(folder, { recursive: true })
      cpSync(started, folder, { recursive: true })
      for (const path of order.slice(0, kept)) put(path, String(after.get(path)))
      const { code, out } = await init([...OF_CUSTOMER, '--yes'])
      expect({ code, out }).toEqual({ code: 0, out: expect.stringMatching(/Written.* --constrain\n/s) })
      const migrations = files().filter((path) => path.endsWith('.sql'))
      expect(migrations.map(get)).toEqual([after.get(order[1] ?? '')])
      for (const path of ['prisma/schema.prisma', ...order.filter((path) => path !== order[1])])
        expect(get(path)).toBe(after.get(path))
    }
    rmSync(started, { recursive: true })
  })

  it.skipIf(process.getuid?.() === 0)('writes nothing where one of the files cannot be written', async () => {
    mkdirSync(join(folder, 'prisma/migrations'))
    chmodSync(join(folder, 'prisma/migrations'), 0o500)
    const before = files()
    expect(await init([...OF_CUSTOMER, '--yes'])).toMatchObject({
      code: 2,
      err: expect.stringMatching(/migration\.sql: its folder is not writable for this user\. Nothing was written\n$/),
    })
    expect([files(), get('prisma/schema.prisma')]).toEqual([before, SCHEMA])
  })

  it('adds no variable that is there, and takes the file that eaas dev writes', async () => {
    put('.env.local', '# EAAS_API_KEY=old\nEAAS_URL="https://eaas.example.org"\nexport EAAS_API_KEY = secret\n')
    const { out } = await init([...OF_CUSTOMER, '--yes'])
    expect(out).not.toMatch(/secret|^\+EAAS/m)
    expect(out).toContain('npx @eaas/server dev --file .env.local')
    expect(files()).not.toContain('.env')
  })
})

describe('init in an application of Drizzle', () => {
  beforeEach(putDrizzle)

  it('adds the columns of indexes behind their fields, and wraps the database', async () => {
    const { code, out } = await init(['--table', 'users', '--fields', 'email,name', '--search', 'email,name', '--yes'])
    expect(code).toBe(0)
    expect(get('tables.ts')).toBe(
      TABLES.replace('// how they log in\n', "// how they log in\n  emailIndex: column('email_index'),\n")
        .replace(
          "name: column('full_name').notNull(),\n",
          "name: column('full_name').notNull(),\n  nameIndex: column('full_name_index'),\n",
        )
        .replace(
          'users.email),\n})',
          "users.email),\n}, (table) => [uniqueIndex('users_email_index').on(table.emailIndex), index('users_full_name_index').on(table.nameIndex)])",
        )
        .replace('text as column, varchar', 'text as column, uniqueIndex, varchar'),
    )
    expect(get('db.ts').split('\n').slice(1)).toEqual([
      "import { posts } from './tables.js'",
      "import { createClient } from '@eaas/sdk'",
      "import { encrypted } from '@eaas/drizzle'",
      "import usersModel from './eaas-users.js'",
      "import { users } from './tables.js'",
      '',
      'const eaas = createClient()',
      'const db = encrypted(drizzle(url), [[users, usersModel(eaas)]])',
      '',
    ])
    expect(out).toContain('npx drizzle-kit generate')
    expect(out).not.toContain('in tables.ts')
    expect(out).toMatch(/\n {2}drizzle-kit push drops the constraints that the schema lacks: .*\n$/)
    expect(out).toContain(
      'backfill eaas-users.ts --table users --column name=full_name --column emailIndex=email_index --column nameIndex=full_name_index --constrain\n',
    )
  })

  it('reads columns that a function makes, and one file that has all', async () => {
    put(
      'db.ts',
      `import { drizzle } from 'drizzle-orm/node-postgres'\n${TABLES}\nexport const db = drizzle(process.env.DATABASE_URL!)\n`,
    )
    put('tables.ts', '')
    expect((await init(['--table', 'posts', '--fields', 'title', '--search', 'title', '--yes'])).code).toBe(0)
    expect(get('db.ts')).toContain(
      "title: t.text().notNull(), titleIndex: t.text() }), (table) => [index('posts_titleIndex').on(table.titleIndex)])",
    )
    expect(get('db.ts')).toMatch(
      /\nexport const db = encrypted\(drizzle\(process.env.DATABASE_URL!\), \[\[posts, postsModel\(eaas\)\]\]\)\n/,
    )
  })

  it('adds the model of a second table, in the way in which other sources import theirs', async () => {
    put('db.ts', `import { drizzle } from 'drizzle-orm/node-postgres'\n\nexport const db = drizzle(url)\n`)
    put('app.ts', `import { db } from './db.ts'\n`)
    for (const [table, fields] of [
      ['posts', 'title'],
      ['users', 'name'],
    ] as const)
      await init(['--table', table, '--fields', fields, '--yes'])
    expect(get('db.ts')).toContain('encrypted(drizzle(url), [[posts, postsModel(eaas)], [users, usersModel(eaas)]])\n')
    expect(
      get('db.ts')
        .match(/ from '\.\/.*'/g)
        ?.sort(),
    ).toEqual(['./eaas-posts.ts', './eaas-users.ts', './tables.ts', './tables.ts'].map((path) => ` from '${path}'`))
  })

  it('imports nothing twice, and changes no source that has only the type of a table', async () => {
    put(
      'db.ts',
      `import { createClient, text } from '@eaas/sdk'\nimport { drizzle } from 'drizzle-orm/node-postgres'\nimport { posts as all } from './tables.js'\nconst other = createClient()\nconst db = drizzle(url)\n`,
    )
    await init(['--table', 'posts', '--fields', 'title', '--yes'])
    expect(get('db.ts').match(/createClient[,\s].*from/g)).toHaveLength(1)
    expect(get('db.ts')).toContain('[[all, postsModel(eaas)]]')
    expect(get('db.ts').match(/from '.\/tables.js'/g)).toHaveLength(1)
    for (const imported of ['import type { posts }', 'import { type posts }']) {
      const text = `${imported} from './tables.js'\nconst db = drizzle(url)\n`
      put('db.ts', text)
      expect((await init(['--table', 'posts', '--fields', 'title', '--yes'])).out).toContain('where the client is made')
      expect(get('db.ts')).toBe(text)
    }
  })

  it('calls a table as the file of the client does', async () => {
    put(
      'db.ts',
      `import { drizzle } from 'drizzle-orm/node-postgres'\nimport * as all from './tables.ts'\nconst db = drizzle(url, { schema: all })\n`,
    )
    await init(['--table', 'posts', '--fields', 'title', '--yes'])
    expect(get('db.ts')).toContain('[[all.posts, postsModel(eaas)]]')
    expect(get('db.ts')).toContain("from './eaas-posts.ts'")
    put(
      'db.ts',
      `import { drizzle } from 'drizzle-orm/node-postgres'\nimport { posts } from './tables.js'\nconst db = drizzle(url)\n`,
    )
    await init(['--table', 'posts', '--fields', 'title', '--yes'])
    expect(get('db.ts').match(/\{ posts \}/g)).toHaveLength(1)
  })

  it('imports a table of a folder whose name has a range of no letters, and takes no cast for another name', async () => {
    const table =
      "import { pgTable, text } from 'drizzle-orm/pg-core'\nexport const notes = pgTable('notes', { id: text().primaryKey(), body: text() })\n"
    put('[user-id]/notes.ts', table)
    put(
      'db.ts',
      "import { drizzle } from 'drizzle-orm/node-postgres'\nconst db = drizzle(url)\nconst x = notes as string\n",
    )
    await init(['--table', 'notes', '--fields', 'body', '--yes'])
    expect(get('db.ts')).toContain("import { notes } from './[user-id]/notes.js'")
    expect(get('db.ts')).toContain('[[notes, notesModel(eaas)]]')
  })

  it.each([
    [['--table', 'users', '--fields', 'id'], 'users.id is the id'],
    [
      ['--table', 'ordinary', '--fields', 'seen'],
      "ordinary.seen has timestamp() in mode string, which init does not take: give it mode: 'date' first",
    ],
    [['--table', 'ordinary', '--fields', 'kind'], 'ordinary.kind has enum'],
    [
      ['--table', 'ordinary', '--fields', 'level'],
      'ordinary.level has default, which the database would store unencrypted: put $defaultFn',
    ],
    [
      ['--table', 'ordinary', '--fields', 'flag', '--search', 'flag'],
      '--search flag: a field of boolean() has no index',
    ],
    [['--table', 'users', '--fields', 'boss'], 'users.boss has references'],
    [['--table', 'keyless', '--fields', 'text'], 'keyless has no primary key'],
  ])('refuses, and says why: %j', async (argv, message) => {
    const columns =
      "id: t.serial().primaryKey(), seen: t.timestamp({ mode: 'string' }), kind: t.text({ enum: ['a'] }), level: t.integer().default(1), flag: t.boolean()"
    put('tables.ts', `${TABLES}export const ordinary = pgTable('ordinary', (t) => ({ ${columns} }))\n`)
    expect(await init([...argv, '--yes'])).toMatchObject({ code: 2, err: expect.stringContaining(message) })
  })

  const putTable = (declared: string, imported = 'integer, pgSchema, pgTable, pgTableCreator, text', table = '') =>
    put(
      'tables.ts',
      `import { ${imported} } from 'drizzle-orm/pg-core'\n\n${declared}('notes', {\n  id: integer().primaryKey(),\n  title: text().notNull(),\n${table}})\n`,
    )
  const OF_NOTES = ['--table', 'notes', '--fields', 'title', '--search', 'title', '--yes']

  const named = (name: string) => `pgTableCreator((name) => \`${name}\`)`
  it.each([
    ["export const notes = pgSchema('shop').table", 'shop.notes'],
    ["export const shop = pgSchema('shop')\n\nexport const notes = shop.table", 'shop.notes'],
    ["export const my = pgSchema('my shop')\nexport const notes = my.table", `'"my shop"."notes"'`],
    [`const make = ${named('app_$' + '{name}')}\nexport const notes = make`, 'app_notes'],
    [`export const make =\n  ${named('$' + '{name}_app')}\nexport const notes = make`, 'notes_app'],
  ])('names the schema of a table, and knows the names of a function: %s', async (declared, name) => {
    putTable(declared)
    const { code, out } = await init(OF_NOTES)
    expect(code).toBe(0)
    expect(out).toContain(`backfill eaas-notes.ts --table ${name} --constrain\n`)
    expect(get('tables.ts')).toContain('  titleIndex: text(),\n')
    if (name === 'app_notes') expect(get('tables.ts')).toContain("index('app_notes_titleIndex').on(table.titleIndex)")
    expect((await init(OF_NOTES)).out).toMatch(/^Every file has it already/)
  })

  it('takes the name of a table with its schema, and one whose maker another file has', async () => {
    put('shop.ts', "import { pgSchema } from 'drizzle-orm/pg-core'\nexport const shop = pgSchema('shop')\n")
    putTable('export const notes = shop.table', 'integer, text', "  seen: timestamp({ mode: 'date' }),\n")
    const { out } = await init(['--table', 'shop.notes', '--fields', 'seen', '--yes'])
    expect(out).toContain('ALTER TABLE "shop"."notes" ALTER COLUMN "seen" TYPE TEXT')
    put('other.ts', "import { pgSchema } from 'drizzle-orm/pg-core'\nconst shop = pgSchema('other')\n")
    expect(await init(OF_NOTES)).toMatchObject({ code: 2, err: expect.stringContaining('by hand') })
  })

  it.each([
    'const make = pgTableCreator(named)\nexport const notes = make',
    `const make = ${named('app_$' + '{name}').replace(/\)$/, '.toUpperCase())')}\nexport const notes = make`,
    "const my = pgSchema('my\\')shop')\nexport const notes = my.table",
    "const my = isTest ? pgSchema('test') : pgSchema('shop')\nexport const notes = my.table",
    'export const notes = other.table',
  ])('says what it reads where it does not know the name of a table: %s', async (declared) => {
    putTable(declared)
    const { code, err } = await init(OF_NOTES)
    expect([code, err]).toEqual([2, expect.stringContaining('write the model and the call of encrypted() by hand')])
  })

  it('calls what a source imports by the names that it has there', async () => {
    const table = (p: string) =>
      `export const notes = ${p}('notes', (t) => ({ id: t.integer().primaryKey(), title: t.text() }))\n`
    for (const [imported, p, called] of [
      ["import * as p from 'drizzle-orm/pg-core'", 'p.pgTable', "p.index('notes_titleIndex')"],
      ["import { index as on, pgTable as table } from 'drizzle-orm/pg-core'", 'table', "on('notes_titleIndex')"],
      [
        "import type { PgColumn } from 'drizzle-orm/pg-core'\nimport { pgTable } from 'drizzle-orm/pg-core'",
        'pgTable',
        "index('notes_titleIndex')",
      ],
    ] as const) {
      put('tables.ts', `${imported}\n${table(p)}`)
      rmSync(join(folder, 'eaas-notes.ts'), { force: true })
      expect((await init(OF_NOTES)).out).not.toContain('in tables.ts')
      expect(get('tables.ts')).toContain(`(table) => [${called}.on(`)
      expect(get('tables.ts').includes('import { index, pgTable }')).toBe(p === 'pgTable')
    }
  })

  it('takes what is a string or a number in JavaScript as text, and says what changes', async () => {
    const more =
      "  price: numeric({ precision: 9, scale: 2 }),\n  big: bigint({ mode: 'number' }),\n  day: date(),\n  plan: text().$defaultFn(() => 'free'),\n  list: text().array(),\n"
    putTable('export const notes = pgTable', 'bigint, date, integer, numeric, pgTable, text', more)
    const { code, out } = await init(['--table', 'notes', '--fields', 'price,big,day,plan', '--yes'])
    expect(code).toBe(0)
    expect(get('tables.ts')).toContain(
      "  price: text(),\n  big: text().$type<number>(),\n  day: text(),\n  plan: text().$defaultFn(() => 'free'),\n",
    )
    expect(get('eaas-notes.ts')).toContain(
      'price: text().nullable(),\n      big: number().nullable(),\n      day: text().nullable(),\n',
    )
    expect(out).toMatch(/^note: day: a day as text has no search by range\. For one, first make it a JavaScript Date/m)
    expect(out).toMatch(/^note: price: .*12\.5 and 12\.50 are two values/m)
    const { err } = await init(['--table', 'notes', '--fields', 'list'])
    expect(err).toContain('notes.list has array, which init does not take: make it jsonb() first')
  })

  it('takes columns by their names in the database, and names those of indexes as the others are', async () => {
    const more = "  birthDate: text('birth_date'),\n"
    putTable('export const notes = pgTable', undefined, more)
    const argv = ['--table', 'notes', '--fields', 'title,birth_date', '--search', 'title,birth_date', '--yes']
    expect((await init(argv)).code).toBe(0)
    for (const one of [
      "titleIndex: text('title_index')",
      "birthDateIndex: text('birth_date_index')",
      "index('notes_title_index')",
    ])
      expect(get('tables.ts')).toContain(one)
    rmSync(join(folder, 'eaas-notes.ts'))
    putTable('export const notes = pgTable', undefined, '  birthDate: text(),\n')
    put('drizzle.config.ts', "export default { casing: 'snake_case' }")
    expect((await init(argv)).out).toContain(
      '--column birthDate=birth_date --column titleIndex=title_index --column birthDateIndex',
    )
    expect(get('tables.ts')).toContain('  titleIndex: text(),\n  birthDate: text(),\n  birthDateIndex: text(),\n}')
  })

  it('makes text of columns of other types, and fields of their kinds', async () => {
    put(
      'tables.ts',
      `import {
  boolean,
  date,
  index,
  integer,
  jsonb,
  pgTable,
  serial,
  timestamp,
  varchar,
} from 'drizzle-orm/pg-core'

export const people = pgTable(
  'people',
  {
    id: serial().primaryKey(),
    email: varchar({ length: 255 }).notNull().unique(),
    born: timestamp('born_at', { precision: 6 }),
    seen: timestamp({ withTimezone: true, mode: 'date' }).notNull(),
    /** Each person's own. */
    day: date(),
    died: date({ mode: 'date' }),
    visits: integer().notNull(), // in all
    active: boolean('is_active').notNull(),
    prefs: jsonb().$type<{ theme: string }>().notNull(),
    city: varchar({ length: 90 }),
  },
  (t) => [
    index('people_city').on(t.city),
  ],
)
`,
    )
    const fields = 'email,born,seen,day,died,visits,active,prefs'
    const argv = ['--table', 'people', '--fields', fields, '--search', 'email,born', '--yes']
    const { code, out } = await init(argv)
    expect(code).toBe(0)
    expect(get('tables.ts')).toBe(`import {
  index,
  jsonb,
  pgTable,
  serial,
  text,
  uniqueIndex,
  varchar,
} from 'drizzle-orm/pg-core'

export const people = pgTable(
  'people',
  {
    id: serial().primaryKey(),
    email: text().notNull().unique(),
    emailIndex: text('email_index'),
    born: text('born_at').$type<Date>(),
    bornIndex: text('born_at_index'),
    seen: text().$type<Date>().notNull(),
    /** Each person's own. */
    day: text(),
    died: text().$type<Date>(),
    visits: text().$type<number>().notNull(), // in all
    active: text('is_active').$type<boolean>().notNull(),
    prefs: jsonb().$type<{ theme: string }>().notNull(),
    city: varchar({ length: 90 }),
  },
  (t) => [
    index('people_city').on(t.city),
    uniqueIndex('people_email_index').on(t.emailIndex),
    index('people_born_at_index').on(t.bornIndex),
  ],
)
`)
    const model = get('eaas-people.ts')
    expect(model).toContain("import type { people } from './tables.js'\n")
    expect(model).toContain(`    fields: {
      email: text({ index: 'emailIndex', normalize: ['trim', 'lowercase'] }),
      born: date({ index: 'bornIndex' }).nullable(),
      seen: date(),
      day: text().nullable(),
      died: date().nullable(),
      visits: number(),
      active: boolean(),
      prefs: json<NonNullable<typeof people.$inferSelect.prefs>>(),
`)
    expect(out).toContain(
      `or in a migration by drizzle-kit generate --custom: ALTER TABLE "people" ALTER COLUMN "email" TYPE TEXT, ALTER COLUMN "born_at" TYPE TEXT USING date_trunc('milliseconds', "born_at")::text || 'Z'`,
    )
    expect((await init(argv)).out).toMatch(/^Every file has it already/)
  })

  it.each([
    ['', ", (table) => [uniqueIndex('users_email_index').on(table.emailIndex)]"],
    [', (t) => []', ", (t) => [uniqueIndex('users_email_index').on(t.emailIndex)]"],
    [
      ", (t) => ({ byName: index('x').on(t.name) })",
      ", (t) => ({ byName: index('x').on(t.name), emailIndex: uniqueIndex('users_email_index').on(t.emailIndex) })",
    ],
    [', (t) => [index().on(t.name), // why\n]', undefined],
    [', extras', undefined],
  ])('declares indexes in the third argument of pgTable(), if it can: %j', async (extras, after) => {
    const withExtras = (text: string) => TABLES.replace('users.email),\n})', `users.email),\n}${text})`)
    put('tables.ts', withExtras(extras))
    const { out } = await init(['--table', 'users', '--fields', 'email', '--search', 'email', '--yes'])
    const added = (text: string) =>
      text.replace('// how they log in\n', "// how they log in\n  emailIndex: column('email_index'),\n")
    const imported = (text: string) => text.replace('text as column, varchar', 'text as column, uniqueIndex, varchar')
    expect(get('tables.ts')).toBe(after ? imported(added(withExtras(after))) : added(withExtras(extras)))
    expect(out.includes("in tables.ts: uniqueIndex('users_email_index').on(table.emailIndex)")).toBe(!after)
  })
})

const DATABASE = `import type { Generated, JSONColumnType } from 'kysely'

export interface Database {
  users: Users
  notes: { id: number; text: string; at: Date }
}

export interface Users {
  id: Generated<number>
  email: string // how they log in
  born: Date | null
  visits: number;
  active: boolean
  // By JSONColumnType:
  prefs: JSONColumnType<{ theme: string | null }>
  made: Generated<Date>
}
`
const KYSELY = `import { Kysely, PostgresDialect } from 'kysely'
import { Pool } from 'pg'
import type { Database } from './database.js'

const dialect = new PostgresDialect({ pool: new Pool() })

export const db = new Kysely<Database>({
  dialect,
})
`

describe('init in an application of Kysely', () => {
  beforeEach(() => {
    putPackage({ kysely: '0.28' }, { type: 'module' })
    put('database.ts', DATABASE)
    put('db.ts', KYSELY)
  })

  it('adds the model and the columns of indexes, and prints the SQL for the table', async () => {
    const argv = ['--table', 'users', '--fields', 'email,born,visits,active,prefs', '--search', 'email,visits', '--yes']
    const { code, out } = await init(argv)
    expect(code).toBe(0)
    expect(get('database.ts')).toBe(
      DATABASE.replace(', JSONColumnType', '')
        .replace('log in\n', 'log in\n  email_index: Generated<string | null>\n')
        .replace('visits: number;\n', 'visits: number;\n  visits_index: Generated<string | null>;\n')
        .replace('JSONColumnType<{ theme: string | null }>', '{ theme: string | null }'),
    )
    expect(get('db.ts')).toBe(
      KYSELY.replace(
        "database.js'\n",
        "database.js'\nimport { createClient } from '@eaas/sdk'\nimport { encrypted } from '@eaas/kysely'\nimport usersModel from './eaas-users.js'\n",
      )
        .replace('export const db', 'const eaas = createClient()\nexport const db')
        .replace('  dialect,', '  dialect: encrypted<Database>(dialect, { users: usersModel(eaas) }),'),
    )
    expect(get('eaas-users.ts')).toContain("import type { Users } from './database.js'\n")
    expect(get('eaas-users.ts')).toContain("prefs: json<NonNullable<Users['prefs']>>(),\n")
    expect(out).toContain(
      `SET TIME ZONE 'UTC'; ALTER TABLE "users" ALTER COLUMN "email" TYPE TEXT, ALTER COLUMN "born" TYPE TEXT USING date_trunc('milliseconds', "born"::timestamptz at time zone 'UTC')::text || 'Z', ALTER COLUMN "visits" TYPE TEXT USING "visits"::text, ALTER COLUMN "active" TYPE TEXT USING "active"::text, ALTER COLUMN "prefs" TYPE TEXT USING "prefs"::text; ALTER TABLE "users" ADD COLUMN "email_index" TEXT;`,
    )
    expect(out).toContain('JSON.stringify(…): the compiler shows where')
    expect((await init(argv)).out).toMatch(/^Every file has it already/)
  })

  it.each([
    ["import { type Generated, Kysely } from 'kysely'", 'Generated', undefined],
    ["import { Kysely } from 'kysely'\nimport type { Generated } from 'kysely'", 'Generated', undefined],
    ["import { type Generated as G, Kysely } from 'kysely'", 'G', undefined],
    ["import { Kysely } from 'kysely'", 'Generated', "import { type Generated, Kysely } from 'kysely'"],
    ["import k, { Kysely } from 'kysely'", 'Generated', "import k, { type Generated, Kysely } from 'kysely'"],
    ["import type { Insertable } from 'kysely'", 'Generated', "import type { Generated, Insertable } from 'kysely'"],
  ])('imports Generated once: %s', async (imports, name, after) => {
    put('database.ts', `${imports}\nexport interface Database { notes: { id: number; text: string } }\n`)
    expect((await init(['--table', 'notes', '--fields', 'text', '--search', 'text', '--yes'])).code).toBe(0)
    expect(get('database.ts')).toBe(
      `${after ?? imports}\nexport interface Database { notes: { id: number; text: string; text_index: ${name}<string | null> } }\n`,
    )
  })

  it('reads times without a zone as the driver does, in the zone of the application', async () => {
    const argv = ['--table', 'users', '--fields', 'email,born', '--yes']
    const before = files()
    const paris = { env: { TZ: 'Europe/Paris' } }
    expect(await init(argv, paris)).toMatchObject({ code: 2, err: expect.stringContaining('--time-zone is missing') })
    expect(files()).toEqual(before)
    const { out } = await init([...argv, '--time-zone', 'Europe/Paris'], paris)
    expect(out).toContain(`SET TIME ZONE 'Europe/Paris'; ALTER TABLE "users" ALTER COLUMN "email" TYPE TEXT, ALTER`)
    expect(out).toContain('without a zone are taken for those of Europe/Paris')
  })

  it('adds the model of a second table, whose type is inline, and wraps a dialect that is made in place', async () => {
    put(
      'db.ts',
      KYSELY.replace(/const dialect.*\n\n/, '').replace('dialect,', 'dialect: new PostgresDialect({ pool }),'),
    )
    await init(['--table', 'users', '--fields', 'email', '--yes'])
    await init(['--table', 'notes', '--fields', 'text', '--search', 'text', '--yes'])
    expect(get('db.ts')).toContain(
      'dialect: encrypted<Database>(new PostgresDialect({ pool }), { users: usersModel(eaas), notes: notesModel(eaas) }),\n',
    )
    expect(get('database.ts')).toContain(
      'notes: { id: number; text: string; text_index: Generated<string | null>; at: Date }\n',
    )
  })

  it.each([
    [['--table', 'users', '--fields', 'id'], 'users.id is the id'],
    [
      ['--table', 'users', '--fields', 'made'],
      'users.made is Generated<Date>: the database would fill it with plaintext. Take its default away',
    ],
    [['--table', 'nobody', '--fields', 'x'], 'there is no nobody. There are: users, notes'],
  ])('refuses, and says why: %j', async (argv, message) => {
    expect(await init([...argv, '--yes'])).toMatchObject({ code: 2, err: expect.stringContaining(message) })
  })

  it.each(['new SqliteDialect({})', 'new PostgresDialect({}), plugins: [new CamelCasePlugin()]'])(
    'takes only PostgreSQL, by the names of its columns: %s',
    async (dialect) => {
      put('db.ts', KYSELY.replace('  dialect,', `  dialect: ${dialect},`))
      const { code, err } = await init(['--table', 'users', '--fields', 'email', '--yes'])
      expect({ code, err }).toEqual({
        code: 2,
        err: expect.stringMatching(/init knows PostgreSQL.*(Sqlite|CamelCase)/),
      })
    },
  )
})

const ENTITY = `import { Column, Entity, Index, PrimaryGeneratedColumn, UpdateDateColumn } from 'typeorm'

@Entity()
export class StaffMember {
  @PrimaryGeneratedColumn()
  id: number

  @Column({
    length: 255, // as before
    unique: true, // how they log in
  })
  email: string

  @Column('timestamp', { name: 'born_at', precision: 3, nullable: true })
  born: Date | null

  @Column()
  name: string;

  @Column({ type: 'date' })
  day: string

  @Index()
  @Column({ comment: 'in all' })
  visits: number

  @Column({ type: 'jsonb', nullable: true })
  prefs?: { theme: string } | null

  @Column({ default: true })
  active: boolean

  @Column({ type: 'date' })
  wrong: Date

  @UpdateDateColumn()
  made: Date
}
`
const SOURCE = `import { DataSource } from 'typeorm'
import { StaffMember } from './entity/staff-member.js'

export const source = new DataSource({ type: 'postgres', entities: [StaffMember] })
`

describe('init in an application of TypeORM', () => {
  beforeEach(() => {
    putPackage({ typeorm: '1' }, { type: 'module' })
    put('src/entity/staff-member.ts', ENTITY)
    put('src/source.ts', SOURCE)
  })

  it('changes the columns of the entity, wraps the data source, and prints the SQL for the table', async () => {
    const fields = 'email,born,name,day,visits,prefs'
    const argv = ['--table', 'StaffMember', '--fields', fields, '--search', 'email,name', '--yes']
    const { code, out } = await init(argv)
    expect(code).toBe(0)
    expect(get('src/entity/staff-member.ts')).toBe(
      ENTITY.replace(
        '@Column({\n    length: 255, // as before\n    unique: true, // how they log in\n  })\n  email: string\n',
        `@Column({ type: 'text', unique: true })
  email: string

  @Index('staff_member_email_index_key', { unique: true })
  @Column({ type: 'text', nullable: true })
  email_index?: string | null
`,
      )
        .replace(
          "@Column('timestamp', { name: 'born_at', precision: 3, nullable: true })",
          "@Column({ type: 'text', name: 'born_at', nullable: true })",
        )
        .replace(
          '  name: string;\n',
          `  name: string;

  @Index('staff_member_name_index_idx')
  @Column({ type: 'text', nullable: true })
  name_index?: string | null;
`,
        )
        .replace("@Column({ type: 'date' })\n  day", "@Column({ type: 'text' })\n  day")
        .replace("@Column({ comment: 'in all' })", "@Column({ type: 'text', comment: 'in all' })"),
    )
    expect(get('src/source.ts')).toContain(
      "encrypted(new DataSource({ type: 'postgres', entities: [StaffMember] }), [[StaffMember, staffMemberModel(eaas)]])\n",
    )
    const model = get('src/eaas-staffMember.ts')
    expect(model).toContain("import type { StaffMember } from './entity/staff-member.js'\n")
    expect(model).toContain("prefs: json<NonNullable<StaffMember['prefs']>>().nullable(),\n")
    expect(model).toContain('born: date().nullable(),\n')
    expect(out).toContain(
      `ALTER TABLE "staff_member" ALTER COLUMN "email" TYPE TEXT, ALTER COLUMN "born_at" TYPE TEXT USING date_trunc('milliseconds', "born_at")::text || 'Z', ALTER COLUMN "day" TYPE TEXT USING "day"::text, ALTER COLUMN "visits" TYPE TEXT USING "visits"::text; ALTER TABLE "staff_member" ADD COLUMN "email_index" TEXT;`,
    )
    expect(out).toContain('TypeORM itself would drop these columns')
    expect(out).toContain('--table staff_member --column born=born_at --constrain')
    expect((await init(argv)).out).toMatch(/^Every file has it already/)
  })

  it('names the schema of an entity, and imports Index once, whatever its name there', async () => {
    const argv = ['--table', 'StaffMember', '--fields', 'name,visits', '--search', 'visits', '--yes']
    const aliased = ENTITY.replace(' Index,', ' Index as Indexed,').replace('@Index()', '@Indexed()')
    put('src/entity/staff-member.ts', aliased.replace('@Entity()', "@Entity({ schema: 'Crm' })"))
    const { out } = await init(argv)
    expect(out).toContain('ALTER TABLE "Crm"."staff_member" ALTER COLUMN "visits" TYPE TEXT')
    expect(out).toContain('--table Crm.staff_member --constrain\n')
    expect(get('src/entity/staff-member.ts')).toContain("@Indexed('staff_member_visits_index_idx')")
    expect(get('src/entity/staff-member.ts')).toContain(' Index as Indexed, Primary')
    rmSync(join(folder, 'src/eaas-staffMember.ts'))
    put(
      'src/entity/staff-member.ts',
      ENTITY.replace(' Index,', '')
        .replace('  @Index()\n', '')
        .replace(/import/, 'import type'),
    )
    expect((await init(argv)).out).toContain("in src/entity/staff-member.ts: import { Index } from 'typeorm'")
  })

  it('takes numerics as the strings that TypeORM returns, and properties with an initial value', async () => {
    const numeric = "@Column('numeric', { precision: 9, scale: 2 })\n  price: string = '0'\n\n  @Column()\n  name"
    put('src/entity/staff-member.ts', ENTITY.replace('@Column()\n  name', numeric))
    const { out } = await init(['--table', 'StaffMember', '--fields', 'price', '--yes'])
    expect(get('src/entity/staff-member.ts')).toContain("@Column({ type: 'text' })\n  price: string = '0'\n")
    expect(out).toContain('ALTER COLUMN "price" TYPE TEXT USING "price"::text')
  })

  it.each([
    [['--table', 'StaffMember', '--fields', 'id'], 'StaffMember.id is the id'],
    [
      ['--table', 'StaffMember', '--fields', 'active'],
      'StaffMember.active has default, which the database would store unencrypted: give the property an initial value',
    ],
    [
      ['--table', 'StaffMember', '--fields', 'wrong'],
      'StaffMember.wrong is date and declared as Date: declare it as string first',
    ],
    [['--table', 'StaffMember', '--fields', 'made'], 'StaffMember.made has @UpdateDateColumn'],
  ])('refuses, and says why: %j', async (argv, message) => {
    expect(await init([...argv, '--yes'])).toMatchObject({ code: 2, err: expect.stringContaining(message) })
  })

  it.each(['synchronize: true', 'synchronize: !process.env.CI', 'synchronize'])(
    'refuses %s, with which TypeORM would drop the columns when the application starts',
    async (option) => {
      const argv = ['--table', 'StaffMember', '--fields', 'visits', '--yes']
      for (const [name, text] of [
        ['typeorm.config.ts', `export default { ${option}, type: 'postgres' }`],
        ['ormconfig.json', '{ "synchronize": true }'],
      ] as const) {
        put(name, text)
        const err = expect.stringContaining(`${name} has synchronize`)
        expect(await init(argv)).toMatchObject({ code: 2, out: '', err })
        rmSync(join(folder, name))
      }
      put('src/source.ts', SOURCE.replace(' entities', ` ${option}, entities`))
      const before = files()
      const message = 'src/source.ts has synchronize, with which TypeORM would drop these columns'
      expect(await init(argv)).toMatchObject({ code: 2, out: '', err: expect.stringContaining(message) })
      expect(files()).toEqual(before)
      expect(await init(['--table', 'StaffMember', '--fields', 'prefs', '--yes'])).toMatchObject({ code: 0 }) // keeps its type
      put('src/source.ts', SOURCE.replace(' entities', ' synchronize: false, entities'))
      expect(await init(argv)).toMatchObject({ code: 2, err: expect.stringContaining('another content') })
    },
  )

  it('asks for the zone of times without one, unless this process is in UTC', async () => {
    const argv = ['--table', 'StaffMember', '--fields', 'born']
    const zoned = (zone: string) => init([...argv, '--yes', '--time-zone', zone])
    for (const zone of ['+02:00', "Europe/Paris'; --", 'Europe/Nowhere', 'local'])
      expect(await zoned(zone)).toMatchObject({ code: 2, err: expect.stringContaining('there is no such zone') })
    const oslo = { env: { TZ: 'Europe/Oslo' }, isTyped: true }
    expect((await init([...argv, '--yes'], { ...oslo, input: '\n' })).code).toBe(2)
    const { code, out } = await init(argv, { ...oslo, input: '\nEurope/Paris\ny\n' })
    expect(code).toBe(0)
    expect(out).toContain(
      `USING date_trunc('milliseconds', "born_at" at time zone 'Europe/Paris' at time zone 'UTC')::text || 'Z';`,
    )
    expect(
      (await init(['--table', 'StaffMember', '--fields', 'day', '--yes'], { env: { TZ: 'Europe/Oslo' } })).err,
    ).not.toContain('zone')
  })

  it('takes no other database than PostgreSQL', async () => {
    put('src/source.ts', SOURCE.replace("'postgres'", "'mysql'"))
    const { code, err } = await init(['--table', 'StaffMember', '--fields', 'email', '--yes'])
    expect({ code, err }).toEqual({ code: 2, err: expect.stringContaining('the data source is of mysql') })
  })
})

describe('init elsewhere', () => {
  it.each([
    [{ 'drizzle-orm': '1' }, `see docs/${'drizzle'}.md of @eaas/sdk`],
    [{ kysely: '1' }, `see docs/${'kysely'}.md of @eaas/sdk`],
    [{ typeorm: '1' }, `see docs/${'typeorm'}.md of @eaas/sdk`],
    [{ pg: '8' }, `see docs/${'orms'}.md of @eaas/sdk`],
    [{ '@prisma/client': '7' }, 'no table of Prisma, Drizzle, Kysely or TypeORM was found'],
  ])('names the page to follow: %j', async (dependencies, message) => {
    putPackage(dependencies)
    expect(await init([])).toMatchObject({ code: 2, err: expect.stringContaining(message) })
  })

  it.each([
    ['comments in a block', '  /* old: text(), */\n'.repeat(40)],
    ['comments that are not closed', '/*'.repeat(20_000)],
    ['lines', '  // old: text(),\n'.repeat(5_000)],
  ])('reads past %s', async (_, comments) => {
    putDrizzle()
    const table = `export const notes = pgTable('notes', {\n${comments}  ...timestamps,\n})\n`
    put('tables.ts', `${TABLES}/* const old = pgTable('old', { id: serial().primaryKey() }) */\n${table}`)
    expect(await init(['--table', 'old'])).toMatchObject({
      err: expect.stringMatching(/There are: users, posts, keyless/),
    })
    expect((await init(['--table', 'users', '--fields', 'name', '--yes'])).code).toBe(0)
  })

  it('takes names of a schema as texts: in a path, in the model and in the lines for a shell', async () => {
    putPrisma()
    put('prisma/migrations/lock', '')
    const name = `x/../../../../out', key: 'x`
    put('prisma/schema.prisma', SCHEMA.replace('"customers"', `"${name}"`).replace('full_name', '$(id) y'))
    put('src/(admin)/[id]/db.ts', get('src/lib/db.ts'))
    rmSync(join(folder, 'src/lib'), { recursive: true })
    const { code, out } = await init([...OF_CUSTOMER, '--yes'])
    expect(code).toBe(0)
    expect(files().filter((path) => path.endsWith('.sql'))).toEqual([
      expect.stringMatching(/^prisma.migrations.\d{14}_encrypt_x_out_key_x.migration.sql$/),
    ])
    expect(get('src/(admin)/[id]/eaas-customer.ts')).toContain(`    name: 'x/../../../../out\\', key: \\'x', // values`)
    const line = `npx @eaas/cli backfill 'src/(admin)/[id]/eaas-customer.ts' --table '"${name.replaceAll("'", "'\\''")}"' --column 'name=$(id) y' --column 'name_index=$(id) y_index' --plan`
    expect(out).toContain(line)
  })

  it('takes no column whose name, or that of its table, it cannot read whole', async () => {
    putPrisma()
    const refused = { code: 2, err: expect.stringContaining('name in the database that init does not read') }
    for (const [from, to] of [
      ['"customers"', '"cust\\"omers"'],
      ['"full_name"', '"full\\nname"'],
    ] as const) {
      put('prisma/schema.prisma', SCHEMA.replace(from, to))
      expect(await init([...OF_CUSTOMER, '--yes'])).toMatchObject(refused)
    }
    rmSync(join(folder, 'prisma'), { recursive: true })
    putDrizzle()
    put('tables.ts', TABLES.replace("'full_name'", "'full\\'name'"))
    expect(await init(['--table', 'users', '--fields', 'name', '--yes'])).toMatchObject(refused)
    for (const [table, column] of [
      [`"u\\"; x"`, `'mail'`],
      ['NAME', `'mail'`],
      [`"u"`, `'mail\\'x'`],
      [`{ name: 'u' + x }`, `'mail'`],
    ]) {
      put(
        'tables.ts',
        `import { Column, Entity, PrimaryColumn } from 'typeorm'\n@Entity(${table})\nexport class Mail {\n  @PrimaryColumn() id: number\n  @Column({ type: 'text', name: ${column} }) name: string\n}\n`,
      )
      expect(await init(['--table', 'Mail', '--fields', 'name', '--yes'])).toMatchObject(refused)
    }
  })

  it('writes through no link that leads out of the folder', async () => {
    putPrisma()
    const outside = mkdtempSync(join(guarded.path, 'outside-'))
    symlinkSync(outside, join(folder, 'prisma/migrations'))
    const before = files()
    expect(await init([...OF_CUSTOMER, '--yes'])).toMatchObject({
      code: 2,
      err: expect.stringContaining('a symbolic link leads out of this folder'),
    })
    expect([files(), readdirSync(outside), get('prisma/schema.prisma')]).toEqual([before, [], SCHEMA])
  })

  it('writes nothing where it would change bytes of a file that is not UTF-8, and reads past others', async () => {
    putPrisma()
    const latin1 = (path: string, text: string) => writeFileSync(join(folder, path), Buffer.from(text, 'latin1'))
    latin1('src/old.js', '// caf\xe9\n')
    for (const [path, text] of [
      ['.env', 'NAME=caf\xe9\n'],
      ['prisma/schema.prisma', `// caf\xe9\n${SCHEMA}`],
    ] as const) {
      latin1(path, text)
      const before = files()
      expect(await init([...OF_CUSTOMER, '--yes'])).toEqual({ code: 2, out: '', err: expect.stringContaining(path) })
      expect([files(), readFileSync(join(folder, path), 'latin1')]).toEqual([before, text])
      put(path, path === '.env' ? '' : SCHEMA)
    }
    expect((await init([...OF_CUSTOMER, '--yes'])).code).toBe(0)
  })

  it.each([
    ['prisma', '@prisma/client', '^6.1.0', '>=7 <8'],
    ['drizzle', 'drizzle-orm', '^0.44.1', '>=0.45 <1'],
    ['typeorm', 'typeorm', '^0.3.20', '>=1 <2'],
    ['kysely', 'kysely', '0.27', '>=0.28 <1'],
  ])('warns of a version that @eaas/%s does not take', async (orm, name, version, peer) => {
    putPrisma()
    if (orm === 'drizzle') putDrizzle()
    if (orm === 'kysely') put('db.ts', KYSELY)
    if (orm === 'kysely') put('database.ts', DATABASE)
    if (orm === 'typeorm') put('staff-member.ts', ENTITY)
    const [table = '', field = ''] = { prisma: 'Customer.email', drizzle: 'posts.title', kysely: 'notes.text' }[
      orm
    ]?.split('.') ?? ['StaffMember', 'name']
    const shown = () => init(['--table', table, '--fields', field])
    const note = `note: @eaas/${orm} takes ${name} ${peer}, and this is `
    putPackage({ [name]: version })
    expect((await shown()).out).toContain(`${note}${version}: update it first\n`)
    for (const fits of [peer.split(' ')[0]?.slice(2), 'latest']) {
      putPackage({ [name]: fits })
      expect((await shown()).out).not.toContain('note: @eaas')
    }
    put(`node_modules/${name}/package.json`, '{ "version": "0.1.2" }')
    expect((await shown()).out).toContain(`${note}0.1.2`)
  })

  it('names packed packages to install, as long as none is on npm', async () => {
    putPrisma()
    putPackage({ '@prisma/client': '7', '@eaas/cli': '0.0.0' })
    const tarballs = ['sdk', 'prisma', 'server', 'audit', 'console'].map(
      (name) => `./eaas-packages/eaas-${name}-0.0.0.tgz`,
    )
    expect((await init([...OF_CUSTOMER, '--yes'])).out).toContain(
      `Next:\n  EaaS is not on npm yet: in a clone of it, npm run pack -- ${folder}\n  npm install ${tarballs.join(' ')}\n`,
    )
  })

  it.runIf(loaderFor('a.ts'))('lists tsx where this Node.js needs it for the model, and it is not there', async () => {
    putPrisma()
    expect((await init([...OF_CUSTOMER, '--yes'])).out).toContain('  npm install --save-dev tsx\n')
    putPackage({ '@prisma/client': '7', tsx: '4' })
    expect((await init([...OF_CUSTOMER, '--yes'])).out).not.toContain('save-dev tsx')
  })

  it('needs an application', async () => {
    expect(await init([])).toMatchObject({ code: 2, err: expect.stringContaining('there is no package.json') })
    put('package.json', '{')
    expect(await init([])).toMatchObject({ code: 2, err: expect.stringContaining('package.json: it is not JSON') })
  })
})
