// `npm run demo`: runs the demo, and leaves nothing behind, however it ends.
import { constants } from 'node:os'
import { HELP, readArguments } from './arguments.mjs'
import { createOutput } from './output.mjs'
import { startServer } from './server.mjs'
import { UsageError } from './usage-error.mjs'

const EXIT_WRONG = 1
const EXIT_USAGE = 2

const interruption = new AbortController()
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) {
  // Once: a second Ctrl-C ends the demo at once, and the server then ends itself.
  process.once(signal, () => interruption.abort(signal))
}

try {
  process.exitCode = await main()
} catch (error) {
  process.exitCode = tellError(error)
}

async function main() {
  // npm runs scripts in the root of the project; paths are meant from where it was called.
  const here = process.env.npm_lifecycle_event === 'demo' ? process.env.INIT_CWD : undefined
  const choice = readArguments(process.argv.slice(2), here ?? process.cwd())
  if (choice.help) {
    process.stdout.write(HELP)
    return 0
  }
  const { demo } = await import('./demo.mjs')
  const problems = await onStage((stage) => demo(choice, stage))
  for (const problem of problems) process.stderr.write(`WRONG: ${problem}\n`)
  if (problems.length > 0) return EXIT_WRONG
  process.stdout.write('All came back as it was.\n')
  return 0
}

/**
 * Gives the work the means to start a server, and ends that server.
 *
 * @template T
 * @param {(stage: import('./demo.mjs').Stage) => Promise<T>} work
 * @returns {Promise<T>}
 */
async function onStage(work) {
  const { signal } = interruption
  /** @type {ReturnType<typeof startServer> | undefined} */
  let server
  const openServer = () => {
    server = startServer(signal)
    return server
  }
  try {
    return await work({ output: createOutput(process.stdout), openServer, signal })
  } finally {
    await server?.stop()
  }
}

/**
 * @param {unknown} error
 * @returns {number} the exit code
 */
function tellError(error) {
  const { code, message, hint, place, stack } = /** @type {Record<string, any>} */ (error)
  const tell = (/** @type {string} */ text) => process.stderr.write(`${text}\n`)
  if (interruption.signal.aborted) {
    tell('Stopped. Nothing is left behind.')
    return 128 + constants.signals[/** @type {NodeJS.Signals} */ (interruption.signal.reason)]
  }
  if (error instanceof UsageError) {
    tell(message)
    return EXIT_USAGE
  }
  if (code === 'ERR_MODULE_NOT_FOUND') {
    tell(`Something is not installed or not built: run npm ci in the root of the project.\n${message}`)
  } else if (hint !== undefined) {
    // An error of the SDK. It counts records from 0; people count rows from 1.
    tell(place === undefined ? message : `Row ${place.index + 1}, ${message.replace(/^record \d+, /, '')}`)
    tell(hint)
    if (code === 'E_INVALID_INPUT' && place !== undefined) return EXIT_USAGE
  } else tell(stack ?? String(error))
  return EXIT_WRONG
}
