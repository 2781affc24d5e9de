// Rows that are bound to their columns (bindings.md) through a database's own types, exchanged by whoever can write to the table, and migrated.
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { createClient, text } from '../../packages/sdk/src/index.js'
import { createTestService } from '../../packages/sdk/src/testing.js'
import { type ApplicationDatabase, openApplicationDatabase } from '../support/database/application-database.js'

interface Stored {
  id: string
  account: string | number
  iban: string
  note: string
}

const eaas = createClient(createTestService())
let database: ApplicationDatabase
const query: ApplicationDatabase['query'] = (...call) => database.query(...call)
let keyId: string

beforeAll(async () => {
  database = await openApplicationDatabase('bound')
  await query(
    'create table payees (id uuid, account bigint, iban text not null, note text not null, primary key (id, account))',
  )
  keyId = (await eaas.keys.create({ name: 'payees' })).id
})
beforeEach(() => query('truncate payees'))
afterAll(async () => {
  eaas.close()
  await database?.close()
})

const fields = { iban: text(), note: text() }
const payees = (more: object = {}) =>
  eaas.model({ name: 'payees', keyId, format: 'text', bind: ['id', 'account'], fields, ...more })
/** Accounts beyond 2^53 too, which drivers return as text and applications have as a bigint. */
const plain = Array.from({ length: 6 }, (_, at) => ({
  id: randomUUID(),
  account: at % 2 === 0 ? at : 2n ** 62n + BigInt(at),
  iban: `FR76 ${at}`,
  note: `n${at}`,
}))
const contents = plain.map(({ iban, note }) => ({ iban, note }))

async function insert(rows: readonly { id: string; account: number | bigint; iban: unknown; note: unknown }[]) {
  for (const { id, account, iban, note } of rows) {
    const values = [iban, note].map((value) => (typeof value === 'string' ? value : JSON.stringify(value)))
    await query('insert into payees (id, account, iban, note) values ($1, $2, $3, $4)', [id, `${account}`, ...values])
  }
}
const select = async () => (await query('select id, account, iban, note from payees order by iban')) as Stored[]
const opened = async (model: ReturnType<typeof payees>) => {
  const { ok, failed } = await model.decryptMany(await select())
  return { ok: ok.map(({ iban, note }) => ({ iban, note })).sort((a, b) => (a.iban < b.iban ? -1 : 1)), failed }
}

it('rows come back with their ids as the driver returns them, and none opens where SQL has moved it', async () => {
  await insert(await payees().encryptMany(plain))
  expect(await opened(payees())).toEqual({ ok: contents, failed: [] })
  const exchanges = [
    `update payees set iban = (select iban from payees where account = 2) where account = 0`,
    `update payees set note = iban, iban = note where account = 2`,
    `update payees set account = 5 where account = 4`,
    `update payees set id = '7d444840-9dc0-11d1-b245-5ffdce74fad2' where account > 9 and note = (select max(note) from payees where account > 9)`,
  ]
  for (const [count, exchange] of exchanges.entries()) {
    await query(exchange)
    const { ok, failed } = await opened(payees())
    expect([ok.length, failed.length]).toEqual([plain.length - count - 1, count + 1])
    expect(failed.every(({ error }) => error.code === 'E_DECRYPTION')).toBe(true)
  }
})

it('a column of plaintext, of format v1 as JSON and as text, and of bound values is migrated in place', async () => {
  const [a, b, c, d, ...rest] = plain
  if (!a || !b || !c || !d) throw new Error('rows are missing')
  const old = (format: 'full' | 'text') => eaas.model({ name: 'payees', keyId, envelope: 1, format, fields })
  await insert([
    a,
    await old('full').encrypt(b),
    await old('text').encrypt(c),
    d,
    ...(await payees().encryptMany(rest)),
  ])
  expect((await opened(payees())).failed.length).toBe(4)

  const migrating = payees({ acceptUnbound: true, acceptPlaintext: true, warn: false })
  expect(await opened(migrating)).toEqual({ ok: contents, failed: [] })
  expect(migrating.accepted).toEqual({ plaintext: 4, unbound: 4 })
  for await (const { items } of migrating.reseal(await select())) {
    for (const item of items) {
      if (item.status !== 'changed') throw new Error('a row was not migrated')
      const { id, account, iban, note } = item.row as Stored
      await query('update payees set iban = $3, note = $4 where id = $1 and account = $2', [
        id,
        `${account}`,
        iban,
        note,
      ])
    }
  }
  expect(await opened(payees())).toEqual({ ok: contents, failed: [] })
})
