// A backfill on a table in memory: what each work writes and leaves alone, what is counted, and how it goes
// on.

import { createClient, date, json, NetworkError, number, text } from '@eaas/sdk'
import { createTestService } from '@eaas/sdk/testing'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import type { Client } from '../../../sdk/src/index.js'
import { clientsOf, failure, useService } from '../../../sdk/src/test-support/clients.js'
import { problem, send } from '../../../sdk/src/test-support/service.js'
import { backfill, DatabaseError, inspectTable, type Row } from '../backfill.js'
import { createMemoryTable } from '../test-support/memory-table.js'

const service = useService()
const connect = clientsOf(service)
let keyId: string
let eaas: Client
const fields = { email: text({ index: 'email_index', normalize: ['lowercase'] }), note: text().nullable() }
const COLUMNS = ['email', 'note', 'email_index', 'envelope']

beforeEach(() => {
  keyId = service.createKey()
  eaas = connect()
})

const modelOf = (more: object = {}) => eaas.model({ name: 'users', keyId, bind: ['id'], fields, warn: false, ...more })
const migrating = (more: object = {}) => modelOf({ acceptPlaintext: true, acceptUnbound: true, ...more })
const plain = Array.from({ length: 7 }, (_, at) => ({
  id: `u${at}`,
  email: `Secret${at}@x.org`,
  note: at % 2 ? null : `secret note ${at}`,
}))
const tableOf = (rows: readonly object[], more: string[] = []) =>
  createMemoryTable(rows as Record<string, unknown>[], [...COLUMNS, ...more])
const opened = async (table: ReturnType<typeof tableOf>, model = modelOf()) => {
  const { ok, failed } = await model.decryptMany([...table.rows.values()] as never[])
  return { ok: ok.map(({ id, email, note }: Record<string, unknown>) => ({ id, email, note })), failed }
}

describe('sealing a table', () => {
  it('tells the operator what to do about plaintext that begins like an envelope', async () => {
    const { note: other } = await modelOf({ format: 'text' }).encrypt({ id: 'u9', email: 'x@y.org', note: 'x' })
    const forged = ['eaas.1.AAAA', 'eaas.2.AAAA', '{"ciphertext":"a"}', other]
    const rows = forged.map((note, at) => ({ id: `u${at}`, email: `Secret${at}@x.org`, note }))
    const table = tableOf(rows)
    const before = structuredClone([...table.rows.values()])
    const { failed, failures } = await backfill(migrating(), table)
    expect(failed).toBe(forged.length)
    for (const [at, one] of failures.entries()) {
      expect(one).toMatchObject({ key: `u${at}`, field: 'note' })
      expect(one.message).toMatch(/If a user entered it as plain text, change or clear it in this row/)
      expect(one.message).not.toContain('encrypt()')
    }
    expect([...table.rows.values()]).toEqual(before)
  })

  it('seals and indexes every row, in pages, and tells what was found and done', async () => {
    const table = tableOf(plain)
    const seen: unknown[] = []
    const report = await backfill(migrating(), table, { batchSize: 3, onProgress: (one) => seen.push(one) })
    expect(await opened(table)).toEqual({ ok: plain, failed: [] })
    const { email_index } = await modelOf().index({ email: 'SECRET3@x.org' })
    expect(table.rows.get('u3')).toMatchObject({ email_index })
    expect(report).toMatchObject({ rows: 7, changed: 7, current: 0, failed: 0, contended: 0, gone: 0, after: 'u6' })
    expect(report.found).toMatchObject({
      rows: 7,
      left: 7,
      fields: { email: { plaintext: 7, v2: 0 }, note: { plaintext: 4, empty: 3 } },
      indexes: { email_index: { missing: 7 } },
    })
    expect(seen).toMatchObject([
      { rows: 3, changed: 3, total: 7, after: 'u2' },
      { rows: 6, after: 'u5' },
      { rows: 7, after: 'u6', secondsLeft: 0 },
      { rows: 7, after: 'u6' },
    ])
    expect(JSON.stringify([seen, report])).not.toMatch(/secret/i)
  })

  it('writes compact rows into columns of type text, and reads them', async () => {
    const table = tableOf(plain)
    const isObject = (value: unknown) => typeof value === 'object' && value !== null
    const columnsAsText = () => {
      for (const row of table.rows.values()) {
        for (const name of COLUMNS) if (isObject(row[name])) row[name] = JSON.stringify(row[name])
      }
    }
    await backfill(migrating({ format: 'compact' }), table)
    columnsAsText()
    expect(await opened(table)).toEqual({ ok: plain, failed: [] })
    const { found } = await inspectTable(migrating(), table, { open: true })
    expect(found).toMatchObject({ left: 0, fields: { email: { v2: 7, plaintext: 0 }, note: { v2: 4, plaintext: 0 } } })
    expect(found.indexes.email_index).toMatchObject({ present: 7, wrong: 0 })
    expect(await backfill(migrating({ format: 'compact' }), table)).toMatchObject({ changed: 0, current: 7 })
    await eaas.keys.rotate(keyId)
    expect(await backfill(modelOf(), table, { work: 'rewrap' })).toMatchObject({ changed: 7, failed: 0 })
    expect(await backfill(migrating({ format: 'text' }), table, { work: 'reseal' })).toMatchObject({ changed: 7 })
    expect(await opened(table)).toEqual({ ok: plain, failed: [] })
  })

  it('changes nothing when it is run again, and writes nothing', async () => {
    const table = tableOf(plain)
    await backfill(migrating(), table)
    const before = new Map(table.rows)
    expect(await backfill(modelOf(), table)).toMatchObject({ changed: 0, current: 7, failed: 0, found: { left: 0 } })
    expect(table.rows).toEqual(before)
    expect(table.calls.filter((call) => call === 'swap')).toHaveLength(1)
  })

  it('binds format v1, and moves values of a former key', async () => {
    const former = service.createKey()
    const v1 = await eaas.model({ name: 'users', keyId, envelope: 1, fields }).encryptMany(plain.slice(0, 2))
    const old = await modelOf({ keyId: former }).encryptMany(plain.slice(2, 4))
    const table = tableOf([...v1, ...old, ...(await modelOf().encryptMany(plain.slice(4)))])
    const report = await backfill(migrating({ formerKeyIds: [former] }), table)
    expect(report).toMatchObject({ changed: 4, current: 3, failed: 0 })
    expect(report.found.fields).toMatchObject({ email: { v1: 2, v2: 5, formerKey: 2, plaintext: 0 } })
    expect(await opened(table)).toEqual({ ok: plain, failed: [] })
  })

  it.each(['full', 'compact', 'text'] as const)('writes the form of the model: %s', async (format) => {
    const table = tableOf(plain)
    await backfill(migrating({ format }), table)
    expect(await opened(table)).toEqual({ ok: plain, failed: [] })
    const row = table.rows.get('u0') as Record<string, unknown>
    expect([typeof row.email, row.envelope === null || row.envelope === undefined]).toEqual([
      format === 'text' ? 'string' : 'object',
      format !== 'compact',
    ])
  })

  it('takes no model whose rows each have a key of their own', async () => {
    const people = eaas.model({ name: 'people', keyId: (row) => row.key_id, bind: false, fields: { note: text() } })
    const table = tableOf(plain)
    for (const run of [backfill(people, table), inspectTable(people, table)]) {
      const error = await failure(run)
      expect([error.code, error.message]).toEqual(['E_INVALID_INPUT', expect.stringContaining('one key')])
    }
    expect(service.requests).toEqual([])
  })

  it('accepts only what the model accepts', async () => {
    const v1 = await eaas.model({ name: 'users', keyId, envelope: 1, fields }).encryptMany(plain.slice(0, 1))
    const table = tableOf([...v1, ...plain.slice(1)])
    const before = new Map(table.rows)
    const strict = await backfill(modelOf(), table)
    expect(strict).toMatchObject({ changed: 0, failed: 7 })
    expect(strict.failures[0]).toMatchObject({ key: 'u0', field: 'email', code: 'E_INVALID_INPUT' })
    expect(strict.failures[0]?.message).toMatch(/acceptUnbound/)
    expect(strict.failures[1]?.message).toMatch(/it is not encrypted.*acceptPlaintext/)
    expect(table.rows).toEqual(before)
  })

  it('leaves a row that fails as it is, says why without a value, and seals the others', async () => {
    const row = await modelOf().encrypt({ id: 'u1', email: 'secret', note: 'x' })
    const damaged = [
      { ...plain[0], email: 7 },
      { ...row, id: 'u2' },
      { ...row, id: 'u3', email: { ...row.email, iv: '' } },
      { ...plain[4], id: 'u4', email_index: 'secret of the application' },
      { ...plain[5], id: 'u5', email: '{"ciphertext":"cut' },
    ]
    const table = tableOf([...damaged, ...plain.slice(6)])
    const before = new Map(table.rows)
    const report = await backfill(migrating(), table)
    expect(report).toMatchObject({ changed: 1, current: 1, failed: 4 })
    expect(report.failures.map(({ key }) => key)).toEqual(['u0', 'u3', 'u4', 'u5'])
    expect(JSON.stringify(report)).not.toMatch(/secret/i)
    for (const { id } of damaged as { id: string }[]) expect(table.rows.get(id)).toEqual(before.get(id))
    // What was moved is sealed: only opening it tells.
    expect(await inspectTable(modelOf(), table, { open: true })).toMatchObject({ failed: 3, found: { left: 5 } })
  })

  it.each(['E_STATE', 'E_KEY_DESTROYED', 'E_VERSION_DESTROYED', 'E_VERSION_TOO_OLD'])(
    'leaves rows of a former key that is refused with %s',
    async (code) => {
      const former = service.createKey()
      const old = await modelOf({ keyId: former }).encryptMany(plain.slice(0, 2))
      service.refused.set(former, problem(409, 'Conflict', code))
      const table = tableOf([...old, ...plain.slice(2)])
      eaas = connect() // the client that sealed has the DEK in its cache
      const report = await backfill(migrating({ formerKeyIds: [former] }), table)
      expect(report).toMatchObject({ changed: 5, failed: 2, failures: [{ key: 'u0', code: 'E_API' }, { key: 'u1' }] })
      expect([...table.rows.values()].slice(0, 2)).toEqual(old)
    },
  )

  it('ends at a failure of the service, without counting rows as failed, and has written what it reported', async () => {
    const table = tableOf(plain)
    const seen: (string | undefined)[] = []
    const onProgress = ({ after }: { after: string | undefined }) => {
      seen.push(after)
      service.intercept = (_, response) => {
        send(response, problem(403, 'Forbidden', 'E_MISSING_PERMISSION'))
        return true
      }
    }
    expect(await failure(backfill(migrating({ dek: 'call' }), table, { batchSize: 2, onProgress }))).toMatchObject({
      code: 'E_API',
    })
    expect(seen).toEqual(['u1'])
    service.intercept = undefined
    expect((await inspectTable(modelOf(), table)).found.fields.email).toMatchObject({ v2: 2, plaintext: 5 })
  })
})

describe('a dry run', () => {
  it('tells what would be done, and what would fail, without writing or sealing', async () => {
    const table = tableOf([...plain.slice(0, 5), { ...plain[5], email: 7 }])
    const before = new Map(table.rows)
    const report = await backfill(migrating(), table, { dryRun: true })
    expect(report).toMatchObject({ changed: 5, failed: 1, found: { fields: { email: { plaintext: 6 } } } })
    expect(table.rows).toEqual(before)
    expect(table.calls).not.toContain('swap')
    expect(report.after).toBeUndefined() // a run that went on there would do nothing
    expect(service.requests.map(({ operation }) => operation)).toEqual(['get'])
  })
})

describe('an index', () => {
  it('is added to sealed rows without a new ciphertext', async () => {
    const before = await modelOf({ fields: { email: text(), note: fields.note } }).encryptMany(plain)
    const table = tableOf(before)
    expect((await inspectTable(modelOf(), table)).found).toMatchObject({
      left: 7,
      indexes: { email_index: { missing: 7 } },
    })
    expect(await backfill(modelOf(), table)).toMatchObject({ changed: 7, failed: 0 })
    expect(await opened(table)).toEqual({ ok: plain, failed: [] })
    for (const row of before) expect(table.rows.get(row.id)?.email).toBe(row.email)
    expect(await inspectTable(modelOf(), table, { open: true })).toMatchObject({ failed: 0, found: { left: 0 } })
  })

  it('that is changed is made anew, and only where it differs', async () => {
    const changed = modelOf({ fields: { ...fields, email: text({ index: 'email_index', normalize: [] }) } })
    const table = tableOf([
      ...(await modelOf().encryptMany(plain.slice(0, 6))),
      await changed.encrypt(plain[6] as (typeof plain)[number]),
    ])
    const email = table.rows.get('u0')?.email
    expect((await inspectTable(changed, table, { open: true })).found).toMatchObject({
      left: 6,
      indexes: { email_index: { present: 7, wrong: 6 } },
    })
    expect(await backfill(changed, table)).toMatchObject({ changed: 0 }) // the form does not show it
    expect(await backfill(changed, table, { work: 'index' })).toMatchObject({ changed: 6, current: 1 })
    expect((await inspectTable(changed, table, { open: true })).found.left).toBe(0)
    expect(table.rows.get('u0')?.email).toBe(email)
  })
})

describe('the work index', () => {
  it('begins with the rows that lack an index, each of which counts once', async () => {
    const rows: Row[] = await modelOf().encryptMany(plain)
    for (const at of [2, 4, 5, 6]) rows[at] = { ...rows[at], email_index: null }
    rows[5] = { ...rows[5], email: '{"ciphertext":"cut' }
    const table = tableOf([...rows, ...(await modelOf().encryptMany([{ id: 'u7', email: 'x', note: null }]))])
    table.rows.set('u0', { ...table.rows.get('u0'), email_index: '0'.repeat(64) })
    const page = async (after: string | undefined, limit: number) =>
      (await table.page(after, 99)).filter(({ row }) => row.email_index === null).slice(0, limit)
    const lacking = { page, count: async (after: string | undefined) => (await page(after, 99)).length }
    const written: string[] = []
    table.onSwap = (key) => written.push(key)
    const seen: unknown[] = []
    const options = { work: 'index', batchSize: 3, onProgress: (one: object) => seen.push(one) } as const
    const dry = await backfill(modelOf(), { ...table, lacking }, { ...options, dryRun: true })
    const report = await backfill(modelOf(), { ...table, lacking }, { ...options, onProgress: (one) => seen.push(one) })
    expect(written).toEqual(['u2', 'u4', 'u6', 'u0'])
    const counts = { rows: 8, changed: 4, current: 3, failed: 1, contended: 0, gone: 0 }
    const found = { rows: 8, indexes: { email_index: { missing: 4, present: 4 } } }
    expect([dry, report]).toMatchObject([
      { ...counts, found, failures: [{ key: 'u5' }] },
      { ...counts, found, failures: [{ key: 'u5' }], after: 'u7' },
    ])
    expect(report).not.toHaveProperty('ahead')
    expect(seen.slice(4)).toMatchObject([
      { rows: 0, changed: 0, ahead: 3, after: undefined },
      { rows: 0, changed: 0, ahead: 4, after: undefined },
      { rows: 0, ahead: 4 },
      { rows: 3, changed: 2, ahead: 3, after: 'u2' },
      { rows: 6, changed: 3, failed: 1, ahead: 1, after: 'u5' },
      { rows: 8, changed: 4, ahead: 0, after: 'u7' },
      { rows: 8, after: 'u7' },
    ])
  })

  it.each([false, true])(
    'fills the indexes that do not need a value that fits no field; a dry run: %s',
    async (dryRun) => {
      const both = { both_index: { fields: ['email', 'pay'] }, first: { prefix: 'email', length: 1 } } as const
      const withPay = { ...fields, pay: number(), due: date({ index: 'due_day', range: 'day' }).nullable() }
      const model = migrating({ fields: withPay, indexes: both })
      const rows = ['7', '12.3.4', '8'].map((pay, at) => ({
        id: `u${at}`,
        email: `a${at}`,
        pay,
        due: at === 2 ? 'never' : null,
      }))
      const table = tableOf(rows, ['pay', 'due', 'due_day', 'both_index', 'first'])
      const report = await backfill(model, table, { work: 'index', dryRun })
      expect(report).toMatchObject({ rows: 3, changed: 1, failed: 2, current: 0 })
      expect(report.failures).toMatchObject([
        { key: 'u1', field: 'pay' },
        { key: 'u2', field: 'due' },
      ])
      const { email_index } = await modelOf().index({ email: 'a1' })
      if (!dryRun) expect(table.rows.get('u1')).toMatchObject({ ...rows[1], email_index, first: expect.any(String) })
      expect(table.rows.get('u1')).not.toHaveProperty('both_index')
      if (!dryRun) expect(table.rows.get('u2')).toMatchObject({ both_index: expect.any(String) })
      if (dryRun) expect(table.rows.get('u2')).toEqual(rows[2])
    },
  )
})

describe('rotation', () => {
  it('rewraps what an old version wrapped, and changes no ciphertext', async () => {
    const table = tableOf(await modelOf().encryptMany(plain))
    const { ciphertext } = (table.rows.get('u0') as { email: { ciphertext: string } }).email
    await eaas.keys.rotate(keyId)
    expect((await inspectTable(modelOf(), table)).found).toMatchObject({
      left: 7,
      fields: { email: { oldVersion: 7 } },
    })
    expect(await backfill(modelOf(), table, { work: 'rewrap', dryRun: true })).toMatchObject({ changed: 7 })
    expect(await backfill(modelOf(), table, { work: 'rewrap' })).toMatchObject({ changed: 7, failed: 0 })
    expect(table.rows.get('u0')?.email).toMatchObject({ ciphertext, key_version: 2 })
    expect((await inspectTable(modelOf(), table, { open: true })).found.left).toBe(0)
    expect(await backfill(modelOf(), table, { work: 'rewrap' })).toMatchObject({ changed: 0, current: 7 })
  })

  it('makes indexes again of another generation', async () => {
    const table = tableOf(await modelOf().encryptMany(plain))
    const next = modelOf({ index: { generation: 2 } })
    expect((await inspectTable(next, table, { open: true })).found.indexes).toMatchObject({ email_index: { wrong: 7 } })
    expect(await backfill(next, table, { work: 'index' })).toMatchObject({ changed: 7, failed: 0 })
    expect((await inspectTable(next, table, { open: true })).found).toMatchObject({ left: 0 })
  })

  it.each([true, false])(
    'fails a row that it cannot read, since an old version may be in it; a dry run: %s',
    async (dryRun) => {
      const foreign = await modelOf({ keyId: service.createKey() }).encrypt({ id: 'u1', email: 'x', note: null })
      const rows = await modelOf().encryptMany(plain.slice(2, 4))
      const cut = { ...rows[0], email: '{"ciphertext":"cut' }
      const half = { ...rows[1], note: 'a note that is not sealed' }
      await eaas.keys.rotate(keyId)
      const report = await backfill(modelOf(), tableOf([foreign, cut, half]), { work: 'rewrap', dryRun })
      expect(report).toMatchObject({ changed: 0, current: 0, failed: 3, found: { left: 3 } })
      expect(report.failures.map(({ key, field }) => [key, field])).toEqual([
        ['u1', 'email'],
        ['u2', 'email'],
        ['u3', 'note'],
      ])
    },
  )

  it.each<[string, (wrapped_key: string) => string]>([
    ['no base64 in it', () => '!'],
    ['a blank behind it', (wrapped) => `${wrapped} `],
    ['a use behind it', (wrapped) => `${wrapped}/["data",{"model":"users"}]`],
  ])('fails a row whose wrapped key has %s, whatever the work, and none of the others', async (_, alter) => {
    const testing = createTestService() // refuses a batch as a whole, as a server does
    const { id } = await createClient(testing).keys.create({ name: 'users' })
    const define = () => createClient(testing).model({ name: 'users', keyId: id, bind: ['id'], warn: false, fields })
    const model = define()
    const sealed = await model.encryptMany(plain)
    const { current_version } = await createClient(testing).keys.rotate(id)
    const forged = sealed.map(({ email, ...row }, at) =>
      at === 3
        ? { ...row, email: { ...email, key_version: current_version, wrapped_key: alter(email.wrapped_key) } }
        : { ...row, email },
    )
    const failures = [{ key: 'u3', field: 'email', code: 'E_INVALID_INPUT' }]
    const found = { fields: { email: { v2: 6, oldVersion: 6, unreadable: 1 } } }
    for (const work of ['seal', 'index', 'rewrap', 'reseal', 'open', 'check'] as const) {
      const table = tableOf(forged)
      const report = await backfill(model, table, { work })
      expect([work, report]).toMatchObject([work, { failed: 1, failures }])
      expect(report.changed + report.current).toBe(6)
      expect(table.rows.get('u3')).toEqual(forged[3])
      if (work === 'rewrap') {
        table.rows.delete('u3')
        expect((await opened(table, define() as never)).ok).toHaveLength(6)
      }
    }
    expect(await inspectTable(model, tableOf(forged), { open: true })).toMatchObject({ failed: 1, failures, found })
  })

  it('counts and rewraps a value of an old version whose key_version says a newer one', async () => {
    const inMemory = createClient(createTestService()) // its wrapped keys are those of wrapped-key.md
    const { id } = await inMemory.keys.create({ name: 'users' })
    const model = inMemory.model({ name: 'users', keyId: id, bind: ['id'], fields: { email: text() } })
    const [row] = await model.encryptMany([{ id: 'u0', email: 'x' }])
    await inMemory.keys.rotate(id)
    const table = createMemoryTable([{ ...row, email: { ...row?.email, key_version: 2 ** 31 - 1 } }], ['email'])
    expect((await inspectTable(model, table)).found).toMatchObject({ left: 1, fields: { email: { oldVersion: 1 } } })
    expect(await backfill(model, table, { work: 'rewrap' })).toMatchObject({ changed: 1 })
    expect(table.rows.get('u0')?.email).toMatchObject({ key_version: 2 })
    inMemory.close()
  })

  it('reseals every row under new DEKs, but those that hold nothing', async () => {
    const nothing = modelOf({ fields: { email: text({ index: 'email_index' }).nullable(), note: text().nullable() } })
    const table = tableOf(await nothing.encryptMany([...plain, { id: 'u9', email: null, note: null }] as never[]))
    const before = new Map(table.rows)
    expect(await backfill(nothing, table, { work: 'reseal', dryRun: true })).toMatchObject({ changed: 7, current: 1 })
    expect(await backfill(nothing, table, { work: 'reseal' })).toMatchObject({ changed: 7, current: 1 })
    for (const { id } of plain) {
      const wrapped = (row: unknown) => (row as { email: { wrapped_key: string } }).email.wrapped_key
      expect(wrapped(table.rows.get(id))).not.toBe(wrapped(before.get(id)))
    }
    expect((await opened(table)).ok.slice(0, 7)).toEqual(plain)
  })
})

describe('a field inside JSON', () => {
  const profileOf = (more: object = {}) =>
    eaas.model({
      ...{ name: 'users', keyId, bind: ['id'], warn: false, acceptPlaintext: true },
      fields: { 'profile.email': text({ index: 'email_index' }).optional() },
      ...more,
    })
  const tableOfProfiles = (...profiles: unknown[]) =>
    createMemoryTable(
      profiles.map((profile, at) => ({ id: `u${at}`, profile })),
      ['profile', 'email_index', 'envelope'],
    )

  it.each<[string, unknown]>([
    ['JSON that the table cannot represent', Symbol('a number that JavaScript cannot hold')],
    ['a text with JSON in it', '{"email":"secret@x.org"}'],
    ['a list', [{ email: 'secret@x.org' }]],
    ['a number', 7],
  ])('whose column is %s fails the row, whatever the work, and the row counts as left', async (_, profile) => {
    const table = tableOfProfiles(profile)
    const failed = { changed: 0, current: 0, failed: 1, failures: [{ key: 'u0', field: 'profile.email' }] }
    const fields = { 'profile.email': { unreadable: 1, empty: 0 } }
    const found = { left: 1, fields, indexes: { email_index: { missing: 1, empty: 0 } } }
    for (const work of ['seal', 'index', 'rewrap', 'reseal', 'open', 'check'] as const) {
      for (const dryRun of [true, false]) {
        const report = await backfill(profileOf(), table, { work, dryRun })
        expect([work, dryRun, report]).toMatchObject([work, dryRun, { ...failed, found }])
        expect(JSON.stringify(report)).not.toMatch(/secret/)
      }
    }
    expect(table.rows.get('u0')?.profile).toBe(profile)
    for (const open of [true, false]) expect(await inspectTable(profileOf(), table, { open })).toMatchObject({ found })
  })

  it('is empty where the object lacks it, or is null, or is not there', async () => {
    const table = tableOfProfiles({ email: null }, {}, null, undefined)
    for (const work of ['seal', 'rewrap', 'open', 'check'] as const)
      expect(await backfill(profileOf(), table, { work })).toMatchObject({ current: 4, failed: 0, found: { left: 0 } })
    expect((await inspectTable(profileOf(), table, { open: true })).found).toMatchObject({
      ...{ left: 0, fields: { 'profile.email': { empty: 4 } } },
      indexes: { email_index: { empty: 4 } },
    })
  })
})

describe('an application that writes meanwhile', () => {
  it('is never overwritten: the row is read again, and its newest value sealed', async () => {
    const table = tableOf(plain)
    const written = new Map<string, number>()
    table.onSwap = (key) => {
      const times = (written.get(key) ?? 0) + 1
      written.set(key, times)
      const row = table.rows.get(key)
      if (times <= 2 && row) table.rows.set(key, { ...row, note: `newest ${key} ${times}` })
    }
    expect(await backfill(migrating(), table)).toMatchObject({ rows: 7, changed: 7, current: 0, contended: 0 })
    expect((await opened(table)).ok).toEqual(plain.map((row) => ({ ...row, note: `newest ${row.id} 2` })))
  })

  it('is not overwritten where it seals first, or deletes', async () => {
    const table = tableOf(plain)
    const sealed = await modelOf().encrypt({ id: 'u2', email: 'mine', note: null })
    table.onSwap = (key) => {
      if (key === 'u2') table.rows.set(key, sealed)
      if (key === 'u4') table.rows.delete(key)
    }
    expect(await backfill(migrating(), table)).toMatchObject({ changed: 5, current: 1, gone: 1 })
    expect(table.rows.get('u2')).toBe(sealed)
    expect(table.rows.has('u4')).toBe(false)
  })

  it('ends the run when a row that is still there is not read again by its key', async () => {
    const table = tableOf(plain)
    const isBusy = (key: string) => table.rows.set(key, { ...table.rows.get(key), note: 'newest' })
    table.onSwap = (key) => key === 'u4' && isBusy(key)
    table.again = async () => []
    const seen: unknown[] = []
    const running = backfill(migrating(), table, { batchSize: 2, onProgress: ({ after }) => seen.push(after) })
    await expect(running).rejects.toThrow('again() of the table leaves out rows that page() returns')
    expect(seen).toEqual(['u1', 'u3'])
  })

  it('works on a row that was deleted and inserted meanwhile', async () => {
    const table = tableOf(plain)
    const { again, rows } = table
    table.onSwap = (key) => key === 'u4' && rows.set(key, { ...rows.get(key), note: 'newest' })
    table.again = async () => {
      table.again = again
      table.onSwap = () => undefined
      return []
    }
    expect(await backfill(migrating(), table)).toMatchObject({ rows: 7, changed: 7, gone: 0 })
  })

  it('may keep a row for itself: the run comes back to it, and tells no later key before', async () => {
    const table = tableOf(plain)
    let isBusy = true
    const swap = table.swap
    table.swap = async (changes) =>
      (await Promise.all(changes.map(async (one) => !(isBusy && one.from.key === 'u3') && swap([one])))).map(
        (one) => one !== false && one[0] === true,
      )
    const seen: (string | undefined)[] = []
    const onProgress = ({ after, rows }: { after: string | undefined; rows: number }) => {
      seen.push(after)
      if (rows === 7) isBusy = false
    }
    expect(await backfill(migrating(), table, { batchSize: 2, onProgress })).toMatchObject({ changed: 7, contended: 0 })
    expect(seen).toEqual(['u1', 'u1', 'u1', 'u1', 'u6'])
    isBusy = true
    table.rows.set('u3', plain[3] as never)
    expect(await backfill(migrating(), table)).toMatchObject({ changed: 0, contended: 1, current: 6, after: undefined })
  })
})

describe('a run that was stopped', () => {
  it('goes on behind the key that it told, and may as well begin again', async () => {
    const table = tableOf(plain)
    let after: string | undefined
    const stop = new AbortController()
    const stopped = backfill(migrating(), table, {
      batchSize: 2,
      signal: stop.signal,
      onProgress: (progress) => {
        after = progress.after
        if (progress.rows === 4) stop.abort()
      },
    })
    expect(await failure(stopped)).toMatchObject({ code: 'E_ABORTED' })
    expect(after).toBe('u3')
    expect(await backfill(migrating(), table, { after: 'u3' })).toMatchObject({ rows: 3, changed: 3 })
    expect(await backfill(migrating(), table)).toMatchObject({ rows: 7, changed: 0, current: 7 })
    expect(await opened(table)).toEqual({ ok: plain, failed: [] })
  })

  it('goes on behind a key of the same table only, where tables tell their scope', async () => {
    const scoped = (scope: string) => Object.assign(tableOf(plain), { scope })
    const [users, people] = [scoped('users (id)'), scoped('people (id)')]
    const { after } = await backfill(migrating(), users)
    expect(JSON.parse(after ?? '')).toEqual({ scope: 'users (id)', key: 'u6' })
    expect(await failure(backfill(migrating(), people, { after }))).toMatchObject({
      code: 'E_INVALID_INPUT',
      message: 'after belongs to users (id), and this is people (id)',
    })
    for (const wrong of ['u3', 'null', '7', '{}', '{"scope":"people (id)"}'])
      expect((await failure(backfill(migrating(), people, { after: wrong }))).message).toMatch(/^after is no key/)
    expect([...people.rows.values()]).toEqual(plain.map((row) => expect.objectContaining(row))) // nothing was written
    const u3 = JSON.stringify({ scope: 'people (id)', key: 'u3' })
    expect(await backfill(migrating(), people, { after: u3 })).toMatchObject({ rows: 3, changed: 3 })
    expect(await backfill(migrating(), people, { after: u3, dryRun: true })).toMatchObject({ rows: 3, after: u3 })
  })

  it('is passed on what onProgress throws, and waits for it', async () => {
    const onProgress = async () => Promise.reject(new Error('disk full'))
    await expect(backfill(migrating(), tableOf(plain), { onProgress })).rejects.toThrow('disk full')
  })
})

describe('the pace', () => {
  it('stays below the rows of a second', async () => {
    const start = performance.now()
    await backfill(migrating(), tableOf(plain), { rowsPerSecond: 35, batchSize: 3 })
    expect(performance.now() - start).toBeGreaterThanOrEqual(195)
  })
})

describe('a database that refuses', () => {
  const refusing = (state: string | undefined, key?: string) => {
    const table = tableOf(plain)
    const swap = table.swap
    const tries = vi.fn()
    table.swap = async (changes) => {
      tries(changes.length)
      if (changes.some(({ from }) => key === undefined || from.key === key)) throw new DatabaseError('refused', state)
      return swap(changes)
    }
    return { table, tries }
  }

  it('one row of a page fails that row alone', async () => {
    const { table } = refusing('23505', 'u3')
    const report = await backfill(migrating(), table)
    expect(report).toMatchObject({ changed: 6, failed: 1, failures: [{ key: 'u3', code: 'E_DATABASE' }] })
    expect(table.rows.get('u3')).toEqual(plain[3])
  })

  it('because of others is tried again', async () => {
    const { table, tries } = refusing('40P01')
    expect(await backfill(migrating(), table)).toMatchObject({ changed: 0, contended: 7, failed: 0 })
    expect(tries.mock.calls.length).toBeGreaterThan(5)
  })

  it.each(['57P01', '42501', undefined])('everything ends the run: %s', async (state) => {
    const { table } = refusing(state)
    expect(await failure(backfill(migrating(), table))).toMatchObject({ code: 'E_DATABASE', sqlState: state })
  })
})

describe('a reader', () => {
  const read = { email: async (stored: unknown) => String(stored).replace(/^old:/, '') }

  it('turns what another library stored into the value to seal, without acceptPlaintext', async () => {
    const table = tableOf(plain.map((row) => ({ ...row, email: `old:${row.email}`, note: null })))
    expect(await backfill(modelOf(), table, { read })).toMatchObject({ changed: 7 })
    expect((await opened(table)).ok).toEqual(plain.map((row) => ({ ...row, note: null })))
  })

  it('takes a text in a column of JSON as it is', async () => {
    const model = modelOf({ format: 'text', acceptPlaintext: true, fields: { note: json<unknown>() } })
    const table = tableOf([{ id: 'u1', note: 'just a string' }])
    const { failures } = await backfill(model, table)
    expect(failures[0]?.message).toMatch(/the text of an object or list .*`\(stored\) => stored`/s)
    expect(await backfill(model, table, { read: { note: (stored: unknown) => stored } })).toMatchObject({ changed: 1 })
    expect(await model.decrypt(table.rows.get('u1') as never)).toMatchObject({ note: 'just a string' })
  })

  it.each([
    ['cloakReader()', 'v1.aesgcm256.3bab9a53.7TL8Wm2UrVSBUHlW.A5g=='],
    ['cloakReader()', ' "v1.aesgcm256.cut'],
    ['transitReader()', 'vault:v1:AAAA'],
    ['awsMessageReader()', 'AgV4OkqDPRxabcd'],
    ['awsMessageReader()', 'AYADeKmv'],
  ])('is asked for by its name, %s, and never sealed as plaintext: %s', async (reader, stored) => {
    const table = tableOf(plain.map((row, at) => (at === 2 ? { ...row, email: stored } : row)))
    for (const options of [{ dryRun: true }, {}, { read: { email: (value: unknown) => value } }]) {
      const report = await backfill(migrating(), table, options)
      expect(report).toMatchObject({ failed: 1, failures: [{ key: 'u2', field: 'email', code: 'E_CONTENT' }] })
      expect(report.failures[0]?.message).toContain(reader)
      expect(JSON.stringify(report)).not.toContain(stored)
    }
    expect(table.rows.get('u2')?.email).toBe(stored)
    const options = { read: { email: () => 'read@example.org' } }
    expect(await backfill(migrating(), table, options)).toMatchObject({ changed: 1, failed: 0 })
  })

  it('gets no value that JavaScript cannot hold, which stays, and whose message says so', async () => {
    const unheld = Symbol('JSON with a number that JavaScript cannot hold')
    for (const model of [modelOf(), migrating()]) {
      const table = tableOf(plain.map((row, at) => (at === 2 ? { ...row, email: unheld } : row)))
      for (const options of [
        {},
        { read: { email: (stored: unknown) => (stored === unheld ? 'asked@example.org' : stored) } },
      ]) {
        const { failures } = await backfill(model, table, { ...options, dryRun: true })
        const failure = failures.find(({ key }) => key === 'u2')
        expect(failure).toMatchObject({
          field: 'email',
          code: 'E_CONTENT',
          message: expect.stringContaining('cannot hold'),
        })
      }
      expect(table.rows.get('u2')?.email).toBe(unheld)
    }
  })

  it('is not asked for what is sealed, and reads its own field only', async () => {
    const asked = vi.fn((stored: unknown) => stored)
    const table = tableOf([...(await modelOf().encryptMany(plain.slice(0, 3))), ...plain.slice(3)])
    const report = await backfill(modelOf(), table, { read: { email: asked } })
    expect(report.failures.map(({ key, field }) => [key, field])).toEqual([
      ['u4', 'note'],
      ['u6', 'note'],
    ])
    expect(asked.mock.calls.map(([stored]) => stored)).toEqual(plain.slice(3).map(({ email }) => email))
  })

  it('is given the row as it was read, so that it can check for which row a value was encrypted', async () => {
    const rows: Row[] = []
    const read = (stored: unknown, row: Row) => {
      rows.push({ ...row })
      return row.id === 'u1' ? undefined : stored
    }
    const table = tableOf(plain)
    const before = plain.map((row) => ({ ...table.rows.get(String(row.id)) }))
    const report = await backfill(migrating(), table, { read: { email: read } })
    expect(rows).toEqual(before.map((row) => expect.objectContaining(row)))
    expect(report).toMatchObject({ failed: 1, failures: [{ key: 'u1', field: 'email' }] })
  })

  it.each([
    ['throws', () => Promise.reject(new Error('secret value'))],
    ['returns nothing', () => undefined],
    ['returns null', () => null],
    ['returns what is no value of the field', () => 7],
    ['returns an envelope', (): unknown => ({ ciphertext: 'x' })],
  ])('that %s fails the row, and is not quoted', async (_, refuse) => {
    const table = tableOf(plain)
    const report = await backfill(migrating(), table, { read: { email: refuse } })
    expect(report).toMatchObject({ changed: 0, failed: 7 })
    expect(JSON.stringify(report)).not.toMatch(/secret/i)
    expect([...table.rows.values()]).toEqual(plain)
  })

  it('whose service is away ends the run', async () => {
    const away = () => Promise.reject(new NetworkError('away', 'wait', true))
    expect(await failure(backfill(migrating(), tableOf(plain), { read: { email: away } }))).toMatchObject({
      code: 'E_NETWORK',
    })
  })
})

describe('the options', () => {
  it.each([
    [{ work: 'wipe' }],
    [{ batchSize: 0 }],
    [{ batchSize: 10_001 }],
    [{ rowsPerSecond: 0 }],
    [{ after: 7 }],
    [{ dryRun: 'yes' }],
    [{ read: { emial: () => 'x' } }],
    [{ read: { email: 'x' } }],
    [{ read: null }],
  ])('are refused: %j', async (options) => {
    const table = tableOf(plain)
    expect(await failure(backfill(migrating(), table, options as never))).toMatchObject({ code: 'E_INVALID_INPUT' })
    expect(table.calls).toEqual([])
  })

  it('need a table that comes to an end', async () => {
    const table = tableOf(plain)
    const { page } = table
    table.page = (_, limit) => page(undefined, limit)
    expect((await failure(backfill(migrating(), table))).message).toMatch(/returned before/)
  })

  it('need a model', async () => {
    expect(await failure(backfill({} as never, tableOf(plain)))).toMatchObject({ code: 'E_INVALID_INPUT' })
  })
})

describe('kinds of fields', () => {
  it('are read from what JSON has, and by a reader from text', async () => {
    const model = eaas.model({
      name: 'x',
      keyId,
      bind: false,
      acceptPlaintext: true,
      warn: false,
      fields: { height: number(), born: date() },
    })
    const rows = [{ id: 'a', height: 1.5, born: '1815-12-10' }]
    const table = createMemoryTable(rows, ['height', 'born'])
    const read = { born: (stored: unknown) => new Date(stored as string) }
    expect(await backfill(model, table, { read })).toMatchObject({ changed: 1 })
    expect(await model.decrypt(table.rows.get('a') as never)).toMatchObject({
      height: 1.5,
      born: new Date('1815-12-10'),
    })
  })
})

describe('a table whose rows are sealed as a whole', () => {
  const whole = (more: object = {}) => modelOf({ sealed: 'row', ...more })
  const sealedTable = async () => {
    const table = createMemoryTable(plain as Record<string, unknown>[], [...COLUMNS, 'row_seal'])
    await backfill(migrating({ sealed: 'row' }), table)
    return table
  }

  it('rewraps the seal of a row without values, which would not open without the old version', async () => {
    const model = eaas.model({
      name: 'users',
      keyId,
      bind: ['id'],
      sealed: 'row',
      fields: { ...fields, email: fields.email.nullable() },
      warn: false,
    })
    const [row] = await model.encryptMany([{ id: 'u1', email: null, note: null }])
    const table = createMemoryTable([row as Record<string, unknown>], [...COLUMNS, 'row_seal'])
    await eaas.keys.rotate(keyId)
    expect((await inspectTable(model, table)).found).toMatchObject({ left: 1 })
    expect(await backfill(model, table, { work: 'rewrap' })).toMatchObject({ changed: 1, failed: 0 })
    expect(table.rows.get('u1')?.row_seal).toMatchObject({ key_version: 2 })
    expect(await backfill(model, table, { work: 'rewrap' })).toMatchObject({ changed: 0, current: 1 })
  })

  it('fails a row whose seal cannot be read, whatever the work', async () => {
    const table = await sealedTable()
    const row = table.rows.get('u2') ?? {}
    await eaas.keys.rotate(keyId)
    await backfill(whole(), table, { work: 'rewrap' })
    for (const row_seal of [{ ...(row.row_seal as object), wrapped_key: '!' }, 'cut']) {
      table.rows.set('u2', { ...table.rows.get('u2'), row_seal })
      expect((await inspectTable(whole(), table)).found).toMatchObject({ left: 1 })
      for (const work of ['seal', 'index', 'rewrap', 'reseal', 'open', 'check'] as const) {
        for (const dryRun of [true, false]) {
          const report = await backfill(whole(), tableOf([...table.rows.values()], ['row_seal']), { work, dryRun })
          expect([work, dryRun, report]).toMatchObject([work, dryRun, { failed: 1, failures: [{ key: 'u2' }] }])
        }
      }
    }
  })

  it('gets the seal of each row, and opens by the model alone', async () => {
    const table = await sealedTable()
    expect(await opened(table, whole())).toEqual({ ok: plain, failed: [] })
    for (const row of table.rows.values()) expect(row.row_seal).toMatchObject({ envelope_version: 2 })
  })

  it.each<[string, (row: Row, older: Row, other: Row) => Row]>([
    ['a cell that was set to null', (row) => ({ ...row, note: null })],
    ['an older cell', (row, older) => ({ ...row, email: older.email })],
    ['an index that was exchanged', (row, _, other) => ({ ...row, email_index: other.email_index })],
  ])('names a row with %s, and changes nothing of it', async (_, tamper) => {
    const table = await sealedTable()
    const [older, other] = [table.rows.get('u2') ?? {}, table.rows.get('u4') ?? {}]
    await backfill(whole(), table, { work: 'reseal' })
    const wrong = tamper(table.rows.get('u2') ?? {}, older, other)
    table.rows.set('u2', wrong)
    const named = { failed: 1, failures: [{ key: 'u2', field: 'row_seal', code: 'E_DECRYPTION' }] }
    expect(await inspectTable(whole(), table, { open: true })).toMatchObject(named)
    for (const work of ['index', 'reseal'] as const)
      expect(await backfill(whole(), table, { work })).toMatchObject(named)
    for (const work of ['seal', 'rewrap'] as const)
      expect(await backfill(whole(), table, { work })).toMatchObject({ changed: 0, failed: 0 }) // these open no row that is sealed
    expect(table.rows.get('u2')).toEqual(wrong)
  })
})
