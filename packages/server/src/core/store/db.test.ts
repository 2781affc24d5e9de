// The driver against a PostgreSQL that fails in the middle of an answer: no query sees anything of another
// one's.
import { EventEmitter, once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { connect, type Sql, type Transaction, withoutLimits } from './db.js'
import { DatabaseDeadlineError, withDeadlines } from './deadline.js'

const INT4 = 23
const TEXT = 25
const BOOL = 16

interface DatabaseOptions {
  cut?: boolean
  /** connections of the client */
  max?: number
  /** the SQLSTATE with which a connection, counted from 1, ends in the place of the answer to a message */
  ends?: (at: { connection: number; type: string; text: string }) => string | false
  /** whether the first connection ends once it is idle, and its socket never does */
  lingers?: boolean
  /** the port of another host, which the client tries first */
  firstPort?: number
  isPooled?: boolean
  /** whether a session cannot be given back its limits */
  keepsNoLimits?: boolean
}

/**
 * Answers every query with one row, { n: 1 }; one that contains `fail` with that row and then an error,
 * `silence` with nothing, `as reset` with a reset of the connection.
 */
async function startDatabase({
  cut = false,
  max = 1,
  ends = () => false,
  lingers = false,
  firstPort,
  isPooled = false,
  keepsNoLimits = false,
}: DatabaseOptions): Promise<{
  sql: Sql
  port: number
  /** the statements, in order */
  statements: string[]
  /** the values that statements were given, in order, as the messages have them */
  bound: string[]
  close: () => Promise<void>
}> {
  const statements: string[] = []
  const bound: string[] = []
  let connections = 0
  const server = createServer((socket) => {
    const connection = ++connections
    let received = Buffer.alloc(0)
    let started = false
    let text = ''
    socket.on('error', () => undefined) // the driver may write to a connection that was cut
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk])
      for (;;) {
        const head = started ? 1 : 0 // the first message has no type
        if (received.length < head + 4) return
        const length = head + received.readInt32BE(head)
        if (received.length < length) return
        const type = started ? String.fromCharCode(received[0] as number) : 'startup'
        if (type === 'P' || type === 'Q') {
          // Without the name of a prepared statement: the driver draws it at random, and it may contain `fail`.
          const start = type === 'P' ? received.indexOf(0, 5) + 1 : 5
          text = received.toString('utf8', start, received.indexOf(0, start))
          statements.push(text.trim())
        }
        if (type === 'B') bound.push(received.toString('latin1', 5, length).replace(/^[^\\]*/, ''))
        received = received.subarray(length)
        started = true
        const code = ends({ connection, type, text })
        if (code) return end(socket, code, text)
        answer(socket, type, text)
        if (!lingers || connection > 1 || type !== 'S') continue
        socket.write(errorResponse('57P01'))
        socket.removeAllListeners('data')
      }
    })
  })

  function end(socket: Socket, code: string, text: string): void {
    if (!text.includes('as reset')) return void socket.end(errorResponse(code))
    socket.write(errorResponse(code))
    reset(socket)
  }

  // Behind what was written, or the socket would be closed first.
  function reset(socket: Socket): void {
    setTimeout(() => socket.resetAndDestroy(), 20)
  }

  const inTransaction = new WeakSet<Socket>()
  let isForgotten = false
  function answer(socket: Socket, type: string, text: string): void {
    if (text.includes('silence')) return
    if (text.includes('as reset') && type === 'S') return
    if (type === 'B' && text.includes('forgotten') && bound.length === 2) isForgotten = true
    if (isForgotten) {
      if (type === 'B') socket.write(errorResponse('26000', 'ERROR', 'FetchPreparedStatement'))
      isForgotten = type !== 'S'
      if (type === 'E') return
    }
    if (type === 'startup') socket.write(Buffer.concat([message('R', int(0)), readyForQuery()]))
    else if (type === 'P') socket.write(message('1'))
    else if (type === 'B') socket.write(message('2'))
    else if (type === 'S') socket.write(readyForQuery(inTransaction.has(socket)))
    else if (text.includes('pg_is_in_recovery')) socket.write(stateOfAPrimary())
    else if (keepsNoLimits && type === 'Q' && text.startsWith('reset'))
      socket.write(Buffer.concat([errorResponse('57014', 'ERROR'), readyForQuery()]))
    else if (type === 'Q') {
      const isBegin = tagOf(text) === 'BEGIN'
      if (isBegin) inTransaction.add(socket)
      else inTransaction.delete(socket)
      socket.write(Buffer.concat([commandComplete(tagOf(text)), readyForQuery(isBegin)]))
    } else if (type === 'D') socket.write(Buffer.concat([message('t', short(0)), rowDescription()]))
    else if (type === 'E' && text.includes('as reset')) reset(socket)
    // What is executed before each statement behind a pooler returns no row.
    else if (type === 'E' && text.includes('set_config')) socket.write(commandComplete('SELECT 0'))
    else if (type === 'E') {
      socket.write(dataRow())
      if (!text.includes('fail')) return void socket.write(commandComplete())
      socket.write(errorResponse(cut ? '57P01' : '57014'))
      if (cut) socket.end()
    }
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  const hosts = firstPort === undefined ? '' : `127.0.0.1:${firstPort},`
  const sql = connect({ url: `postgres://user@${hosts}127.0.0.1:${port}/database`, max, isPooled })
  return {
    sql,
    port,
    statements,
    bound,
    async close() {
      await sql.end({ timeout: 1 })
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

function message(type: string, ...parts: Buffer[]): Buffer {
  const body = Buffer.concat(parts)
  return Buffer.concat([Buffer.from(type), int(body.length + 4), body])
}

function int(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(value)
  return bytes
}

function short(value: number): Buffer {
  const bytes = Buffer.alloc(2)
  bytes.writeInt16BE(value)
  return bytes
}

/** `isOpen`: whether a transaction is. */
const readyForQuery = (isOpen = false) => message('Z', Buffer.from(isOpen ? 'T' : 'I'))
const commandComplete = (tag = 'SELECT 1') => message('C', Buffer.from(`${tag}\0`))
/** Of BEGIN, COMMIT and ROLLBACK. */
const tagOf = (statement: string) => (/^[a-z]+/.exec(statement)?.[0] ?? '').toUpperCase()
const dataRow = () => message('D', short(1), int(1), Buffer.from('1'))
const errorResponse = (code: string, severity = 'FATAL', routine = '') =>
  message('E', Buffer.from(`S${severity}\0V${severity}\0C${code}\0Mended\0R${routine}\0\0`))
const rowDescription = (name = 'n', type = INT4) =>
  message('T', short(1), Buffer.from(`${name}\0`), int(0), short(0), int(type), short(4), int(-1), short(0))
/** To `show transaction_read_only; select pg_is_in_recovery()`. */
const stateOfAPrimary = () =>
  Buffer.concat([
    ...[
      rowDescription('transaction_read_only', TEXT),
      message('D', short(1), int(3), Buffer.from('off')),
      commandComplete(),
    ],
    ...[rowDescription('pg_is_in_recovery', BOOL), message('D', short(1), int(1), Buffer.from('f')), commandComplete()],
    readyForQuery(),
  ])

const isReset = (statement: Promise<unknown>) => expect(statement).rejects.toMatchObject({ code: 'ECONNRESET' })

describe('a connection', () => {
  it.each([
    ['/my%20db%2F1', 'my db/1'],
    ['/eaas', 'eaas'],
    ['', 'user'],
    ['/', 'user'],
  ])('is to the database of the name that its URL has, decoded: %s', (path, name) => {
    const { options } = connect({ url: `postgres://user@127.0.0.1${path}`, max: 1 })
    expect(options.database).toBe(name)
  })
})

describe('a new connection', () => {
  let database: Awaited<ReturnType<typeof startDatabase>> | undefined
  afterEach(() => database?.close())

  it('is asked for its state and then the query, and for no types', async () => {
    database = await startDatabase({ cut: false })
    await database.sql`select 1 as n`
    expect(database.statements).toEqual([
      expect.stringMatching(/^show transaction_read_only;\s+select pg_catalog\.pg_is_in_recovery\(\)$/),
      expect.stringContaining('select 1 as n'),
    ])
  })

  it('can be reserved before it has answered a query', async () => {
    database = await startDatabase({ cut: false })
    const reserved = await database.sql.reserve()
    expect([...(await reserved`select 1 as n`)]).toEqual([{ n: 1 }])
    reserved.release()
  })
})

describe('a query after one that failed in the middle of its rows', () => {
  let database: Awaited<ReturnType<typeof startDatabase>> | undefined
  afterEach(() => database?.close())

  it('has its own rows, from the first on, on the same connection', async () => {
    database = await startDatabase({ cut: false })
    const { sql } = database
    const failed = expect(sql`select 1 as fail`).rejects.toMatchObject({ code: '57014' })
    const next = sql`select 1 as n` // in the pipeline behind it
    await failed
    expect([...(await next)]).toEqual([{ n: 1 }])
  })

  it('has its own rows and no error of another one, on the connection that takes the place of one that was cut', async () => {
    database = await startDatabase({ cut: true })
    const { sql } = database
    await expect(sql`select 1 as fail`).rejects.toMatchObject({ code: 'CONNECTION_CLOSED' })
    for (let i = 0; i < 3; i++) expect([...(await sql`select 1 as n`)]).toEqual([{ n: 1 }])
  })
})

describe('a transaction whose connection was cut', () => {
  /** Begins one whose function goes on after it was lost. Returns how its function ended, once it did. */
  async function lose(sql: Sql, next?: Promise<unknown>) {
    const ends: Promise<unknown>[] = []
    const lost: Promise<unknown> = sql.begin((transaction) => {
      ends.push(goOn(transaction))
      return ends[0]
    })
    const goOn = async (transaction: Transaction) => {
      await expect(transaction`select 1 as fail`).rejects.toMatchObject({ code: 'CONNECTION_CLOSED' })
      await (next ?? lost.catch(() => undefined))
      await transaction`select 1 as late`
    }
    await expect(lost).rejects.toMatchObject({ code: 'CONNECTION_CLOSED' })
    return () => expect(ends[0]).rejects.toMatchObject({ code: 'CONNECTION_CLOSED' })
  }

  it('has its later statements refused, and leaves a pool that answers', async () => {
    const { sql, close } = await startDatabase({ cut: true })
    const isRefused = await lose(sql)
    expect([...(await sql`select 1 as n`)]).toEqual([{ n: 1 }])
    await isRefused()
    await close()
  })

  it('has nothing of it executed on the connection that takes its place', async () => {
    const { sql, statements, close } = await startDatabase({ cut: true })
    const replaced = new EventEmitter()
    const isRefused = await lose(sql, once(replaced, 'now'))
    await sql.begin(async (transaction) => {
      await transaction`select 1 as n`
      replaced.emit('now')
      await isRefused()
      await transaction`select 1 as m`
    })
    await close()
    expect(statements.filter((text) => /late|rollback/.test(text))).toEqual([])
  })
})

describe('a connection that was reset', () => {
  const MAX = 3

  /** Two rounds of as many statements as there are connections. */
  async function askAll(sql: Sql) {
    for (let round = 0; round < 2; round++) {
      const rows = await Promise.all(Array.from({ length: MAX }, () => sql`select 1 as n`))
      expect(rows.map((found) => [...found])).toEqual(Array(MAX).fill([{ n: 1 }]))
    }
  }

  it('serves again after its transaction, which sends a rollback before the socket is closed', async () => {
    const { sql, statements, close } = await startDatabase({ max: MAX })
    for (let at = 0; at < MAX; at++) {
      const lost = sql.begin((transaction) => isReset(transaction`select 1 as reset`))
      await expect(lost).rejects.toMatchObject({ code: 'CONNECTION_CLOSED' })
    }
    await askAll(sql)
    await close()
    expect(statements.filter((text) => /rollback/.test(text))).toEqual([])
  })

  it('serves again after its session, which is released later and has no more statements executed', async () => {
    const { sql, statements, close } = await startDatabase({ max: MAX })
    for (let at = 0; at < MAX; at++) {
      const session = await sql.reserve()
      await isReset(session`select 1 as reset`)
      for (let late = 0; late < 2; late++)
        await expect(session`select 1 as late`).rejects.toMatchObject({ code: 'CONNECTION_CLOSED' })
      session.release()
    }
    await askAll(sql)
    await close()
    expect(statements.filter((text) => /late/.test(text))).toEqual([])
  })
})

describe('a connection that statements wait for', () => {
  it.each([98, 99, 100, 101])(
    'belongs to a transaction alone, however many statements stand before its begin: %i',
    async (n) => {
      const { sql, statements, close } = await startDatabase({})
      await sql`select 1 as n`
      const before = Array.from({ length: n }, () => sql`select 1 as n`.execute())
      const transaction = sql.begin((own) => own`select 1 as own`)
      const after = sql`select 1 as after`.execute()
      await Promise.all([...before, transaction, after])
      await close()
      const order = statements.map((text) => /begin|commit|select 1 as (own|after)/.exec(text)?.[0]).filter(Boolean)
      expect(order).toEqual(['begin', 'select 1 as own', 'commit', 'select 1 as after'])
    },
  )
})

describe('of two hosts', () => {
  it('the second one is tried where the first is starting', async () => {
    const starting = await startDatabase({ ends: ({ type }) => type === 'startup' && '57P03' })
    const other = await startDatabase({ firstPort: starting.port })
    expect([...(await other.sql`select 1 as n`)]).toEqual([{ n: 1 }])
    await Promise.all([starting.close(), other.close()])
  })

  it('one that cuts the first statement of a connection fails that statement, and is not taken for down', async () => {
    const first = await startDatabase({ cut: true })
    const other = await startDatabase({ firstPort: first.port })
    await expect(other.sql`select 1 as fail`).rejects.toMatchObject({ code: 'CONNECTION_CLOSED' })
    expect([...(await other.sql`select 1 as n`)]).toEqual([{ n: 1 }])
    await Promise.all([first.close(), other.close()])
  })
})

describe('a prepared statement that the database has forgotten', () => {
  it('is prepared again, and given the same values', async () => {
    const database = await startDatabase({})
    const bytes = Uint8Array.of(1, 2)
    const send = () => database.sql`select 1 as forgotten where ${bytes}::bytea is not null`
    await send()
    expect([...(await send())]).toEqual([{ n: 1 }])
    await database.close()
    expect(database.bound[2]).toBe(database.bound[0])
  })
})

describe('a connection that the database ended', () => {
  let database: Awaited<ReturnType<typeof startDatabase>> | undefined
  afterEach(() => database?.close())

  /** The statements of the test, without those that a connection begins with. */
  const sent = () => database?.statements.filter((text) => /select 1 as|begin|commit/.test(text)).map(named)
  const named = (text: string) => /select 1 as \w+|begin|commit/.exec(text)?.[0]
  const ADMINISTRATOR = '57P01'

  it('has its statement executed on another one, with the same values, if it had not begun', async () => {
    const bytes = Uint8Array.of(1, 2)
    database = await startDatabase({
      ends: ({ connection, type, text }) => connection === 1 && type === 'B' && text.includes('late') && ADMINISTRATOR,
    })
    const { sql } = database
    expect([...(await sql`select 1 as n where ${bytes}::bytea = ${bytes}`)]).toEqual([{ n: 1 }])
    expect([...(await sql`select 1 as late where ${bytes}::bytea = ${bytes}`)]).toEqual([{ n: 1 }])
    const [, first, second] = database.bound
    expect([sent(), second]).toEqual([['select 1 as n', 'select 1 as late', 'select 1 as late'], first])
  })

  it('has all of them executed there that stood behind each other', async () => {
    database = await startDatabase({
      ends: ({ connection, type, text }) => connection === 1 && type === 'P' && text.includes('late') && ADMINISTRATOR,
    })
    const { sql } = database
    await sql`select 1 as n`
    const rows = await Promise.all([sql`select 1 as late`, sql`select 1 as later`, sql`select 1 as latest`])
    expect(rows.map((found) => [...found])).toEqual(Array(3).fill([{ n: 1 }]))
  })

  it('has it executed there once, if it is reset besides', async () => {
    database = await startDatabase({
      max: 2,
      ends: ({ connection, type, text }) =>
        connection === 1 && type === 'P' && text.includes('as reset') && ADMINISTRATOR,
    })
    const { sql } = database
    await sql`select 1 as n`
    await isReset(sql`select 1 as reset`)
    expect(sent()).toEqual(['select 1 as n', 'select 1 as reset', 'select 1 as reset'])
  })

  it('leaves no statement to the others that it had ended with it', async () => {
    const isOpen = (connection: number) => connection > 3
    database = await startDatabase({
      max: 3,
      ends: ({ connection, type, text }) =>
        !isOpen(connection) && type === 'P' && text.includes('late') && ADMINISTRATOR,
    })
    const { sql } = database
    await Promise.all([sql`select 1 as n`, sql`select 1 as n`, sql`select 1 as n`])
    expect([...(await sql`select 1 as late`)]).toEqual([{ n: 1 }])
  })

  it('has its statement executed once more only, or another outage would go on for as long', async () => {
    database = await startDatabase({ ends: ({ type, text }) => type === 'P' && text.includes('late') && ADMINISTRATOR })
    const { sql } = database
    await sql`select 1 as n`
    await expect(sql`select 1 as late`).rejects.toMatchObject({ code: 'CONNECTION_CLOSED' })
    expect(sent()).toEqual(['select 1 as n', 'select 1 as late', 'select 1 as late'])
  })

  it('has a transaction begun on another one, and its work done once', async () => {
    let works = 0
    database = await startDatabase({
      ends: ({ connection, text }) => connection === 1 && /begin/.test(text) && ADMINISTRATOR,
    })
    const { sql } = database
    await sql`select 1 as n`
    const rows = await sql.begin((transaction) => {
      works += 1
      return transaction`select 1 as late`
    })
    expect([works, [...rows]]).toEqual([1, [{ n: 1 }]])
    expect(sent()).toEqual(['select 1 as n', 'begin', 'begin', 'select 1 as late', 'commit'])
  })

  it.each(['begin', 'commit'])('fails a transaction whose connection it was: after %s', async (last) => {
    database = await startDatabase({
      ends: ({ type, text }) =>
        (last === 'begin' ? type === 'P' && text.includes('late') : /commit/.test(text)) && ADMINISTRATOR,
    })
    await expect(database.sql.begin((transaction) => transaction`select 1 as late`)).rejects.toMatchObject({
      code: 'CONNECTION_CLOSED',
    })
    expect(sent()).toEqual(['begin', 'select 1 as late', ...(last === 'commit' ? ['commit'] : [])])
  })

  it('is given no other statement, even if its socket stays open', async () => {
    database = await startDatabase({ max: 2, lingers: true })
    const { sql } = database
    await sql`select 1 as n`
    expect([...(await sql`select 1 as late`)]).toEqual([{ n: 1 }])
  })

  it('fails a statement whose values are in its text, which says nothing before it is executed', async () => {
    database = await startDatabase({ ends: ({ type, text }) => type === 'Q' && text.includes('late') && ADMINISTRATOR })
    await expect(database.sql`select 1 as late`.simple()).rejects.toMatchObject({ code: 'CONNECTION_CLOSED' })
    expect(sent()).toEqual(['select 1 as late'])
  })

  it('fails a statement that had begun: its commit may be on the disk', async () => {
    database = await startDatabase({ ends: ({ type, text }) => type === 'E' && text.includes('late') && ADMINISTRATOR })
    await expect(database.sql`select 1 as late`).rejects.toMatchObject({ code: 'CONNECTION_CLOSED' })
    expect(sent()).toEqual(['select 1 as late'])
  })

  it.each(['57P03', '53300'])('before it took a statement, is tried once more: %s', async (code) => {
    database = await startDatabase({ ends: ({ connection, type }) => connection === 1 && type === 'startup' && code })
    expect([...(await database.sql`select 1 as n`)]).toEqual([{ n: 1 }])
    await database.close()
    let connections = 0
    database = await startDatabase({
      ends: ({ connection }) => {
        connections = connection
        return code
      },
    })
    await expect(database.sql`select 1 as n`).rejects.toThrow()
    expect(connections).toBe(2)
  })

  it.each(['28P01', '3D000'])('because it refuses the login, is not tried again: %s', async (code) => {
    let connections = 0
    database = await startDatabase({
      ends: ({ connection }) => {
        connections = connection
        return code
      },
    })
    await expect(database.sql`select 1 as n`).rejects.toMatchObject({ code })
    expect(connections).toBe(1)
  })
})

describe('sessions of a pool some of whose connections fail', () => {
  let database: Awaited<ReturnType<typeof startDatabase>> | undefined
  afterEach(() => database?.close())

  it.each(['1', '2', '3', '12', '13', '23', '123', '1234', '12345'])(
    'are opened or refused, and the pool has all its connections afterwards: %s',
    async (failing) => {
      database = await startDatabase({
        max: 3,
        ends: ({ connection, type }) => type === 'startup' && failing.includes(String(connection)) && '53300',
      })
      const { sql } = database
      const reserveAll = () => Promise.allSettled(Array.from({ length: 3 }, () => sql.reserve()))
      for (const opened of await reserveAll()) if (opened.status === 'fulfilled') opened.value.release()
      // Those that still fail have used up what fails.
      for (const opened of await reserveAll()) if (opened.status === 'fulfilled') opened.value.release()
      const sessions = await reserveAll()
      expect(sessions.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled'])
      for (const opened of sessions) if (opened.status === 'fulfilled') opened.value.release()
    },
    5_000,
  )
})

describe('a session without limits', () => {
  let database: Awaited<ReturnType<typeof startDatabase>> | undefined
  afterEach(() => database?.close())

  it('is released, also if it cannot be given back its limits', async () => {
    database = await startDatabase({ keepsNoLimits: true })
    const { sql } = database
    expect(await withoutLimits(sql, 'it', async (session) => (await session`select 1 as n`).length)).toBe(1)
    expect([...(await sql`select 1 as n`)]).toEqual([{ n: 1 }])
  })

  it.each([
    [false, /^ended$/],
    [true, /^Behind a pooler .* role.* Run it with a URL that reaches PostgreSQL directly$/],
  ])('fails if limits end its statement, and says what to do behind a pooler: %s', async (isPooled, message) => {
    database = await startDatabase({ isPooled })
    const failed = withoutLimits(database.sql, 'it', (session) => session`select 1 as fail`)
    await expect(failed).rejects.toThrow(message)
    expect([...(await database.sql`select 1 as n`)]).toEqual([{ n: 1 }])
  })
})

describe('a database whose answers have deadlines', () => {
  let database: Awaited<ReturnType<typeof startDatabase>> | undefined
  afterEach(() => database?.close())

  it('answers as ever, and a statement is no longer waited for than that', async () => {
    database = await startDatabase({ cut: false })
    const sql = withDeadlines(database.sql, { statementMs: 1_000 })
    expect([...(await sql`select 1 as n ${sql`-- a part of it`}`)]).toEqual([{ n: 1 }])
    expect(await sql`select 1 as n`.then(([row]) => row)).toEqual({ n: 1 })
    await expect(sql`select 1 as fail`).rejects.toMatchObject({ code: '57014' })
    await expect(sql`select 1 as silence`).rejects.toThrow(DatabaseDeadlineError)
  })

  it('waits for a transaction as a whole', async () => {
    database = await startDatabase({ cut: false })
    const sql = withDeadlines(database.sql, { transactionMs: 1_000 })
    expect(await sql.begin(async (transaction) => (await transaction`select 1 as n`).length)).toBe(1)
    await expect(sql.begin((transaction) => transaction`select 1 as silence`)).rejects.toThrow(DatabaseDeadlineError)
  })
})
