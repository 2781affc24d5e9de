// How many connections a server opens to PostgreSQL as it starts, before anybody calls it.
import { expect, it } from 'vitest'
import { backend } from '../support/database/database.js'
import { databaseWithTenant } from '../support/database/filled-database.js'
import { connectTo, startEaas } from '../support/service/eaas-process.js'

/** One for its first jobs, which begin one after another, one for what it compares each second, and one for the log of the installation. */
const AT_MOST = 3

it.skipIf(backend() === 'embedded')('a server that starts opens few connections', async () => {
  const { database } = await databaseWithTenant()
  const sql = connectTo(database)
  const eaas = await startEaas({ database })
  try {
    // The last of the first jobs writes it.
    const findAnchor = () => sql`select 1 from audit_log where action = 'installation.anchor'`
    await expect.poll(findAnchor).toHaveLength(1)
    const open = await sql`
      select 1 from pg_stat_activity where datname = current_database() and application_name = 'eaas'`
    expect(open.length).toBeLessThanOrEqual(AT_MOST)
  } finally {
    await sql.end()
    await eaas.stop()
  }
})
