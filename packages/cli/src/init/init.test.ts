// `init` on applications of any ORM: names, links and bytes that it must not trust, versions, and what to install.
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { version } from '../../package.json'
import { loaderFor } from '../model-module.js'
import {
  DATABASE,
  ENTITY,
  files,
  folder,
  get,
  guarded,
  init,
  KYSELY,
  OF_CUSTOMER,
  put,
  putDrizzle,
  putPackage,
  putPrisma,
  SCHEMA,
  TABLES,
  useApplicationFolders,
} from '../test-support/init-application.js'

useApplicationFolders()

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
    putPackage({ '@prisma/client': '7', '@eaas/cli': version })
    const tarballs = ['sdk', 'prisma', 'server', 'audit', 'console'].map(
      (name) => `./eaas-packages/eaas-${name}-${version}.tgz`,
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
