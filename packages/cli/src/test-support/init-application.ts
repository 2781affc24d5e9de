// Small applications on which the tests run `init`, each in a folder of its own.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, beforeEach } from 'vitest'
import { type GuardedDir, guardedDir } from '../../../../test/support/run/guarded-dir.js'
import { type CommandOptions, runCommand } from './command.js'

export const SCHEMA = `datasource db {
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
export const CLIENT = `import { PrismaPg } from "@prisma/adapter-pg";
import { PrismaClient } from "../generated/prisma/client";

const adapter = new PrismaPg({ connectionString: process.env.DATABASE_URL });
export const db = new PrismaClient({ adapter, log: ["(", "error"] });
`
export const TABLES = `import { index, integer, pgTable, serial, text as column, varchar } from 'drizzle-orm/pg-core'

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
export const DATABASE = `import type { Generated, JSONColumnType } from 'kysely'

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
export const KYSELY = `import { Kysely, PostgresDialect } from 'kysely'
import { Pool } from 'pg'
import type { Database } from './database.js'

const dialect = new PostgresDialect({ pool: new Pool() })

export const db = new Kysely<Database>({
  dialect,
})
`
export const ENTITY = `import { Column, Entity, Index, PrimaryGeneratedColumn, UpdateDateColumn } from 'typeorm'

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

export let guarded: GuardedDir
/** That of the application of the running test. */
export let folder: string

/** Makes a folder for each test; each file of tests calls it, because a worker loads this module once for all of them. */
export function useApplicationFolders(): void {
  beforeAll(() => {
    guarded = guardedDir('eaas-cli-init')
  })
  afterAll(() => guarded.remove())
  beforeEach(() => {
    folder = mkdtempSync(join(guarded.path, 'app-'))
  })
}

export const put = (path: string, text: string) => {
  mkdirSync(dirname(join(folder, path)), { recursive: true })
  writeFileSync(join(folder, path), text)
}
export const get = (path: string) => readFileSync(join(folder, path), 'utf8')
export const files = () => readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort()
export const putPackage = (dependencies: object, more: object = {}) =>
  put('package.json', JSON.stringify({ dependencies, ...more }))
export const putPrisma = () => {
  putPackage({ '@prisma/client': '7' })
  put('prisma/schema.prisma', SCHEMA)
  put('src/lib/db.ts', CLIENT)
}
export const putDrizzle = () => {
  putPackage({ 'drizzle-orm': '0.45' }, { type: 'module' })
  put(
    'db.ts',
    `import { drizzle } from 'drizzle-orm/node-postgres'\nimport { posts } from './tables.js'\n\nconst db = drizzle(url)\n`,
  )
  put('tables.ts', TABLES)
}
export const init = async (argv: string[], more: Partial<CommandOptions> = {}) => {
  const { code, out, err } = await runCommand(['init', ...argv], { env: { TZ: 'UTC' }, folder, input: '', ...more })
  return { code, out: String(out), err }
}
export const OF_CUSTOMER = ['--table', 'Customer', '--fields', 'email,name,phone', '--search', 'email,name']
