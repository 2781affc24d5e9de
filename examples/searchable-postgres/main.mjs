// `npm run example:searchable-postgres`: starts EaaS, runs the tour, and leaves nothing behind, however it ends.
import { constants } from 'node:os'
import { parseArgs } from 'node:util'
import { createOutput } from '../encrypt-csv/output.mjs'
import { startServer } from '../encrypt-csv/server.mjs'
import { UsageError } from '../encrypt-csv/usage-error.mjs'

const EXIT_WRONG = 1
const EXIT_USAGE = 2

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

const interruption = new AbortController()
const { signal } = interruption
for (const name of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) {
  // Once: a second Ctrl-C ends this at once, and the server then ends itself.
  process.once(name, () => interruption.abort(name))
}

try {
  process.exitCode = await main()
} catch (error) {
  process.exitCode = tellError(error)
}

async function main() {
  const { help = false, tamper = false } = readArguments()
  if (help) {
    process.stdout.write(HELP)
    return 0
  }
  const [{ openDatabase }, { tour }] = await Promise.all([import('./database.mjs'), import('./tour.mjs')])
  const database = await openDatabase(process.env.DATABASE_URL || undefined, signal)
  try {
    /** @type {ReturnType<typeof startServer> | undefined} */
    let server
    const openServer = () => {
      server = startServer(signal)
      return server
    }
    try {
      const problems = await tour({ openServer, database, output: createOutput(process.stdout), tamper, signal })
      for (const problem of problems) process.stderr.write(`WRONG: ${problem}\n`)
      if (problems.length > 0) return EXIT_WRONG
    } finally {
      await server?.stop()
    }
  } finally {
    await database.close()
  }
  process.stdout.write('All customers read back as they were.\n')
  return 0
}

function readArguments() {
  try {
    const options = /** @type {const} */ ({ tamper: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } })
    return parseArgs({ options }).values
  } catch (error) {
    // parseArgs says what was wrong in its message.
    throw new UsageError(`${error instanceof Error ? error.message : error}\nSee: --help`)
  }
}

/**
 * @param {unknown} error
 * @returns {number} the exit code
 */
function tellError(error) {
  const { code, message, hint, stack } = /** @type {Record<string, any>} */ (error)
  const tell = (/** @type {string} */ text) => process.stderr.write(`${text}\n`)
  if (signal.aborted) {
    tell('Stopped. Nothing is left behind.')
    return 128 + constants.signals[/** @type {NodeJS.Signals} */ (signal.reason)]
  }
  if (error instanceof UsageError) {
    tell(message)
    return EXIT_USAGE
  }
  if (code === 'ERR_MODULE_NOT_FOUND') {
    tell(`Something is not installed or not built: run npm ci in the root of the project.\n${message}`)
  } else if (hint !== undefined) tell(`${message}\n${hint}`)
  else tell(stack ?? String(error))
  return EXIT_WRONG
}
