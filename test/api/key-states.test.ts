// States and events of a key: each cell of the contract's table, and random sequences checked against a model.
import { wire } from '@eaas/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { doDueWork } from '../../packages/server/src/core/jobs/due-work.js'
import { rounds } from '../support/run/rounds.js'
import { startService } from '../support/service/service.js'
import { DAY_MS, EVENTS, type KeyModel, startKeyModel, TABLE, TO } from './key-model.js'

let model: KeyModel

beforeAll(async () => {
  model = await startKeyModel()
})
afterAll(() => model?.service.close())

describe.each(wire.KEY_STATUSES)('a key that is %s', (from) => {
  it.each(EVENTS)('takes %s as the table says', async (event) => {
    const key = await model.makeKey()
    for (const step of TO[from]) await model.apply(step, key)
    expect(await model.status(key)).toBe(from)
    const before = await model.entries(key)
    const [http, after, isOnRecord] = TABLE[event][from]
    expect(await model.apply(event, key)).toBe(http)
    expect(await model.status(key)).toBe(after)
    expect((await model.entries(key)) - before).toBe(isOnRecord ? 1 : 0)
  })
})

describe('a key', () => {
  it('is not destroyed before its time, nor without its name', async () => {
    const key = await model.makeKey()
    await model.apply('disable', key)
    const wrong = await model.owner.call('POST', `/v1/keys/${key.id}/destroy`, { confirm: 'another name' })
    expect([wrong.status, wrong.body.code]).toEqual([400, 'E_VALIDATION'])
    const { body } = await model.owner.call('POST', `/v1/keys/${key.id}/destroy`, { confirm: key.name })
    expect(body.destroy_at).toBe(new Date(model.clock.now + 7 * DAY_MS).toISOString())
    model.clock.now += 7 * DAY_MS - 1
    await doDueWork(model.service.services)
    expect(await model.status(key)).toBe('pending_destruction')
    model.clock.now += 1
    await doDueWork(model.service.services)
    expect(await model.status(key)).toBe('destroyed')
  })

  it('leaves no key material behind when it is destroyed, and keeps its name taken', async () => {
    const key = await model.makeKey()
    for (const event of ['rotate', ...TO.destroyed] as const) await model.apply(event, key)
    const { sql } = model.service.services
    expect(await sql`select wrapped_kek from key_versions where key_id = ${key.id}`).toEqual([
      { wrapped_kek: null },
      { wrapped_kek: null },
    ])
    expect(await sql`select wrapped_hash_key from keys where key_id = ${key.id}`).toEqual([{ wrapped_hash_key: null }])
    expect((await model.owner.call('POST', '/v1/keys', { name: key.name })).status).toBe(409)
    const { logs } = (await model.owner.call('GET', `/v1/audit?key_id=${key.id}&action=key.destroy`)).body
    expect(
      logs.map((entry: { actor: string; metadata: unknown }) => [entry.actor === 'system', entry.metadata]),
    ).toEqual([
      [true, { step: 'completed', versions: 2, key_version: 2, replaces: expect.any(Number) }],
      [false, { step: 'scheduled', destroy_at: expect.any(String), key_version: 2, replaces: expect.any(Number) }],
    ])
  })

  it('is destroyed in one statement, however many versions it has', async () => {
    const key = await model.makeKey()
    for (const event of ['rotate', 'rotate', ...TO.destroyed] as const) await model.apply(event, key)
    const { sql } = model.service.services
    // PostgreSQL numbers the statements of a transaction, and each row has the number of the one that wrote it.
    const written = await sql`
      select cmin::text, pg_catalog.count(*)::integer as versions from key_versions where key_id = ${key.id} group by 1`
    expect(written).toMatchObject([{ versions: 3 }])
  })

  it('is destroyed at once where there is no waiting period', async () => {
    const impatient = await startService({ environment: { EAAS_DESTROY_WINDOW_DAYS: '0' } })
    try {
      const tenant = await impatient.createTenant()
      const { id } = (await tenant.call('POST', '/v1/keys', { name: 'k' })).body
      await tenant.call('DELETE', `/v1/keys/${id}`)
      const { body } = await tenant.call('POST', `/v1/keys/${id}/destroy`, { confirm: 'k' })
      expect([body.status, 'destroy_at' in body]).toEqual(['destroyed', false])
    } finally {
      await impatient.close()
    }
  })
})

describe('the export of a key', () => {
  it('holds what opens everything that the key protected, and computes its blind indexes', async () => {
    const key = await model.makeKey()
    await model.apply('rotate', key)
    const { status, body } = await model.owner.call('POST', `/v1/keys/${key.id}/export`)
    expect(status).toBe(200)
    expect(body).toEqual({
      tenant_id: model.owner.tenant.tenant_id,
      key_id: key.id,
      name: key.name,
      algorithm: 'AES-256-GCM',
      versions: [
        { version: 1, dek_hex: expect.stringMatching(/^[0-9a-f]{64}$/), status: 'retired' },
        { version: 2, dek_hex: expect.stringMatching(/^[0-9a-f]{64}$/), status: 'active' },
      ],
      hash_key_hex: expect.stringMatching(/^[0-9a-f]{64}$/),
      exported_at: new Date(model.clock.now).toISOString(),
      warning: expect.any(String),
    })
    const { createDecipheriv, createHmac } = await import('node:crypto')
    const token = Buffer.from(key.wrapped_key, 'base64')
    const prefixed = (...parts: Buffer[]) =>
      Buffer.concat(parts.flatMap((part) => [Buffer.from([0, 0, 0, part.length]), part]))
    const uuid = (text: string) => Buffer.from(text.replaceAll('-', ''), 'hex')
    const kek = Buffer.from(body.versions[token.readUInt32BE(1) - 1].dek_hex, 'hex')
    const decipher = createDecipheriv('aes-256-gcm', kek, token.subarray(5, 17))
    decipher.setAAD(
      prefixed(
        Buffer.from('eaas/wrapped-key/v1'),
        uuid(model.owner.tenant.tenant_id),
        uuid(key.id),
        token.subarray(1, 5),
      ),
    )
    decipher.setAuthTag(token.subarray(-16))
    const opened = Buffer.concat([decipher.update(token.subarray(17, -16)), decipher.final()]).toString('base64')
    expect(opened).toBe(
      (await model.owner.call('POST', `/v1/keys/${key.id}/unwrap`, { wrapped_key: key.wrapped_key })).body.dek,
    )
    expect((await model.owner.call('POST', '/v1/hash', { key_id: key.id, value: 'é' })).body.hash).toBe(
      createHmac('sha256', Buffer.from(body.hash_key_hex, 'hex')).update('é').digest('hex'),
    )
  })
})

// Last: the clock of the model is years ahead afterwards.
describe('a key in any state', () => {
  it(
    'agrees with the model after any sequence of events',
    async () => {
      await model.agreeAfterRandomEvents({ sequences: rounds(30, 10_000), eventsASequence: rounds(25, 12) })
    },
    rounds(4, 30) * 60_000,
  )
})
