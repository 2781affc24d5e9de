// An application of TypeORM, with an entity of ordinary columns: as text, since this repository compiles no decorators.

/** An entity of an application of TypeORM, of ordinary columns. */
export const PERSON = `import { Column, Entity, PrimaryGeneratedColumn } from 'typeorm'

export interface Prefs {
  theme?: string
  tags: (number | null)[]
}

@Entity('citizens')
export class Person {
  @PrimaryGeneratedColumn()
  id!: number

  @Column({ type: 'varchar', length: 255, unique: true })
  email!: string

  @Column({ type: 'timestamp', precision: 3, nullable: true })
  born!: Date | null

  @Column('timestamptz')
  seen!: Date

  @Column({ type: 'date', nullable: true })
  day!: string | null

  @Column({ type: 'int' })
  visits!: number

  @Column({ type: 'boolean', nullable: true })
  active!: boolean | null

  @Column({ type: 'jsonb', nullable: true })
  prefs!: Prefs | null
}
`

/** The data source of an application of TypeORM. */
export const SOURCE = `import { DataSource } from 'typeorm'
import { Person } from './person.js'

export const source = new DataSource({ type: 'postgres', url: process.env.DATABASE_URL ?? '', entities: [Person] })
`

/** What an application of TypeORM reads, as it is before and after init: everybody, and who has an address, or was seen at a time. */
export const MAIN = `import { serialize } from 'node:v8'
import { Person } from './person.js'
import { source } from './source.js'

await source.initialize()
const citizens = source.getRepository(Person)
const select = { id: true, email: true, born: true, seen: true, day: true, visits: true, active: true, prefs: true }
if (process.argv.includes('write')) {
  const row = await citizens.findOneOrFail({ where: { email: 'Ada@x.org' }, select })
  await citizens.insert({ ...row, id: 4, email: 'New@x.org' })
  await citizens.update({ id: 4 }, { visits: row.visits + 1, prefs: { tags: [null] } })
}
const all = (await citizens.find({ select, order: { id: 'ASC' } })).map((one) => ({ ...one }))
const byEmail = await citizens.find({ where: { email: 'Ada@x.org' }, select: { id: true } })
const byDate = await citizens.find({ where: { seen: new Date('2026-10-25T01:30:00Z') }, select: { id: true } })
const found = [...byEmail, ...byDate].map(({ id }) => ({ id }))
const { upQueries } = await source.driver.createSchemaBuilder().log()
const pending = upQueries.map(({ query }) => query)
process.stdout.write(serialize(process.argv.includes('pending') ? { all: pending } : { all, found }).toString('base64'))
await source.destroy()
`
