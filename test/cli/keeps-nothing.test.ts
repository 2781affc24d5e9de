// What a server is sent leaves no trace: neither in its database nor in its log nor in its heap, in envelope mode and in server mode,
// served or refused.
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { TestDatabase } from '../support/database/database.js'
import { databaseWithTenant } from '../support/database/filled-database.js'
import { runCommand } from '../support/service/command-host.js'
import { connectTo, type EaasProcess, startEaas } from '../support/service/eaas-process.js'
import { heapOf, WITH_HEAP } from '../support/service/heap.js'

const TIMEOUT_MS = 120_000

let database: TestDatabase
let server: EaasProcess
let secret: string

beforeAll(async () => {
  const filled = await databaseWithTenant()
  database = filled.database
  secret = filled.api_key.secret
  const opened = await runCommand(['tenant', 'set', 'acme', '--envelope-only', 'false'], { database })
  expect([opened.code, opened.stderr]).toEqual([0, ''])
  server = await startEaas({ database, environment: { EAAS_LOG_LEVEL: 'debug', ...WITH_HEAP } })
}, TIMEOUT_MS)
afterAll(() => server?.stop())

async function send(path: string, body: unknown) {
  const response = await fetch(server.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
  return { status: response.status, body: await response.json() }
}

/** Every row of every table, as text: bytes are in hexadecimal. */
async function readDatabase(): Promise<string> {
  const sql = connectTo(database)
  try {
    const tables = await sql`select table_name from information_schema.tables where table_schema = 'public'`
    const rows = []
    for (const { table_name } of tables) rows.push(await sql`select t::text as line from ${sql(table_name)} as t`)
    return rows
      .flat()
      .map(({ line }) => line)
      .join('\n')
  } finally {
    await sql.end()
  }
}

/** A value as it could be written: as it is, in hexadecimal, and in base64, of which the end depends on what follows. */
const spellings = (bytes: Buffer) => [
  bytes.toString('latin1'),
  bytes.toString('hex'),
  bytes.toString('base64').slice(0, -3),
  bytes.toString('base64url').slice(0, -3),
]

describe('a server', { timeout: TIMEOUT_MS }, () => {
  it('keeps no data key, no value, no ciphertext and no API key that it is sent, in its database, its log or its heap', async () => {
    const key_id = (await send('/v1/keys', { name: 'the name of a key' })).body.id as string
    const deks = [randomBytes(32), randomBytes(32), randomBytes(32)]
    const [dek = '', batched = '', refused = ''] = deks.map((bytes) => bytes.toString('base64'))
    const plaintext = `what is encrypted ${randomBytes(9).toString('hex')}`
    const value = `what is indexed ${randomBytes(9).toString('hex')}`

    const { wrapped_key } = (await send(`/v1/keys/${key_id}/wrap`, { dek })).body
    const bundle = (await send('/v1/encrypt', { key_id, plaintext })).body
    const hash = (await send('/v1/hash', { key_id, value })).body.hash as string
    const altered = `${wrapped_key.slice(0, -8)}AAAAAAAA`
    const operations = [
      { op: 'wrap', key_id, dek: batched },
      { op: 'unwrap', key_id, wrapped_key },
      { op: 'hash', key_id, value },
      { op: 'hash', key_id, value, more: plaintext },
    ]
    const statuses = [
      await send(`/v1/keys/${key_id}/unwrap`, { wrapped_key }),
      await send(`/v1/keys/${key_id}/rewrap`, { wrapped_key }),
      await send('/v1/decrypt', { key_id, ...bundle }),
      await send('/v1/batch', { operations }),
      await send(`/v1/keys/${key_id}/unwrap`, { wrapped_key: altered }),
      await send(`/v1/keys/${key_id}/wrap`, { dek: refused.slice(4) }),
      await send(`/v1/keys/${key_id}/wrap`, { dek: refused, [plaintext]: value }),
      await send(`/v1/keys/${key_id}/wrap`, `{"dek":"${refused}"`),
      await send('/v1/encrypt', { key_id, plaintext, encoding: value }),
      await send('/v1/hash', { key_id: plaintext, value }),
      await send(`/v1/keys?name=${encodeURIComponent(plaintext)}`, { name: value.repeat(99) }),
    ].map(({ status }) => status)
    expect(statuses).toEqual([200, 200, 200, 200, 403, 400, 200, 400, 400, 404, 400])

    const sent = {
      'a data key': deks.flatMap(spellings),
      'a plaintext': spellings(Buffer.from(plaintext)),
      'a ciphertext': spellings(Buffer.from(bundle.ciphertext, 'base64')),
      'a value to hash': spellings(Buffer.from(value)),
      'a hash': [hash],
      'an API key': spellings(Buffer.from(secret)),
    }
    const found = (where: string) =>
      Object.entries(sent).flatMap(([what, all]) => (all.some((spelling) => where.includes(spelling)) ? [what] : []))
    expect(found(JSON.stringify([wrapped_key, bundle]) + batched + value)).toEqual([
      'a data key',
      'a ciphertext',
      'a value to hash',
    ])
    const rows = await readDatabase()
    expect(rows).toContain('the name of a key')
    expect(found(rows)).toEqual([])
    // While the connections of the calls are still open.
    expect(found((await heapOf(server)).toString('latin1'))).toEqual([])
    const { stderr, stdout } = await server.stop()
    expect(stderr).toContain('"msg":"request"')
    expect(found(stderr + stdout)).toEqual([])
  })
})
