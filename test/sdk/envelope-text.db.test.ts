// The text of an envelope (envelope-text.md) through a text column, its primary key and unique index, and a URL.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createClient, text, toText } from '../../packages/sdk/src/index.js'
import { createTestService } from '../../packages/sdk/src/testing.js'
import { type ApplicationDatabase, openApplicationDatabase } from '../support/database/application-database.js'

const eaas = createClient(createTestService())
let database: ApplicationDatabase
const query: ApplicationDatabase['query'] = (...call) => database.query(...call)

beforeAll(async () => {
  database = await openApplicationDatabase('text')
  await query('create table people (phone text primary key, email text not null, email_index text not null unique)')
})
afterAll(async () => {
  eaas.close()
  await database?.close()
})

describe('the text of an envelope', () => {
  it('comes back from a text column as it was, finds its row, and is refused twice by a unique index', async () => {
    const { id: keyId } = await eaas.keys.create({ name: 'people' })
    const people = eaas.model({
      name: 'people',
      keyId,
      bind: false,
      format: 'text',
      fields: { phone: text(), email: text({ index: 'email_index' }) },
    })
    const plain = Array.from({ length: 20 }, (_, at) => ({ phone: `+33 ${at} é🔐`, email: `${at}@example.org` }))
    for (const { phone, email, email_index } of await people.encryptMany(plain)) {
      await query('insert into people (phone, email, email_index) values ($1, $2, $3)', [phone, email, email_index])
    }
    const rows = (await query('select phone, email, email_index from people')) as {
      phone: string
      email: string
      email_index: string
    }[]
    const { ok, failed } = await people.decryptMany(rows)
    expect(failed).toEqual([])
    expect(ok.map(({ email }) => email).sort()).toEqual(plain.map(({ email }) => email).sort())
    const [first] = rows
    if (!first) throw new Error('no row')
    expect(await query('select email from people where phone = $1', [first.phone])).toEqual([{ email: first.email }])
    await expect(
      query('insert into people (phone, email, email_index) values ($1, $2, $3)', [first.phone, 'x', 'y']),
    ).rejects.toThrow(/unique/)
  })

  it('comes back from the path and the query of a URL', async () => {
    const { id: keyId } = await eaas.keys.create({ name: 'links' })
    const envelope = toText(await eaas.encrypt('user 7', { keyId, context: { purpose: 'link' } }))
    const server = createServer((request, response) => {
      const url = new URL(request.url ?? '', 'http://localhost')
      response.end(JSON.stringify([url.pathname.slice(1), url.searchParams.get('q')]))
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    try {
      const { port } = server.address() as AddressInfo
      const answer = await fetch(`http://127.0.0.1:${port}/${envelope}?q=${envelope}`)
      const [path, parameter] = (await answer.json()) as string[]
      expect([path, parameter]).toEqual([envelope, envelope])
      expect(await eaas.decryptText(path ?? '', { context: { purpose: 'link' } })).toBe('user 7')
    } finally {
      server.close()
    }
  })
})
