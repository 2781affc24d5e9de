// Patches of the database driver, applied while it is bundled. In postgres.js 3.4.9 a connection that dies, or a statement that fails, at the
// wrong moment ends the process, hangs, or makes another query answer with foreign rows or a foreign error; and a transaction that was
// rolled back may be reported as committed. Numbers are issues and pull requests of https://github.com/porsager/postgres. To be dropped with
// the first release that contains the fixes.
import { readFile } from 'node:fs/promises'
import type { Plugin } from 'esbuild'

/** The driver's files that are patched. */
export const PATCHED_FILES = /[\\/]postgres[\\/]src[\\/](connection|index)\.js$/

/** A text of the driver, and what replaces it. */
type Patch = readonly [found: string, replacement: string]

/** The types whose arrays the server reads or writes, bytea, bigint, integer, text, date, timestamptz and uuid, each with that of its arrays. */
const ARRAYS = [
  [17, 1001],
  [20, 1016],
  [23, 1007],
  [25, 1009],
  [1082, 1182],
  [1184, 1185],
  [2950, 2951],
] as const

const CLOSED = "Errors.connection('CONNECTION_CLOSED', options)"

const CONNECTION_PATCHES: readonly Patch[] = [
  // Issues 1066, 1154, 1208; pull requests 1168, 1209. After a transaction has lost its connection, the driver sends ROLLBACK on it. That write
  // without a socket threw in a timer, where nobody can catch it.
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
  // Discussed in pull requests 1209 and 1215. Bytes not yet sent when a connection ended were sent on the next one, or kept that one from ever
  // sending anything.
  [
    'clearImmediate(nextWriteTimer)\n    socket.remove',
    'clearImmediate(nextWriteTimer)\n    chunk = nextWriteTimer = null\n    socket.remove',
  ],
  // No fault: each connection first asked for all array types, which took a third of the time of connecting. A connection that died meanwhile
  // ended the process (issues 1192, 1223), and a schema on the search path could have its own operators called. The types of ARRAYS are the
  // same in every PostgreSQL. What only reserves a connection is told as soon as there is one.
  [
    '\n  const connection = {\n',
    `\n  for (const [oid, typarray] of ${JSON.stringify(ARRAYS)}) addArrayType(oid, typarray)\n\n  const connection = {\n`,
  ],
  [
    `if (needsTypes) {
        initial.reserve && (initial = null)
        return fetchArrayTypes()
      }

      initial && !initial.reserve && execute(initial)
`,
    'const isQuery = !initial.reserve\n      isQuery && execute(initial)\n',
  ],
  [
    'initial = null\n      return\n    }\n\n    while',
    'initial = null\n      if (isQuery)\n        return\n    }\n\n    while',
  ],
  // Issues 1119, 1181; pull request 1120. The rows of a failed statement were counted for the next one, whose result then began with holes.
  ['result = new Result()\n    connectTimer', 'result = new Result()\n    rows = 0\n    connectTimer'],
  // Issue 1223. The rows and the error of a connection that died were likewise taken over by the connection that replaced it.
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
  // Issue 1174; pull requests 1175, 1188. The driver never counted the hosts that it had tried: while all were down, it reconnected in a loop
  // without a pause, and no query was ever rejected; so too with a single host that closed the connection silently. Now each host is tried
  // once, beginning with the one that answered last.
  [
    'initial = query\n      reconnect()',
    'initial = query\n      startedAt = performance.now()\n      retries = 0\n      hostIndex = options.shared.hostIndex || 0\n      reconnect()',
  ],
  [
    'options.shared.retries = retries = 0\n',
    'options.shared.retries = retries = 0\n      options.shared.hostIndex = (hostIndex + port.length - 1) % port.length\n',
  ],
  // Issue 1174 too. An error of a connection's first query was mistaken for a failure of its host, and the query waited for ever.
  ['if (connection.queue === queues.connecting &&', 'if (initial && connection.queue === queues.connecting &&'],
  // Issue 988; pull request 1175. A host that is silent, starting or stopping has failed: the next one is tried.
  ["errored(Errors.connection('CONNECT_TIMEOUT'", "error(Errors.connection('CONNECT_TIMEOUT'"],
  [
    '} else {\n      errored(Errors.postgres(parseError(x)))',
    `} else {
      const refused = Errors.postgres(parseError(x))
      if (/^(57P03|08...)$/.test(refused.code)) error(refused)
      else errored(refused)`,
  ],
  // No issue known. A standby of PostgreSQL 14 or later was taken for read-write. Its state is now read by statements, which a pooler passes on
  // too.
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
  // No issue known. To a server that offers no TLS the driver sent the beginning of TLS all the same, and reported that the connection was lost.
  [
    "const canSSL = await new Promise(r => socket.once('data', x => r(x[0] === 83))) // S\n\n      if (!canSSL && ssl === 'prefer')\n        return connected()\n",
    `const answer = await new Promise(r => socket.once('data', x => r(String.fromCharCode(x[0]))))

      if (answer !== 'S' && ssl === 'prefer')
        return connected()
      if (answer === 'N') {
        error(Errors.generic('NO_TLS', 'the database at ' + socket.host + ':' + socket.port + ' offers no TLS'))
        return socket.destroy()
      }
`,
  ],
  // No issue known. Where the host is an IP address, Node compared the certificate with the name `localhost`.
  [
    'net.isIP(socket.host) ? undefined : socket.host\n',
    'net.isIP(socket.host) ? undefined : socket.host,\n      host: socket.host\n',
  ],
  // No issue known. A server that refuses a write as read-only was demoted: the connection is given up, and the next one finds the primary.
  [
    'errorResponse = Errors.postgres(parseError(x))\n',
    "errorResponse = Errors.postgres(parseError(x))\n      errorResponse.code === '25006' && target_session_attrs && end()\n",
  ],
  // No issue known. The values of a statement that is sent again were encoded twice, so that other bytes were written, or compared.
  ['q.parameters = q.parameters || parameters', 'q.parameters = parameters'],
]

/**
 * No issue known. A statement that a pool gave to a connection whose session the database had just ended was rejected, although it was surely not
 * executed. It is given to another connection. Each one that began before its first attempt may have been ended with it, so those do not count:
 * it is tried once more on a later one.
 */
const MOVING_PATCHES: readonly Patch[] = [
  [
    'query = null\n    , final = null\n',
    'query = null\n    , final = null\n    , startedAt = 0\n    , isOver = false\n    , isTerminated = false\n',
  ],
  ['terminated = false\n    backendParameters', 'terminated = isOver = isTerminated = false\n    backendParameters'],
  // What is written after the other side has closed is never sent.
  ["socket.on('data', data)\n", "socket.on('data', data)\n      socket.once('end', () => isOver = true)\n"],
  [
    '    try {\n      q.state = backend',
    '    if (isOver && q.isPooled)\n      return q.handler(q), false\n\n    try {\n      q.state = backend',
  ],
  // Terminated by an administrator, or idle for longer than idle_session_timeout.
  [
    'function ErrorResponse(x) {\n',
    `function ErrorResponse(x) {
    const { severity, code } = parseError(x)
    if (severity === 'FATAL' && /^57P0[15]$/.test(code))
      isOver = isTerminated = true
`,
  ],
  ['function BindComplete() {\n', 'function BindComplete() {\n    query.isBound = true\n'],
  [
    'if (query.reserve)\n      return query.reject(err)\n',
    `if (query.reserve)
      return query.reject(err)

    if (isUnexecuted(query, err)) {
      query.movedAt = query.movedAt || performance.now()
      query.active = false
      return query.handler(query)
    }
`,
  ],
  // A session sends its messages in order, and BindComplete before it executes anything: where its last message arrived without one, nothing was
  // executed. Of simple statements, which have none, only BEGIN is known to change nothing. A connection that failed had not sent its first one.
  [
    '  function errored(err) {\n',
    `  function isUnexecuted(q, err) {
    if (!q.isPooled || q.cancelled || q.movedAt <= startedAt)
      return false
    return q === initial
      ? /^(ECONNREFUSED|ECONNRESET|EPIPE|CONNECTION_CLOSED|57P0[13]|53300)$/.test(err && err.code)
      : isTerminated && !q.isBound && (!q.options.simple || 'onexecute' in q.options)
  }

  function errored(err) {
`,
  ],
]

const INDEX_PATCHES: readonly Patch[] = [
  // With MOVING_PATCHES: a transaction's statements belong to its own connection.
  [
    '    if (ending)\n      return query.reject(',
    '    query.isPooled = true\n    if (ending)\n      return query.reject(',
  ],
  // No issue known. COMMIT was sent as a named prepared statement. If the database does not know the name (after `deallocate all`, or because
  // a pooler assigned another back end), the transaction fails. The driver then sent COMMIT again, PostgreSQL answered with the tag ROLLBACK,
  // and the transaction was reported as committed. BEGIN is a simple query already.
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
  // No issue known. Behind a statement without parameters the driver sends the next one on the same connection: its text, to have it described,
  // and its values once it is. Without named statements, a pooler gives the two parts different back ends if the first statement ends in
  // between, and no answer ever comes. Now a connection gets one statement at a time; within a transaction there is one back end.
  [
    'return c.execute(query)\n      ? move(c, busy)',
    'return c.execute(query) && options.prepare\n      ? move(c, busy)',
  ],
  ['ready = c.execute(query)\n', 'ready = c.execute(query) && options.prepare\n'],
]

/** Patches the text of one of the driver's files. @throws if the text is not that of the release which the patches were written for */
export function patchPostgres(text: string, path: string): string {
  const patches = path.endsWith('index.js') ? INDEX_PATCHES : [...CONNECTION_PATCHES, ...MOVING_PATCHES]
  return patches.reduce((rest, [found, replacement]) => {
    if (rest.split(found).length !== 2)
      throw new Error(`The patches do not fit this release of postgres.js: cannot find exactly once ${found}`)
    return rest.replace(found, () => replacement)
  }, text)
}

/** Bundles the patched driver. */
export const patchedPostgres: Plugin = {
  name: 'patched-postgres',
  setup(build) {
    build.onLoad({ filter: PATCHED_FILES }, async ({ path }) => ({
      contents: patchPostgres(await readFile(path, 'utf8'), path),
      loader: 'js',
    }))
  },
}
