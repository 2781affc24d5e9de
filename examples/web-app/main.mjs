// `npm run example:web-app`: starts the application on a server and a database of its own, uses it, and checks what it answers.
import { parseArgs } from 'node:util'
import { runExample } from '../lib/run-example.mjs'
import { UsageError } from '../lib/usage-error.mjs'

const HELP = `npm run example:web-app

A small application with Fastify and Drizzle, whose users have encrypted names, addresses and telephone numbers. This starts it on an EaaS
server and a PostgreSQL of its own, sends it requests, rotates the key, and checks each answer. All of it is gone when this ends.

  --help           show this

Exit code: 0 all is as it should be; 1 it is not; 2 the command line cannot be used.
`

await runExample({
  help: HELP,
  readArguments,
  async run(_, stage) {
    const { tour } = await import('./tour.mjs')
    return tour(stage)
  },
  success: 'All answers were as they should be.',
})

/** @param {string[]} args */
function readArguments(args) {
  try {
    const { help = false } = parseArgs({ args, options: { help: { type: 'boolean', short: 'h' } } }).values
    return { help }
  } catch (error) {
    // parseArgs says what was wrong in its message.
    throw new UsageError(`${error instanceof Error ? error.message : error}\nSee: --help`)
  }
}
