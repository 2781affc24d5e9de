// `init` on small applications: what it adds, what it shows and asks, and what it leaves to the reader.
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { createClient, text } from '@eaas/sdk'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type GuardedDir, guardedDir } from '../../../../test/support/run/guarded-dir.js'
import { addSealedChecks } from '../backfill/sealed-checks.js'
import { sealedChecks } from '../backfill.js'
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
  const { code, out, err } = await runCommand(['init', ...argv], { env: {}, folder, input: '', ...more })
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
      .replace('@map("full_name")\n', '@map("full_name")\n  name_index String?\n')
      .replace('  @@map("customers")\n', '  @@map("customers")\n  @@index([name_index])\n')
    expect(get('prisma/schema.prisma')).toBe(added)
    const [migration = ''] = files().filter((path) => path.endsWith('migration.sql'))
    expect(migration).toMatch(/^prisma.migrations.\d{14}_encrypt_customers.migration\.sql$/)
    expect(get(migration)).toBe(
      'ALTER TABLE "customers" ADD COLUMN "email_index" TEXT;\nCREATE UNIQUE INDEX "customers_email_index_key" ON "customers"("email_index");\n' +
        'ALTER TABLE "customers" ADD COLUMN "name_index" TEXT;\nCREATE INDEX "customers_name_index_idx" ON "customers"("name_index");\n' +
        addSealedChecks(
          'customers',
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
    const line = 'npx @eaas/cli backfill src/lib/eaas-customer.ts --table customers --column name=full_name'
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
      out: expect.stringMatching(/^Every file has it already\. Next:\n {2}npm install/),
    })
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
      err: 'Table (Customer, Shop, Log): Columns to encrypt (email, name, phone): Those to search by equality (none): Write this? [y/N] ',
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

  it('leaves the migration to Prisma where there is none yet, or the table has a schema', async () => {
    expect((await init([...OF_CUSTOMER, '--yes'])).out).toContain('npx prisma db push, or npx prisma migrate dev')
    expect(files().filter((path) => path.endsWith('.sql'))).toEqual([])
    mkdirSync(join(folder, 'prisma/migrations'))
    put('prisma/schema.prisma', SCHEMA.replace('@@map("customers")', '@@map("others")\n  @@schema("crm")'))
    execFileSync('rm', [join(folder, 'src/lib/eaas-customer.ts')])
    expect((await init([...OF_CUSTOMER, '--yes'])).code).toBe(0)
    expect(files().filter((path) => path.endsWith('.sql'))).toEqual([])
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
    [['--table', 'Customer', '--fields', 'born'], 'Customer.born is DateTime?: init takes String'],
    [['--table', 'Customer', '--fields', 'tags'], 'Customer.tags is String[]'],
    [['--table', 'Customer', '--fields', 'short'], 'is @db.VarChar, which may be too short'],
    [['--table', 'Customer', '--fields', 'role'], 'has a default, which would be stored as it is'],
    [['--table', 'Customer', '--fields', 'shopId'], 'is the key of a relation'],
    [['--table', 'Customer', '--fields', 'emial'], 'Customer has no emial. It has: email, name, phone'],
    [['--table', 'Customer'], '--fields is missing. Customer has: email, name, phone'],
    [['--table', 'Customer', '--fields', 'email', '--search', 'name'], '--search name: it is not one of --fields'],
    [['--table', 'Log', '--fields', 'text'], 'Log has no primary key'],
    [['--table', 'Nobody', '--fields', 'x'], 'there is no Nobody. There are: Customer, Shop, Log'],
    [['--fields', 'email'], '--table is missing. There are: Customer, Shop, Log'],
    [[], '--table is missing, and so is --fields. There are'],
  ])('refuses, and says why: %j', async (argv, message) => {
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
      TABLES.replace('// how they log in\n', '// how they log in\n  emailIndex: column().unique(),\n').replace(
        "name: column('full_name').notNull(),\n",
        "name: column('full_name').notNull(),\n  nameIndex: column('full_name_index'),\n",
      ),
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
    expect(out).toContain(
      "in tables.ts: index('users_full_name_index').on(table.nameIndex), in the third argument of pgTable()",
    )
    expect(out).toContain('npx drizzle-kit generate')
    expect(out).toContain(
      'backfill eaas-users.ts --table users --column name=full_name --column nameIndex=full_name_index --constrain\n',
    )
  })

  it('reads columns that a function makes, and one file that has all', async () => {
    put(
      'db.ts',
      `import { drizzle } from 'drizzle-orm/node-postgres'\n${TABLES}\nexport const db = drizzle(process.env.DATABASE_URL!)\n`,
    )
    put('tables.ts', '')
    expect((await init(['--table', 'posts', '--fields', 'title', '--search', 'title', '--yes'])).code).toBe(0)
    expect(get('db.ts')).toContain('title: t.text().notNull(), titleIndex: t.text() }))')
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

  it.each([
    [['--table', 'users', '--fields', 'id'], 'users.id has serial()'],
    [['--table', 'users', '--fields', 'code'], 'users.code has varchar()'],
    [['--table', 'users', '--fields', 'boss'], 'users.boss has references'],
    [['--table', 'keyless', '--fields', 'text'], 'keyless has no primary key'],
  ])('refuses, and says why: %j', async (argv, message) => {
    expect(await init([...argv, '--yes'])).toMatchObject({ code: 2, err: expect.stringContaining(message) })
  })
})

describe('init elsewhere', () => {
  it.each([
    [{ kysely: '1' }, `With kysely, follow docs/${'kysely'}.md of @eaas/sdk`],
    [{ typeorm: '1' }, `With typeorm, follow docs/${'typeorm'}.md of @eaas/sdk`],
    [{ pg: '8' }, `see docs/${'orms'}.md of @eaas/sdk`],
    [{ '@prisma/client': '7' }, 'no model of Prisma'],
  ])('names the page to follow: %j', async (dependencies, message) => {
    putPackage(dependencies)
    expect(await init([])).toMatchObject({ code: 2, err: expect.stringContaining(message) })
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

  it('needs an application', async () => {
    expect(await init([])).toMatchObject({ code: 2, err: expect.stringContaining('there is no package.json') })
    put('package.json', '{')
    expect(await init([])).toMatchObject({ code: 2, err: expect.stringContaining('package.json: it is not JSON') })
  })
})
