// What an application of Kysely reads, as it is before and after `init`: everybody, and who has an address, or was seen at a time.
import { serialize } from 'node:v8'
import { db } from './db.js'

const columns = ['id', 'email', 'born', 'seen', 'day', 'visits', 'active', 'prefs'] as const
if (process.argv.includes('write')) {
  const citizens = db.selectFrom('citizens').select(columns)
  const row = await citizens.where('email', '=', 'Ada@x.org').executeTakeFirstOrThrow()
  const values = { ...row, id: 4, email: 'New@x.org', prefs: JSON.stringify(row.prefs) }
  await db.insertInto('citizens').values(values).execute()
  const changed = { visits: row.visits + 1, prefs: JSON.stringify({ tags: [null] }) }
  await db.updateTable('citizens').set(changed).where('id', '=', 4).execute()
}
const all = await db.selectFrom('citizens').select(columns).orderBy('id').execute()
const byEmail = await db.selectFrom('citizens').select('id').where('email', '=', 'Ada@x.org').execute()
const byDate = await db
  .selectFrom('citizens')
  .select('id')
  .where('seen', '=', new Date('2026-10-25T01:30:00Z'))
  .execute()
const found = [...byEmail, ...byDate]
process.stdout.write(serialize({ all, found }).toString('base64'))
await db.destroy()
