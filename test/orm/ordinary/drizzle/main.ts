// What an application of Drizzle reads, as it is before and after `init`: everybody, and who has an address, or was seen at a time.
import { serialize } from 'node:v8'
import { eq } from 'drizzle-orm'
import { db, sql } from './db.js'
import { citizens } from './schema.js'

const { id, email, born, seen, day, visits, active, prefs } = citizens
const columns = { id, email, born, seen, day, visits, active, prefs }
if (process.argv.includes('write')) {
  const [row] = await db.select(columns).from(citizens).where(eq(citizens.email, 'Ada@x.org'))
  if (!row) throw new Error('Ada is missing')
  await db.insert(citizens).values({ ...row, id: 4, email: 'New@x.org' })
  await db
    .update(citizens)
    .set({ visits: row.visits + 1, prefs: { tags: [null] } })
    .where(eq(citizens.id, 4))
}
const all = await db.select(columns).from(citizens).orderBy(citizens.id)
const byEmail = await db.select({ id: citizens.id }).from(citizens).where(eq(citizens.email, 'Ada@x.org'))
const byDate = await db
  .select({ id: citizens.id })
  .from(citizens)
  .where(eq(citizens.seen, new Date('2026-10-25T01:30:00Z')))
const found = [...byEmail, ...byDate]
process.stdout.write(serialize({ all, found }).toString('base64'))
await sql.end()
