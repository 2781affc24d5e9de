// The application on Kysely: with the SDK and its adapter, or without encryption. Its table is that of Prisma 6.
import { encrypted } from '@eaas/kysely'
import { createClient, json, text } from '@eaas/sdk'
import { type Generated, Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { measureApplication, type Person } from './people.js'

interface Database {
  users_6: Person & { email_index: Generated<string> }
}

const { url, how, rows, eaas: service } = JSON.parse(process.argv[2] ?? '')
const eaas = createClient(service)
const isEncrypted = how === 'eaas'
const fields = { email: text({ index: 'email_index' }), nick: text(), city: text(), prefs: json() }
const users_6 = eaas.model({ name: 'users', key: 'users', bind: ['id'], format: 'text', fields })
const dialect = new PostgresDialect({ pool: new pg.Pool({ connectionString: url, max: 3 }) })
const db = new Kysely<Database>({ dialect: isEncrypted ? encrypted(dialect, { users_6 }) : dialect })

const toRow = (person: Person) =>
  isEncrypted ? person : { ...person, prefs: JSON.stringify(person.prefs) as never, email_index: person.email }
const read = () => db.selectFrom('users_6').selectAll()
await measureApplication(rows, {
  write: (people: Person[]) => db.insertInto('users_6').values(people.map(toRow)).execute(),
  read: async () =>
    isEncrypted
      ? read().execute()
      : (await read().execute()).map((row) => ({ ...row, prefs: JSON.parse(String(row.prefs)) })),
  find: async (email: string) =>
    (await read()
      .where(isEncrypted ? 'email' : 'email_index', '=', email)
      .executeTakeFirst()) ?? null,
  clear: () => db.deleteFrom('users_6').execute(),
})
await db.destroy()
eaas.close()
