// `work: 'open'` on a table in memory: what is restored, what is left alone, and that `check` writes nothing.

import { bytes, date, json, number, text } from '@eaas/sdk'
import { beforeEach, describe, expect, it } from 'vitest'
import type { Client } from '../../../sdk/src/index.js'
import { clientsOf, failure, useService } from '../../../sdk/src/test-support/clients.js'
import { backfill, inspectTable, type Row } from '../backfill.js'
import { createMemoryTable } from '../test-support/memory-table.js'

const service = useService()
const connect = clientsOf(service)
let keyId: string
let eaas: Client
const fields = { email: text({ index: 'email_index', normalize: ['lowercase'] }), note: text().nullable() }
const COLUMNS = ['email', 'note', 'email_index', 'envelope', 'row_seal']

beforeEach(() => {
  keyId = service.createKey()
  eaas = connect()
})

const modelOf = (more: object = {}) => eaas.model({ name: 'users', keyId, bind: ['id'], fields, warn: false, ...more })
const plain = Array.from({ length: 7 }, (_, at) => ({
  id: `u${at}`,
  email: `Secret${at}@x.org`,
  note: at % 2 ? null : `secret note ${at}`,
}))
const tableOf = (rows: readonly object[]) => createMemoryTable(rows as Row[], COLUMNS)
const sealedTable = async (more: object = {}) => tableOf(await modelOf(more).encryptMany(plain as never[]))
const restored = (table: ReturnType<typeof tableOf>) =>
  [...table.rows.values()].map(({ id, email, note }) => ({ id, email, note }))

describe('opening a table', () => {
  it.each(['full', 'compact', 'text'] as const)(
    'restores every value of format %s, and is done then',
    async (format) => {
      const table = await sealedTable({ format })
      const indexes = [...table.rows.values()].map(({ email_index }) => email_index)
      const report = await backfill(modelOf({ format }), table, { work: 'open', batchSize: 3 })
      expect(report).toMatchObject({ rows: 7, changed: 7, current: 0, failed: 0, contended: 0, after: 'u6' })
      expect(restored(table)).toEqual(plain)
      expect(JSON.stringify([...table.rows.values()])).not.toMatch(/ciphertext|wrapped_key|eaas\./)
      // The application searches by them until the last row is open.
      expect([...table.rows.values()].map(({ email_index }) => email_index)).toEqual(indexes)
      expect(JSON.stringify(report)).not.toMatch(/secret/i)
      const before = new Map(table.rows)
      expect(await backfill(modelOf({ format }), table, { work: 'open' })).toMatchObject({ changed: 0, current: 7 })
      expect(table.rows).toEqual(before)
    },
  )

  it('is undone by sealing: the rows open again, and are found', async () => {
    const table = await sealedTable()
    await backfill(modelOf(), table, { work: 'open' })
    expect(await backfill(modelOf({ acceptPlaintext: true }), table)).toMatchObject({ changed: 7, failed: 0 })
    expect((await inspectTable(modelOf(), table, { open: true })).found).toMatchObject({ left: 0 })
  })

  it('asks the service for nothing but unwraps', async () => {
    const table = await sealedTable()
    eaas = connect() // the client that sealed has the DEK in its cache
    service.requests.length = 0
    await backfill(modelOf(), table, { work: 'check' })
    await backfill(modelOf(), table, { work: 'open' })
    expect(new Set(service.requests.map(({ operation }) => operation))).toEqual(new Set(['unwrap']))
  })

  it('gives values of all kinds as `decrypt` does', async () => {
    const kinds = { n: number(), at: date(), raw: bytes(), any: json<unknown>(), 'deep.note': text().nullable() }
    const model = eaas.model({ name: 'kinds', keyId, bind: ['id'], fields: kinds })
    const row = {
      id: 'a',
      n: 1.5,
      at: new Date(0),
      raw: new Uint8Array([1, 2]),
      any: { x: [1] },
      deep: { note: 'hi', open: 1 },
    }
    const table = createMemoryTable([await model.encrypt(row)] as Row[], ['n', 'at', 'raw', 'any', 'deep'])
    expect(await backfill(model, table, { work: 'open' })).toMatchObject({ changed: 1 })
    expect(table.rows.get('a')).toEqual(row)
  })

  it('checks the seal of a row, and takes it away', async () => {
    const table = await sealedTable({ sealed: 'row' })
    const stored = table.rows.get('u2') as Row
    table.rows.set('u2', { ...stored, note: null })
    table.rows.set('u4', { ...table.rows.get('u4'), email: 'forged', note: 'forged' })
    const report = await backfill(modelOf({ sealed: 'row', acceptPlaintext: true }), table, { work: 'open' })
    expect(report).toMatchObject({ changed: 5, failed: 2 })
    expect(report.failures.map(({ key, field }) => [key, field])).toEqual([
      ['u2', 'row_seal'],
      ['u4', 'email'], // the row has a seal, which no plaintext fits
    ])
    expect(table.rows.get('u2')).toEqual({ ...stored, note: null })
    expect(table.rows.get('u0')).toMatchObject({ ...plain[0], row_seal: null })
  })

  it('leaves a row that does not open, or is not accepted, as it is', async () => {
    const table = await sealedTable()
    const [v1] = await eaas.model({ name: 'users', keyId, envelope: 1, fields }).encryptMany(plain.slice(5, 6))
    table.rows.set('u1', { ...table.rows.get('u1'), email: table.rows.get('u2')?.email })
    table.rows.set('u3', { ...table.rows.get('u3'), email: '{"ciphertext":"cut' })
    table.rows.set('u4', { ...table.rows.get('u4'), email: 'plain@x.org' }) // beside a note that is sealed
    table.rows.set('u5', v1 as Row)
    const before = new Map(table.rows)
    const report = await backfill(modelOf(), table, { work: 'open' })
    expect(report.failures.map(({ key, code }) => [key, code])).toEqual([
      ['u1', 'E_DECRYPTION'],
      ['u3', 'E_INVALID_INPUT'],
      ['u4', 'E_INVALID_INPUT'],
      ['u5', 'E_INVALID_INPUT'],
    ])
    for (const key of ['u1', 'u3', 'u4', 'u5']) expect(table.rows.get(key)).toEqual(before.get(key))
    const accepting = modelOf({ acceptPlaintext: true, acceptUnbound: true })
    expect(await backfill(accepting, table, { work: 'open' })).toMatchObject({ changed: 2, failed: 2 })
    expect(table.rows.get('u4')).toMatchObject({ email: 'plain@x.org', note: plain[4]?.note })
  })

  it('refuses a plaintext that the next run would take for a sealed value, and values of other libraries', async () => {
    const [, other] = await modelOf({ format: 'text' }).encryptMany(plain)
    const table = await sealedTable({ format: 'text' })
    // Text that was sealed twice, by a program without this model.
    const twice = await eaas.encrypt(String(other?.email), {
      keyId,
      context: { model: 'users', field: 'email', 'row.id': 'u0' },
    })
    table.rows.set('u0', { ...table.rows.get('u0'), email: twice })
    table.rows.set('u3', { ...plain[3], email: 'vault:v1:AAAA' })
    const before = new Map(table.rows)
    const report = await backfill(modelOf({ format: 'text' }), table, { work: 'open' })
    expect(report).toMatchObject({ changed: 5, failed: 2 })
    expect(report.failures.map(({ key, field, code }) => [key, field, code])).toEqual([
      ['u0', 'email', 'E_CONTENT'],
      ['u3', 'email', 'E_CONTENT'],
    ])
    for (const key of ['u0', 'u3']) expect(table.rows.get(key)).toBe(before.get(key))
  })

  it('takes no readers', async () => {
    const error = await failure(backfill(modelOf(), await sealedTable(), { work: 'open', read: { email: () => 'x' } }))
    expect([error.code, error.message]).toEqual(['E_INVALID_INPUT', 'read is not for open'])
  })

  it('never overwrites what the application wrote meanwhile', async () => {
    const table = await sealedTable()
    const newest = await modelOf().encrypt({ id: 'u2', email: 'newest@x.org', note: null })
    let isFirst = true
    table.onSwap = (key) => {
      if (key === 'u2' && isFirst) table.rows.set(key, newest)
      if (key === 'u2') isFirst = false
      if (key === 'u4') table.rows.delete(key)
    }
    expect(await backfill(modelOf(), table, { work: 'open' })).toMatchObject({ changed: 6, gone: 1, contended: 0 })
    expect(table.rows.get('u2')).toMatchObject({ email: 'newest@x.org', note: null, email_index: newest.email_index })
    expect(table.rows.has('u4')).toBe(false)
  })

  it('goes on behind a key, and writes nothing in a dry run', async () => {
    const table = await sealedTable()
    const before = new Map(table.rows)
    expect(await backfill(modelOf(), table, { work: 'open', dryRun: true })).toMatchObject({ changed: 7 })
    expect(table.rows).toEqual(before)
    expect(await backfill(modelOf(), table, { work: 'open', after: 'u3' })).toMatchObject({ rows: 3, changed: 3 })
    expect(table.rows.get('u3')).toBe(before.get('u3'))
  })
})

describe('checking a table', () => {
  it('opens every row, writes nothing, and counts', async () => {
    const table = await sealedTable()
    table.rows.set('u1', { ...table.rows.get('u1'), email: table.rows.get('u2')?.email })
    table.rows.set('u3', plain[3] as never)
    const before = new Map(table.rows)
    const report = await backfill(modelOf(), table, { work: 'check', batchSize: 2 })
    expect(report).toMatchObject({
      ...{ rows: 7, changed: 0, current: 6, failed: 1, after: 'u6' },
      failures: [{ key: 'u1', field: 'email', code: 'E_DECRYPTION' }],
      found: { fields: { email: { v2: 6, plaintext: 1 } } },
    })
    expect(table.rows).toEqual(before)
    expect(table.calls).not.toContain('swap')
  })
})
