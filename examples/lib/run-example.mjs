// Runs an example as a command: its help, its exit codes, its errors. It leaves nothing behind, however it ends.
import { abortOnInterruption, exitCodeOf } from './interruption.mjs'
import { createOutput } from './output.mjs'
import { startServer } from './server.mjs'
import { UsageError } from './usage-error.mjs'

const EXIT_WRONG = 1
const EXIT_USAGE = 2

/**
 * @typedef {object} Stage What an example gets to work with.
 * @property {ReturnType<typeof createOutput>} output
 * @property {() => ReturnType<typeof startServer>} openServer starts a server that is stopped when the example ends
 * @property {AbortSignal} signal aborts on Ctrl-C
 */

/**
 * @template Choice
 * @typedef {object} Example
 * @property {string} help printed for `--help`
 * @property {(argv: string[]) => Choice & { help: boolean }} readArguments throws `UsageError`
 * @property {(choice: Choice, stage: Stage) => Promise<string[]>} run resolves with what was wrong; empty if nothing was
 * @property {string} success the last line if nothing was wrong
 */

/**
 * Runs an example and sets the exit code: 0 nothing was wrong, 1 something was, 2 the user can fix it.
 *
 * @template Choice
 * @param {Example<Choice>} example
 */
export async function runExample(example) {
  const signal = abortOnInterruption()
  try {
    process.exitCode = await perform(example, signal)
  } catch (error) {
    process.exitCode = reportError(error, signal)
  }
}

/**
 * @template Choice
 * @param {Example<Choice>} example
 * @param {AbortSignal} signal
 * @returns {Promise<number>} the exit code
 */
async function perform({ help, readArguments, run, success }, signal) {
  const choice = readArguments(process.argv.slice(2))
  if (choice.help) {
    process.stdout.write(help)
    return 0
  }
  /** @type {ReturnType<typeof startServer> | undefined} */
  let server
  const openServer = () => {
    server = startServer(signal)
    return server
  }
  try {
    const problems = await run(choice, { output: createOutput(process.stdout), openServer, signal })
    for (const problem of problems) process.stderr.write(`WRONG: ${problem}\n`)
    if (problems.length > 0) return EXIT_WRONG
  } finally {
    await server?.stop()
  }
  process.stdout.write(`${success}\n`)
  return 0
}

/**
 * @param {unknown} error
 * @param {AbortSignal} signal
 * @returns {number} the exit code
 */
function reportError(error, signal) {
  const { code, message, hint, place, stack } = /** @type {Record<string, any>} */ (error)
  const print = (/** @type {string} */ text) => process.stderr.write(`${text}\n`)
  if (signal.aborted) {
    print('Stopped. Nothing is left behind.')
    return exitCodeOf(signal)
  }
  if (error instanceof UsageError) {
    print(message)
    return EXIT_USAGE
  }
  if (code === 'ERR_MODULE_NOT_FOUND') {
    print(`Something is not installed or not built: run npm ci in the root of the project.\n${message}`)
  } else if (hint !== undefined) {
    // An error of the SDK. It counts records from 0; people count rows from 1.
    print(place === undefined ? message : `Row ${place.index + 1}, ${message.replace(/^.*?(?=field )/, '')}`)
    print(hint)
    if (code === 'E_INVALID_INPUT' && place !== undefined) return EXIT_USAGE
  } else print(stack ?? String(error))
  return EXIT_WRONG
}
