// The driver against a PostgreSQL that fails in the middle of an answer: no query sees anything of another one's.
import { createServer, type Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { connect, type Sql } from './db.js'
import { DatabaseDeadlineError, withDeadlines } from './deadline.js'

const INT4 = 23
const TEXT = 25
const BOOL = 16

/** Answers every query with one row, { n: 1 }; one that contains `fail` with that row and then an error, `silence` with nothing. */
async function startDatabase({ cut }: { cut: boolean }): Promise<{
  sql: Sql
  /** the statements, in order */
  statements: string[]
  close: () => Promise<void>
}> {
  const statements: string[] = []
  const server = createServer((socket) => {
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
          text = received.toString('utf8', 5, length)
          statements.push(text.replace(/\0/g, '').trim())
        }
        received = received.subarray(length)
        started = true
        answer(socket, type, text)
      }
    })
  })

  function answer(socket: Socket, type: string, text: string): void {
    if (text.includes('silence')) return
    if (type === 'startup') socket.write(Buffer.concat([message('R', int(0)), readyForQuery()]))
    else if (type === 'P') socket.write(message('1'))
    else if (type === 'B') socket.write(message('2'))
    else if (type === 'S') socket.write(readyForQuery())
    else if (text.includes('pg_is_in_recovery')) socket.write(stateOfAPrimary())
    else if (type === 'Q') socket.write(Buffer.concat([commandComplete(tagOf(text)), readyForQuery()]))
    else if (type === 'D') socket.write(Buffer.concat([message('t', short(0)), rowDescription()]))
    else if (type === 'E') {
      socket.write(dataRow())
      if (!text.includes('fail')) return void socket.write(commandComplete())
      socket.write(errorResponse(cut ? '57P01' : '57014'))
      if (cut) socket.end()
    }
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  const sql = connect({ url: `postgres://user@127.0.0.1:${port}/database`, max: 1 })
  return {
    sql,
    statements,
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

const readyForQuery = () => message('Z', Buffer.from('I'))
const commandComplete = (tag = 'SELECT 1') => message('C', Buffer.from(`${tag}\0`))
/** Of BEGIN, COMMIT and ROLLBACK. */
const tagOf = (statement: string) => (/^[a-z]+/.exec(statement)?.[0] ?? '').toUpperCase()
const dataRow = () => message('D', short(1), int(1), Buffer.from('1'))
const errorResponse = (code: string) => message('E', Buffer.from(`SFATAL\0C${code}\0Mended\0\0`))
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
