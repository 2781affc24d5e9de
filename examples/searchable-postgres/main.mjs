// `npm run example:searchable-postgres`: reads the command line, opens the database and runs the tour.
import { parseArgs } from 'node:util'
import { runExample } from '../lib/run-example.mjs'
import { UsageError } from '../lib/usage-error.mjs'

const HELP = `npm run example:searchable-postgres

Keeps 600 invented customers in a PostgreSQL table whose columns are encrypted: fills it, searches it by blind indexes,
rotates the key, rewraps all rows, reseals some, and proves that all of them read back as they were.
EaaS runs on a database of its own, which is gone when this ends.

  --tamper         alter one bit in the table before it is read back, to see that row refused, and no other
  --help           show this

  DATABASE_URL     where the table is: postgres://user:password@host:5432/name, a direct connection, without a pooler that
                   gives each transaction another one. The table is a temporary one: it is gone when this ends, and nothing
                   else in the database is touched. Without it, on PGlite, which is PostgreSQL in this process.

Exit code: 0 all is as it should be; 1 it is not; 2 the command line or DATABASE_URL cannot be used.
`

await runExample({
  help: HELP,
  readArguments,
  async run({ tamper }, stage) {
    const [{ openDatabase }, { tour }] = await Promise.all([import('./database.mjs'), import('./tour.mjs')])
    const database = await openDatabase(process.env.DATABASE_URL || undefined, stage.signal)
    try {
      return await tour({ ...stage, database, tamper })
    } finally {
      await database.close()
    }
  },
  success: 'All customers read back as they were.',
})

/** @param {string[]} args */
function readArguments(args) {
  try {
    const options = /** @type {const} */ ({ tamper: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } })
    const { help = false, tamper = false } = parseArgs({ args, options }).values
    return { help, tamper }
  } catch (error) {
    // parseArgs says what was wrong in its message.
    throw new UsageError(`${error instanceof Error ? error.message : error}\nSee: --help`)
  }
}
