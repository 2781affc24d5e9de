// The driver, mended while it is bundled: postgres.js 3.4.9 ends the process, hangs, or answers with the rows or the error of
// another query when a connection dies or a statement fails at the wrong moment (its issues 1119, 1154, 1181, 1208, 1223;
// pull requests 1120, 1168, 1209). To be dropped with the first release that has the mends.
import { readFile } from 'node:fs/promises'
import type { Plugin } from 'esbuild'

/** The file that is mended. */
export const MENDED_FILE = /[\\/]postgres[\\/]src[\\/]connection\.js$/

const CLOSED = "Errors.connection('CONNECTION_CLOSED', options)"

/** What stands in connection.js, and what takes its place. */
const MENDS: readonly [found: string, mended: string][] = [
  // A transaction that lost its connection rolls back on it: a write without a socket threw where nobody can catch it.
  [
    'function nextWrite(fn) {\n',
    `function nextWrite(fn) {
    if (!socket) {
      clearImmediate(nextWriteTimer)
      chunk = nextWriteTimer = null
      error(${CLOSED})
      return false
    }
`,
  ],
  // What was not sent to the old connection was sent to the new one, or kept it from ever sending anything.
  [
    'clearImmediate(nextWriteTimer)\n    socket.remove',
    'clearImmediate(nextWriteTimer)\n    chunk = nextWriteTimer = null\n    socket.remove',
  ],
  // A connection that dies while it asks for the types of arrays: a rejection that nobody handled ended the process.
  ['return fetchArrayTypes()\n', 'return fetchArrayTypes().catch(errored)\n'],
  // What a failed statement had sent counted for the next one: its rows came behind holes, so that there seemed to be none.
  ['result = new Result()\n    connectTimer', 'result = new Result()\n    rows = 0\n    connectTimer'],
  // So did what a connection that died had sent, and its error, on the connection that took its place.
  [
    `if (initial)
      return reconnect()

    !hadError && (query || sent.length) && error(Errors.connection('CONNECTION_CLOSED', options, socket))
`,
    `!initial && !hadError && (query || sent.length) && error(${CLOSED})
    query = results = errorResponse = null
    result = new Result()
    rows = 0

    if (initial)
      return reconnect()

`,
  ],
]

/** Mends the driver's text. @throws when it is another driver, and so has to be looked at again */
export function mendPostgres(text: string): string {
  return MENDS.reduce((rest, [found, mended]) => {
    if (rest.split(found).length !== 2)
      throw new Error(`This is not the postgres.js that was mended: look for ${found}`)
    return rest.replace(found, () => mended)
  }, text)
}

/** Bundles the mended driver. */
export const mendedPostgres: Plugin = {
  name: 'mended-postgres',
  setup(build) {
    build.onLoad({ filter: MENDED_FILE }, async ({ path }) => ({
      contents: mendPostgres(await readFile(path, 'utf8')),
      loader: 'js',
    }))
  },
}
