// An application of Drizzle, as it is before and after `init`: signs a customer up, and finds who has an address.
import { eq } from 'drizzle-orm'
import { db, sql } from './db.js'
import { customers } from './schema.js'

const [email = '', isNew] = process.argv.slice(2)
if (isNew) await db.insert(customers).values({ name: 'Ada', email, city: 'London' })
const found = await db
  .select({ name: customers.name, email: customers.email, salary: customers.salary })
  .from(customers)
  .where(eq(customers.email, email))
const all = await db.query.customers.findMany({ columns: { email: true }, orderBy: customers.id })
console.log(JSON.stringify({ found, all: all.map((one) => one.email) }))
await sql.end()
