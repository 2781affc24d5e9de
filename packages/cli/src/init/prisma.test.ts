// `init` on an application of Prisma: what it adds, what it shows and asks, and what it leaves to the reader.
import { execFileSync } from 'node:child_process'
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { createClient, text } from '@eaas/sdk'
import { beforeEach, describe, expect, it } from 'vitest'
import { addSealedChecks } from '../backfill/sealed-checks.js'
import { sealedChecks } from '../backfill.js'
import {
  CLIENT,
  files,
  folder,
  get,
  guarded,
  init,
  OF_CUSTOMER,
  put,
  putPrisma,
  SCHEMA,
  useApplicationFolders,
} from '../test-support/init-application.js'

const MODEL = createClient({ baseUrl: 'http://127.0.0.1:1', apiKey: 'key' }).model({
  name: 'customers',
  key: 'customers',
  bind: ['id'],
  format: 'text',
  fields: { email: text(), name: text(), phone: text() },
})

useApplicationFolders()

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
      `first, since the cast by Prisma could change values, in the database: ALTER TABLE "customers" ALTER COLUMN "born" TYPE TEXT USING to_json(date_trunc('milliseconds', "born"))#>>'{}' || 'Z';\n  npx prisma db push`,
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
    const time = (column: string) => `to_json(date_trunc('milliseconds', ${column}))#>>'{}' || 'Z'`
    const exact = (column: string) =>
      `case when set_config('extra_float_digits', '1', true) <> '' then ${column}::text end`
    expect(get(migration).split('\n').slice(0, 2)).toEqual([
      `ALTER TABLE "customers" ALTER COLUMN "short" TYPE TEXT, ALTER COLUMN "born" TYPE TEXT USING ${time('"born"')}, ` +
        `ALTER COLUMN "seen_at" TYPE TEXT USING ${time(`"seen_at" at time zone 'UTC'`)}, ` +
        `ALTER COLUMN "day" TYPE TEXT USING to_json("day")#>>'{}', ALTER COLUMN "visits" TYPE TEXT USING "visits"::text, ` +
        `ALTER COLUMN "share" TYPE TEXT USING ${exact('"share"')}, ALTER COLUMN "active" TYPE TEXT USING "active"::text;`,
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
