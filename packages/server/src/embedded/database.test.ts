import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { DataDirectoryInUseError, LockLostError } from '@eaas/audit/node'
import postgres from 'postgres'
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest'
import { createdCluster } from '../../../../test/support/database/created-cluster.js'
import { type Compiled, compileForChildren } from '../../../../test/support/run/child-of-test.js'
import { copyFolder } from '../../../../test/support/run/copy-folder.js'
import { rounds } from '../../../../test/support/run/rounds.js'
import { type Embedded, findRunningEmbedded, openEmbedded, UnlockedServerError } from './database.js'

const KILLS = rounds(2, 20)

/** Commits one row after another, and prints a row's number only when its commit was answered. */
const COMMIT_AND_ACKNOWLEDGE = `
import postgres from 'postgres'
import { writeSync } from 'node:fs'
import { openEmbedded } from './database.js'
const { socketPath } = await openEmbedded({ dataDir: process.argv[1] })
const sql = postgres({ path: socketPath, user: 'postgres', database: 'postgres', max: 1, onnotice: () => {} })
await sql\`create table if not exists acked (i bigint primary key)\`
const [{ last }] = await sql\`select coalesce(max(i), 0) as last from acked\`
for (let i = Number(last) + 1; ; i++) {
  await sql.begin((tx) => tx\`insert into acked values (\${i})\`)
  writeSync(1, 'ack ' + i + '\\n')
}
`
const READ_THROUGH_THE_RUNNING_SERVER = `
import postgres from 'postgres'
import { findRunningEmbedded } from './database.js'
const { socketPath } = await findRunningEmbedded(process.argv[1])
const sql = postgres({ path: socketPath, user: 'postgres', database: 'postgres', max: 1 })
const [{ sum }] = await sql\`select \${20}::int + \${22}::int as sum\`
console.log('sum ' + sum)
await sql.end()
`
const DIE_IN_A_TRANSACTION = `
import postgres from 'postgres'
import { findRunningEmbedded } from './database.js'
const { socketPath } = await findRunningEmbedded(process.argv[1])
const sql = postgres({ path: socketPath, user: 'postgres', database: 'postgres', max: 1 })
await sql.begin(async (tx) => {
  await tx\`insert into kept values ('half done')\`
  console.log('in transaction')
  await new Promise(() => setInterval(() => {}, 1000))
})
`
const WRITE_A_TABLE_AND_WAIT = `
import postgres from 'postgres'
import { openEmbedded } from './database.js'
const { socketPath } = await openEmbedded({ dataDir: process.argv[1] })
const sql = postgres({ path: socketPath, user: 'postgres', database: 'postgres', max: 1 })
await sql\`create table whole (v text)\`
await sql.begin(async (tx) => {
  await tx\`create table unfinished as select 1 as v\`
  const [{ path }] = await tx\`select pg_relation_filepath('unfinished') as path\`
  console.log('file ' + path + ' of it')
  await new Promise(() => setInterval(() => {}, 1000))
})
`

describe('the embedded database', () => {
  let compiled: Compiled
  let root: string
  let dataDir: string
  let template: string
  let embedded: Embedded
  const clients: postgres.Sql[] = []

  beforeAll(async () => {
    compiled = compileForChildren(import.meta.url)
    root = mkdtempSync(join(tmpdir(), 'eaas-embedded-'))
    template = await createdCluster(inject('runDir'))
    dataDir = copyTemplate('data')
    embedded = await openEmbedded({ dataDir })
    await client()`create table kept (v text)`
  })
  afterEach(async () => {
    await Promise.all(clients.splice(0).map((sql) => sql.end({ timeout: 1 })))
  })
  afterAll(async () => {
    await embedded.close()
    compiled.remove()
    rmSync(root, { recursive: true, force: true })
  })

  /**
   * A data directory with a database that nobody has opened. Creating each would take most of this file's
   * time.
   */
  function copyTemplate(name: string): string {
    const copy = join(root, name)
    copyFolder(join(template, 'postgres'), join(copy, 'postgres'))
    return copy
  }

  function client(): postgres.Sql {
    const options = { user: 'postgres', database: 'postgres', max: 1, onnotice: () => undefined }
    const sql = postgres({ ...options, path: embedded.socketPath } as postgres.Options<Record<string, never>>)
    clients.push(sql as unknown as postgres.Sql)
    return sql as unknown as postgres.Sql
  }

  it('is not fresh where there is a database, and its commits reach the disk', async () => {
    expect(embedded).toMatchObject({ fresh: false, durability: 'fsync' })
  })

  it('is reachable for its owner only', () => {
    expect(statSync(dataDir).mode & 0o777).toBe(0o700)
    expect(statSync(embedded.socketPath).mode & 0o777).toBe(0o600)
  })

  it('is refused to a second opener', async () => {
    await expect(openEmbedded({ dataDir })).rejects.toThrow(DataDirectoryInUseError)
  })

  it('serves the values that postgres.js speaks: bytes, arrays, json, text beyond ASCII', async () => {
    const sql = client()
    const bytes = Buffer.from([0, 1, 255])
    for (let round = 0; round < 2; round++) {
      const [row] = await sql`
        select ${bytes}::bytea as bytes, ${['a,"b', 'c']}::text[] as list, ${sql.json({ a: [1] })}::jsonb as json, ${'π😀'} as text`
      expect(row).toEqual({ bytes, list: ['a,"b', 'c'], json: { a: [1] }, text: 'π😀' })
    }
  })

  it('serves messages larger than a read of the socket', async () => {
    const large = 'x'.repeat(1_000_000)
    const [row] = await client()`select ${large}::text as large`
    expect(row?.large).toBe(large)
  })

  it('rolls back what throws, to a savepoint or to the start', async () => {
    const sql = client()
    await sql.begin(async (tx) => {
      await tx`insert into kept values ('outer')`
      await tx.savepoint((inner) => inner`insert into missing values (1)`).catch(() => undefined)
    })
    await sql
      .begin(async (tx) => {
        await tx`insert into kept values ('never')`
        throw new Error('changed my mind')
      })
      .catch(() => undefined)
    const rows = await sql`select v from kept where v in ('outer', 'never')`
    expect(rows.map(({ v }) => v)).toEqual(['outer'])
  })

  it('answers each client with its own rows while others pipeline', async () => {
    const rounds = ['a', 'b', 'c'].map(async (name) => {
      const sql = client()
      const asked = Array.from({ length: 200 }, (_, i) => `${name}${i} ${'.'.repeat(2_000)}`)
      const answers = await Promise.all(asked.map((text) => sql`select ${text}::text as text`))
      expect(answers.map(([row]) => row?.text)).toEqual(asked)
    })
    await Promise.all(rounds)
  })

  it('does not let the faulty statements of one client disturb another', async () => {
    const faulty = client()
    const sound = client()
    const errors = Array.from({ length: 100 }, (_, i) => faulty`select ${i}::int from missing`.catch((e) => e.code))
    const answers = Array.from({ length: 100 }, (_, i) => sound`select ${i}::int as i, ${String(i)} as text`)
    expect(new Set(await Promise.all(errors))).toEqual(new Set(['42P01']))
    expect((await Promise.all(answers)).map(([row]) => row?.i)).toEqual(Array.from({ length: 100 }, (_, i) => i))
  })

  it('does not run the statement of one client within the unfinished extended query of another', async () => {
    const second = client()
    await second`select 1`
    const half = connect(embedded.socketPath)
    const answered = (type: string) =>
      new Promise<void>((resolve) => {
        half.on('data', (bytes) => {
          if (bytes.includes(type)) resolve()
        })
      })
    half.write(frame('', Buffer.concat([Buffer.from([0, 3, 0, 0]), Buffer.from('user\0postgres\0\0')])))
    await answered('Z')
    half.write(Buffer.concat([frame('P', Buffer.from('\0select * from missing\0\0\0')), frame('H', Buffer.alloc(0))]))
    await answered('E')

    // Until the first one's Sync, PostgreSQL skips whatever it is sent.
    const other = second`select 42 as n`.execute()
    await new Promise((resolve) => setTimeout(resolve, 100))
    half.write(frame('S', Buffer.alloc(0)))
    expect(await other).toEqual([{ n: 42 }])
    half.destroy()
  })

  it('makes one client wait for the transaction of another, and see all of it', async () => {
    const [first, second] = [client(), client()]
    let seen: Promise<postgres.RowList<postgres.Row[]>> | undefined
    await first.begin(async (tx) => {
      await tx`insert into kept values ('one')`
      seen = second`select count(*)::int as n from kept where v in ('one', 'two')`.execute()
      await new Promise((resolve) => setTimeout(resolve, 50))
      await tx`insert into kept values ('two')`
    })
    expect((await seen)?.[0]?.n).toBe(2)
  })

  it('refuses the client beyond its limit with a reason', async () => {
    const connected = Array.from({ length: 16 }, () => client())
    await Promise.all(connected.map((sql) => sql`select 1`))
    await expect(client()`select 1`).rejects.toMatchObject({ code: '53300' })
  })

  it('serves a command in another process beside the server', async () => {
    const { socketPath, durability } = embedded
    expect(await findRunningEmbedded(dataDir)).toEqual({ pid: process.pid, socketPath, durability })
    const command = compiled.start(READ_THROUGH_THE_RUNNING_SERVER, dataDir)
    expect(await command.ended).toBe(0)
    expect(command.output()).toBe('sum 42\n')
  })

  it('rolls back the transaction of a client that is killed, and serves the others', async () => {
    const command = compiled.start(DIE_IN_A_TRANSACTION, dataDir)
    await command.printed('in transaction')
    const waiting = client()`select count(*)::int as n from kept where v = 'half done'`.execute()
    command.process.kill('SIGKILL')
    expect((await waiting)[0]?.n).toBe(0)
  })

  it('removes the file of a table that was being written when the process was killed, and no other', async () => {
    const other = copyTemplate('killed')
    const writer = compiled.start(WRITE_A_TABLE_AND_WAIT, other)
    await writer.printed(' of it')
    writer.process.kill('SIGKILL')
    await writer.ended
    const [, path = ''] = /file (\S+) of it/.exec(writer.output()) ?? []
    const isNoMap = (name: string) => !name.includes('_') // PostgreSQL makes its maps when it needs them
    const filesOf = () => readdirSync(join(other, 'postgres', path, '..')).filter(isNoMap)
    const before = filesOf()
    expect(before).toContain(basename(path))
    await (await openEmbedded({ dataDir: other })).close()
    expect(filesOf().sort()).toEqual(before.filter((name) => name !== basename(path)).sort())
    await (await openEmbedded({ dataDir: other })).close()
  })

  it('drops the prepared statements of a client that left', async () => {
    const sql = client()
    await sql`select ${1}::int as prepared_by_one_that_leaves`
    await sql.end()
    const [row] = await client()`
      select count(*)::int as n from pg_prepared_statements where statement like '%' || ${'by_one_that'} || '_leaves'`
    expect(row?.n).toBe(0)
  })

  it('is found by nobody where nobody serves, and such a look changes nothing', async () => {
    const nowhere = join(root, 'nowhere')
    expect(await findRunningEmbedded(nowhere)).toBeUndefined()
    expect(existsSync(nowhere)).toBe(false)
  })

  it('is not opened while a process without its lock answers', async () => {
    const other = copyTemplate('unlocked')
    const server = createServer().listen(join(other, '.s.PGSQL.5432'))
    await once(server, 'listening')
    expect(await findRunningEmbedded(other)).toBeUndefined()
    await expect(openEmbedded({ dataDir: other })).rejects.toThrow(UnlockedServerError)
    await promisify(server.close.bind(server))()
    await (await openEmbedded({ dataDir: other })).close()
  })

  it('serves nobody from when its lock is removed, and does not write what it had not written', async () => {
    const other = copyTemplate('lost')
    let onFailure: (error: Error) => void = () => undefined
    const failed = new Promise<Error>((resolve) => {
      onFailure = resolve
    })
    const opened = await openEmbedded({ dataDir: other, onFailure })
    const sql = postgres({ path: opened.socketPath, user: 'postgres', database: 'postgres', max: 1 } as object)
    const committing = sql.begin(async (transaction) => {
      await transaction`create table late (n integer)`
      rmSync(join(other, 'server.lock.1'))
      await failed
    })
    await expect(committing).rejects.toThrow(/CONNECTION_CLOSED|ECONNRESET/)
    expect(await failed).toBeInstanceOf(LockLostError)
    await expect(sql`select 1`).rejects.toMatchObject({ code: '57P02' })
    await sql.end()
    const before = readFileSync(join(other, 'postgres', 'global', 'pg_control'))
    await expect(opened.close()).rejects.toThrow(LockLostError)
    expect(readFileSync(join(other, 'postgres', 'global', 'pg_control'))).toEqual(before)
  })

  it('commits nothing after its lock was removed, however soon', async () => {
    const other = copyTemplate('lost-while-busy')
    const failures: Error[] = []
    const opened = await openEmbedded({ dataDir: other, onFailure: (error) => void failures.push(error) })
    const sql = postgres({ path: opened.socketPath, user: 'postgres', database: 'postgres', max: 1 } as object)
    const committing = sql.begin(async (transaction) => {
      await transaction`create table late (n integer)`
      rmSync(join(other, 'server.lock.1'))
      await new Promise((resolve) => setTimeout(resolve, 30))
    })
    await expect(committing).rejects.toThrow(/CONNECTION_CLOSED|ECONNRESET/)
    expect(failures).toEqual([expect.any(LockLostError)])
    await sql.end()
    await expect(opened.close()).rejects.toThrow(LockLostError)
    const again = await openEmbedded({ dataDir: other })
    const reader = postgres({ path: again.socketPath, user: 'postgres', database: 'postgres', max: 1 } as object)
    expect(await reader`select to_regclass('late') as late`).toEqual([{ late: null }])
    await reader.end()
    await again.close()
  })

  it('keeps what was committed, and rolls back what is open, when it closes', async () => {
    const other = copyTemplate('closing')
    const first = await openEmbedded({ dataDir: other })
    const sql = postgres({ path: first.socketPath, user: 'postgres', database: 'postgres', max: 1 } as object)
    await sql`create table t as select 1 as v`
    const open = sql.begin(async (tx) => {
      await tx`insert into t values (2)`
      await new Promise(() => undefined) // never ends
    })
    const lost = expect(open).rejects.toThrow()
    await new Promise((resolve) => setTimeout(resolve, 100))
    await first.close()
    await lost
    expect(await findRunningEmbedded(other)).toBeUndefined()

    const second = await openEmbedded({ dataDir: other })
    expect(second.fresh).toBe(false)
    const again = postgres({ path: second.socketPath, user: 'postgres', database: 'postgres', max: 1 } as object)
    expect(await again`select v from t`).toEqual([{ v: 1 }])
    await again.end()
    await second.close()
  })

  it('is created where there is none, in a directory too deep for the path of a unix socket too', async () => {
    const deep = join(root, 'd'.repeat(60), 'e'.repeat(60))
    // An unfinished creation that was killed: it must not be taken for a database, nor stay.
    mkdirSync(join(deep, 'postgres.creating'), { recursive: true })
    const opened = await openEmbedded({ dataDir: deep })
    expect(opened).toMatchObject({ fresh: true, durability: 'fsync' })
    const command = compiled.start(READ_THROUGH_THE_RUNNING_SERVER, deep)
    await command.ended
    expect(command.output()).toBe('sum 42\n')
    expect(readdirSync(deep)).toContain('.s.PGSQL.5432')
    expect(readdirSync(deep)).not.toContain('postgres.creating')
    const sql = postgres({ path: opened.socketPath, user: 'postgres', database: 'postgres', max: 1 } as object)
    // The maintenance vacuums one database, and PostgreSQL stops writing once any other is 2^31 transactions old.
    expect(await sql`select datname from pg_database`).toEqual([{ datname: 'postgres' }])
    await sql.end()
    await opened.close()
  })

  it(`loses no acknowledged commit to kill -9, ${KILLS} times over`, async () => {
    const killed = copyTemplate('killed')
    let acked = 0
    for (let kill = 0; kill < KILLS; kill++) {
      const server = compiled.start(COMMIT_AND_ACKNOWLEDGE, killed)
      await server.printed('ack ')
      await new Promise((resolve) => setTimeout(resolve, 50 + Math.random() * 400))
      server.process.kill('SIGKILL')
      await server.ended
      acked = Math.max(
        ...(server
          .output()
          .match(/(?<=ack )\d+(?=\n)/g)
          ?.map(Number) ?? []),
      )

      const reopened = await openEmbedded({ dataDir: killed })
      const sql = postgres({ path: reopened.socketPath, user: 'postgres', database: 'postgres', max: 1 } as object)
      const [row] = await sql`select count(*)::int as n, max(i)::int as last from acked`
      // At most the one commit whose answer was under way is there without its acknowledgement.
      expect(row?.n).toBe(row?.last)
      expect([acked, acked + 1]).toContain(row?.n)
      await sql.end()
      await reopened.close()
    }
  })
})

/** A message of PostgreSQL's protocol: type, length of itself and the body, body. */
function frame(type: string, body: Buffer): Buffer {
  const length = Buffer.alloc(4)
  length.writeInt32BE(body.length + 4)
  return Buffer.concat([Buffer.from(type), length, body])
}
