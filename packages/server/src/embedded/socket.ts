// Serves one PGlite to several PostgreSQL clients over a unix socket (protocol 3.0, PostgreSQL manual chapter 54).
//
// PGlite is one back end, in which a client's message would meet what another client left unfinished. So each client has
// the back end to itself for a whole turn: from its first message to the Sync or Query after which no transaction is open.
// @electric-sql/pglite-socket 0.2 changes turns between messages: after a statement that could not be parsed, clients got
// each other's rows.
//
// All clients share one session, and so `set` without `local`, session-level advisory locks, temporary tables and
// prepared statements, whose names must not collide (postgres.js draws them at random).
import { chmodSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { PGlite } from '@electric-sql/pglite'

const MAX_CONNECTIONS = 16 // the server's own connection, a few commands beside it, and a person with psql
/** How long a client may keep the back end without sending anything, while all others wait. */
const IDLE_IN_TURN_MS = 30_000
const CLOSE_GRACE_MS = 5_000 // for clients to finish
const DRAIN_POLL_MS = 10
const REFUSED_UNREAD_MS = 1_000 // for a refused client to read the reason
const MAX_MESSAGE_BYTES = 64 * 1024 * 1024 // so that a broken client cannot fill the memory

const PROTOCOL_3_0 = 196_608
const CANCEL_REQUEST = 80_877_102
const SSL_REQUEST = 80_877_103
const GSSENC_REQUEST = 80_877_104

const TERMINATE = 0x58 // X
const PARSE = 0x50 // P
/** The messages after which the back end is between the work of two clients: Sync, Query, FunctionCall, and the start-up. */
const ENDS_A_TURN: ReadonlySet<number | undefined> = new Set([0x53, 0x51, 0x46, 0x00])

const SYNC = message('S', '')
const ROLLBACK = message('Q', 'rollback\0')

interface Client {
  socket: Socket
  received: Buffer // of an incomplete message
  messages: Buffer[]
  started: boolean
  gone: boolean
  statements: Set<string> // of prepared statements, to drop with the connection, since the back end outlives it
}

type Task = { statement: string; resolve: () => void; reject: (reason: unknown) => void }

interface EmbeddedSocketOptions {
  database: PGlite
  path: string
  /** Why PostgreSQL gave up, or why it must not write; then it must not be called again. */
  failure: () => Error | undefined
  /** Called once after that; clients were disconnected without an answer. */
  onFailure: (error: Error) => void
  idleInTurnMs?: number
}

export interface EmbeddedSocket {
  /** Runs one statement in a turn of its own, and ignores the answer. */
  run(statement: string): Promise<void>
  /** Disconnects all clients at once, without an answer, and serves none afterwards. */
  fail(error: Error): void
  /** Refuses new clients, gives the connected ones five seconds to finish, and rolls back what they leave open. */
  close(): Promise<void>
}

/** Listens on a unix socket whose file must not exist; only the owner may connect. @throws Error of the system */
export async function serveOnSocket(options: EmbeddedSocketOptions): Promise<EmbeddedSocket> {
  const { database, path, failure, onFailure, idleInTurnMs = IDLE_IN_TURN_MS } = options
  const clients = new Set<Client>()
  const waiting: Client[] = [] // with messages that wait for a turn
  let turn: Client | undefined
  let idleTimer: NodeJS.Timeout | undefined // runs while the client that has the turn sends nothing
  let working = false
  let failed = false
  let tasks: Task[] = []

  const server = createServer(welcome)
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(path, resolve)
  })
  chmodSync(path, 0o600)
  return { run, fail, close }

  function welcome(socket: Socket): void {
    const state = { received: Buffer.alloc(0), messages: [], started: false, gone: false }
    const client: Client = { socket, ...state, statements: new Set() }
    socket.on('error', () => socket.destroy()) // 'close' follows, which cleans up after the client
    if (failed || clients.size >= MAX_CONNECTIONS) {
      // After the first message, since a client that is cut off during its start-up never reads the reason.
      socket.setTimeout(CLOSE_GRACE_MS, () => socket.destroy())
      socket.once('data', () => {
        if (failed) refuse(client, '57P02', 'the embedded database stopped; restart the server')
        else refuse(client, '53300', `the embedded database serves at most ${MAX_CONNECTIONS} connections`)
      })
      return
    }

    clients.add(client)
    socket.on('data', (bytes) => {
      receive(client, bytes)
      if (client.messages.length > 0) enqueue(client)
    })
    socket.on('close', () => {
      client.gone = true
      client.messages = []
      enqueue(client)
    })
  }

  function enqueue(client: Client): void {
    if (turn !== client && !waiting.includes(client)) waiting.push(client)
    void work()
  }

  /** Gives the back end to one turn after another until all work is done. */
  async function work(): Promise<void> {
    if (working || failed) return
    working = true
    try {
      while (await step()) if (failure()) throw failure()
    } catch (error) {
      fail(failure() ?? (error as Error))
    } finally {
      working = false
    }
  }

  /** Does the next piece of work; false if there is none, or if the client that has the turn must send something. */
  async function step(): Promise<boolean> {
    if (failure()) return true
    const task = turn ? undefined : tasks[0]
    if (task) {
      await execute(message('Q', `${task.statement}\0`))
      tasks.shift() // only now, because `fail` rejects the remaining ones
      task.resolve()
      return true
    }
    turn ??= waiting.shift()
    if (!turn) return false

    const client = turn
    if (client.gone) {
      stopIdleTimer()
      await cleanUpAfter(client)
      turn = undefined
      return true
    }
    const next = client.messages.shift()
    if (!next) {
      idleTimer ??= setTimeout(() => refuse(client, '25P03', 'idle for too long within a transaction'), idleInTurnMs)
      idleTimer.unref()
      return false
    }
    stopIdleTimer()
    const answer = await execute(next)
    // A client hears of a commit only if the commit's fsync succeeded.
    if (failure()) return true
    client.socket.write(answer)
    if (next[0] === PARSE) client.statements.add(statementName(next))
    if (ENDS_A_TURN.has(next[0]) && !database.isInTransaction()) {
      turn = undefined
      if (client.messages.length > 0 || client.gone) waiting.push(client)
    }
    return true
  }

  function stopIdleTimer(): void {
    clearTimeout(idleTimer)
    idleTimer = undefined
  }

  /** Message by message, because after a PANIC PGlite would spin forever on the rest of a batch. */
  async function execute(bytes: Buffer): Promise<Buffer> {
    const parts: Buffer[] = []
    await database.execProtocolRawStream(new Uint8Array(bytes), {
      syncToFs: false, // only for browsers' file systems; ours syncs in the commit
      onRawData: (part) => parts.push(Buffer.from(part)), // a copy: PGlite reuses its memory
    })
    return Buffer.concat(parts)
  }

  async function cleanUpAfter(client: Client): Promise<void> {
    if (client.started) {
      await execute(SYNC) // ends an extended query that its client left, or an error that skips until the next Sync
      if (database.isInTransaction()) await execute(ROLLBACK)
      for (const name of client.statements) await execute(message('C', `S${name}\0`))
      await execute(SYNC)
    }
    clients.delete(client)
  }

  function run(statement: string): Promise<void> {
    return new Promise((resolve, reject) => {
      if (failed) return reject(failure())
      tasks.push({ statement, resolve, reject })
      void work()
    })
  }

  function fail(error: Error): void {
    if (failed) return
    failed = true
    clearTimeout(idleTimer)
    for (const client of clients) client.socket.destroy()
    for (const task of tasks) task.reject(error)
    tasks = []
    onFailure(error)
  }

  async function close(): Promise<void> {
    const stopped = new Promise((resolve) => server.close(resolve))
    const timer = setTimeout(() => {
      for (const client of clients) client.socket.destroy()
    }, CLOSE_GRACE_MS)
    // A client leaves the set once its remains are cleaned up; `server.close` calls back earlier.
    while (clients.size > 0 && !failed) await sleep(DRAIN_POLL_MS)
    await stopped
    clearTimeout(timer)
    clearTimeout(idleTimer)
  }
}

function receive(client: Client, bytes: Buffer): void {
  client.received = client.received.length === 0 ? bytes : Buffer.concat([client.received, bytes])
  while (client.socket.writable) {
    const { received, started } = client
    const lengthAt = started ? 1 : 0
    if (received.length < lengthAt + 4) return
    const length = received.readInt32BE(lengthAt) + lengthAt
    if (length < lengthAt + 4 || length > MAX_MESSAGE_BYTES) {
      refuse(client, '08P01', `message of ${length} bytes; this is not PostgreSQL's protocol`)
      return
    }
    if (received.length < length) return

    client.received = received.subarray(length)
    const whole = received.subarray(0, length)
    if (!started) receiveFirst(client, whole)
    else if (whole[0] === TERMINATE) client.socket.end()
    else client.messages.push(whole)
  }
}

function receiveFirst(client: Client, whole: Buffer): void {
  const code = whole.length >= 8 ? whole.readInt32BE(4) : 0
  if (code === SSL_REQUEST || code === GSSENC_REQUEST) client.socket.write('N')
  // A statement runs to its end before anything else is read, so no statement can be cancelled.
  else if (code === CANCEL_REQUEST) client.socket.end()
  else if (code === PROTOCOL_3_0) {
    client.started = true
    client.messages.push(whole)
  } else refuse(client, '08P01', `protocol ${code} is not supported`)
}

function refuse({ socket }: Pick<Client, 'socket'>, code: string, reason: string): void {
  socket.end(message('E', `SFATAL\0VFATAL\0C${code}\0M${reason}\0\0`))
  socket.destroySoon()
  setTimeout(() => socket.destroy(), REFUSED_UNREAD_MS).unref() // otherwise a client that reads nothing would stay
}

function message(type: string, body: string): Buffer {
  const bytes = Buffer.from(`${type}0000${body}`)
  bytes.writeInt32BE(bytes.length - 1, 1)
  return bytes
}

function statementName(parse: Buffer): string {
  return parse.toString('utf8', 5, parse.indexOf(0, 5))
}
