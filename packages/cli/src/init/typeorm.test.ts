// `init` on an application of TypeORM.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import {
  ENTITY,
  files,
  folder,
  get,
  init,
  put,
  putPackage,
  useApplicationFolders,
} from '../test-support/init-application.js'

const SOURCE = `import { DataSource } from 'typeorm'
import { StaffMember } from './entity/staff-member.js'

export const source = new DataSource({ type: 'postgres', entities: [StaffMember] })
`

useApplicationFolders()

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
      `ALTER TABLE "staff_member" ALTER COLUMN "email" TYPE TEXT, ALTER COLUMN "born_at" TYPE TEXT USING to_json(date_trunc('milliseconds', "born_at"))#>>'{}' || 'Z', ALTER COLUMN "day" TYPE TEXT USING to_json("day")#>>'{}', ALTER COLUMN "visits" TYPE TEXT USING "visits"::text; ALTER TABLE "staff_member" ADD COLUMN "email_index" TEXT;`,
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
      `USING to_json(date_trunc('milliseconds', "born_at" at time zone 'Europe/Paris' at time zone 'UTC'))#>>'{}' || 'Z';`,
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
