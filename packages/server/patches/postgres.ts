// The driver, mended while it is bundled: postgres.js 3.4.9 ends the process, hangs, or answers with the rows or the error of
// another query when a connection dies or a statement fails at the wrong moment (its issues 1119, 1154, 1181, 1208, 1223;
// pull requests 1120, 1168, 1209), and reports a transaction that was rolled back as committed. To be dropped with the first
// release that has the mends.
import { readFile } from 'node:fs/promises'
import type { Plugin } from 'esbuild'

/** The files that are mended. */
export const PATCHED_FILES = /[\\/]postgres[\\/]src[\\/](connection|index)\.js$/

/** What stands in a file, and what takes its place. */
type Mend = readonly [found: string, mended: string]

const CLOSED = "Errors.connection('CONNECTION_CLOSED', options)"

const CONNECTION_MENDS: readonly Mend[] = [
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

    if (initial && retries + 1 < port.length) {
      retries++
      return reconnect()
    }
    if (initial) {
      hadError = true
      errored(${CLOSED})
    }

`,
  ],
  // Several hosts: the driver never counted those that it had tried, so that it went round and round without a pause and no query was
  // ever refused while all hosts were down; with one host too, where it closed the connection without a word. Now each host is
  // tried once, from the one that answered last on.
  [
    'initial = query\n      reconnect()',
    'initial = query\n      retries = 0\n      hostIndex = options.shared.hostIndex || 0\n      reconnect()',
  ],
  [
    'options.shared.retries = retries = 0\n',
    'options.shared.retries = retries = 0\n      options.shared.hostIndex = (hostIndex + port.length - 1) % port.length\n',
  ],
  // An error of the first query of a connection was taken for one of its host, and the query waited for ever.
  ['if (connection.queue === queues.connecting &&', 'if (initial && connection.queue === queues.connecting &&'],
  // A host that is silent, or starts or stops, is one that failed: the next one is tried.
  ["errored(Errors.connection('CONNECT_TIMEOUT'", "error(Errors.connection('CONNECT_TIMEOUT'"],
  [
    '} else {\n      errored(Errors.postgres(parseError(x)))',
    `} else {
      const refused = Errors.postgres(parseError(x))
      if (/^(57P03|08...)$/.test(refused.code)) error(refused)
      else errored(refused)`,
  ],
  // A standby of PostgreSQL 14 and later passed for read-write. The database is asked by statements, which a pooler passes on too.
  [
    'if (!backendParameters.in_hot_standby || !backendParameters.default_transaction_read_only)\n          return fetchState()',
    'if (!backendParameters.isKnown)\n          return fetchState()',
  ],
  [
    'query.resolve = ([[a], [b]]) => {\n',
    'query.resolve = ([[a], [b]]) => {\n      backendParameters.isKnown = true\n',
  ],
  [
    "b.pg_is_in_recovery ? 'on' : 'off'\n    }\n    query.execute()",
    "b.pg_is_in_recovery ? 'on' : 'off'\n    }\n    query.catch(noop)",
  ],
  [
    'else if (tryNext(target_session_attrs, backendParameters))\n          return terminate()',
    `else if (tryNext(target_session_attrs, backendParameters)) {
          error(Errors.generic('NOT_PRIMARY', 'the database at ' + (socket.host || options.path) + ':' + socket.port + ' is a standby or read-only'))
          return terminate()
        }`,
  ],
  // A server that no longer takes writes was demoted: the connection is given up, and the next one finds the primary.
  [
    'errorResponse = Errors.postgres(parseError(x))\n',
    "errorResponse = Errors.postgres(parseError(x))\n      errorResponse.code === '25006' && target_session_attrs && end()\n",
  ],
]

const INDEX_MENDS: readonly Mend[] = [
  // COMMIT went out as a prepared statement, by name. Where the database knows no such name (`deallocate all`, or a pooler that
  // gave the connection another back end), that fails the transaction. The driver then sent COMMIT again, PostgreSQL answered it
  // with the tag ROLLBACK, and the transaction was reported as committed. BEGIN is a simple query already.
  [
    ': await sql`commit`',
    `: await sql\`commit\`.simple().then(({ command }) => {
            if (command !== 'COMMIT')
              throw Errors.generic(
                command === 'ROLLBACK' ? 'COMMIT_ROLLED_BACK' : 'COMMIT_UNKNOWN',
                'the database answered COMMIT with ' + command
              )
          })`,
  ],
  [': sql`rollback`', ': sql`rollback`.simple()'],
  ['sql(name) }`\n          :', 'sql(name) }`.simple()\n          :'],
  ['sql(name) }`\n      try', 'sql(name) }`.simple()\n      try'],
]

/** Mends the text of one of the driver's files. @throws when it is another driver, and so has to be looked at again */
export function patchPostgres(text: string, path: string): string {
  const mends = path.endsWith('index.js') ? INDEX_MENDS : CONNECTION_MENDS
  return mends.reduce((rest, [found, mended]) => {
    if (rest.split(found).length !== 2)
      throw new Error(`This is not the postgres.js that was mended: look for ${found}`)
    return rest.replace(found, () => mended)
  }, text)
}

/** Bundles the mended driver. */
export const patchedPostgres: Plugin = {
  name: 'patched-postgres',
  setup(build) {
    build.onLoad({ filter: PATCHED_FILES }, async ({ path }) => ({
      contents: patchPostgres(await readFile(path, 'utf8'), path),
      loader: 'js',
    }))
  },
}
