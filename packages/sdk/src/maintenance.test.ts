// What tells a model, and the keys that it works with, from those of an earlier run.
import { describe, expect, it } from 'vitest'
import { date, number, text } from './index.js'
import { describeModel, getVersions } from './maintenance.js'
import { clientsOf, useService } from './test-support/clients.js'

const service = useService()
const connect = clientsOf(service)
const last4 = (value: string) => value.slice(-4)
const sameSteps = ['trim', 'lowercase'] as const

async function scene() {
  const eaas = connect()
  const keyId = service.createKey()
  const describeWith = (email: object = {}, more: object = {}) =>
    describeModel(
      eaas.model({
        ...{ name: 'users', keyId, bind: ['id'], warn: false },
        fields: {
          email: text({ index: 'email_index', normalize: [...sameSteps], ...email }),
          born: date({ index: 'born_index', range: 'month' }),
          pay: number(),
        },
        indexes: {
          start: { prefix: 'email', length: 2 },
          parts: { ngram: 'email', length: 3, bits: 16, acceptLeakage: true },
        },
        ...more,
      } as never),
    )
  return { eaas, keyId, describeWith }
}

describe('describeModel', () => {
  it('gives the same for the same definition, as values of JSON', async () => {
    const { describeWith } = await scene()
    const before = describeWith()
    expect(JSON.parse(JSON.stringify(before))).toEqual(before)
    expect(describeWith()).toEqual(before)
    expect(describeWith({ normalize: [last4] })).toEqual(describeWith({ normalize: [last4] }))
  })

  it('tells two definitions apart whose indexes of the same columns differ', async () => {
    const { describeWith } = await scene()
    const born = (range: unknown) => ({
      fields: { email: text(), born: date({ index: 'born_index', range } as never) },
    })
    const ngram = (more: object) => ({ parts: { ngram: 'email', length: 3, bits: 16, acceptLeakage: true, ...more } })
    const all = [
      describeWith(),
      describeWith({ normalize: ['lowercase', 'trim'] }),
      describeWith({ normalize: [last4] }),
      describeWith({ normalize: [(value: string) => value.slice(-5)] }),
      describeWith({ bits: 32 }),
      describeWith({}, { index: { generation: 2 } }),
      describeWith({}, { index: { key: 'other' } }),
      describeWith({}, { indexes: ngram({}) }),
      describeWith({}, { indexes: ngram({ length: 4 }) }),
      describeWith({}, { indexes: ngram({ bits: 17 }) }),
      describeWith({}, { indexes: { parts: { prefix: 'email', length: 3 } } }),
      describeWith({}, { ...born('month'), indexes: {} }),
      describeWith({}, { ...born('year'), indexes: {} }),
      describeWith({ index: undefined }, { indexes: { both: { fields: ['email', 'pay'] } } }),
      describeWith({ index: undefined }, { indexes: { both: { fields: ['pay', 'email'] } } }),
    ].map((one) => JSON.stringify(one))
    expect(new Set(all).size).toBe(all.length)
  })

  it('tells models apart whose rows are sealed otherwise: under DEKs of their own, or with a secret', async () => {
    const { describeWith, keyId } = await scene()
    const secret = connect({ secret: new Uint8Array(32).fill(7) })
    const fields = { note: text() }
    const plain = { fields, indexes: {} }
    const withSecret = secret.model({ name: 'users', keyId, bind: ['id'], warn: false, fields })
    const all = [describeWith({}, plain), describeWith({}, { ...plain, dek: 'record' }), describeModel(withSecret)]
    expect(new Set(all.map((one) => JSON.stringify(one))).size).toBe(all.length)
  })

  it('tells an index that the service makes from a shared one, and from one that the model makes', async () => {
    const { describeWith } = await scene()
    const exact = { fields: { email: text({ index: 'email_index' }) }, indexes: {} }
    const shared = { fields: { email: text({ index: 'email_index', shared: true }) }, indexes: {} }
    const all = [
      describeWith({}, exact),
      describeWith({}, { ...exact, index: { by: 'service' } }),
      describeWith({}, shared),
    ].map(({ indexes }) => JSON.stringify(indexes))
    expect(new Set(all).size).toBe(3)
  })
})

describe('getVersions', () => {
  it('gives the current version of each key of a model, former ones too', async () => {
    const { eaas, keyId } = await scene()
    const former = service.createKey()
    const model = eaas.model({ name: 'users', keyId, formerKeyIds: [former], bind: ['id'], fields: { email: text() } })
    expect(await getVersions(model)).toEqual({ [keyId]: 1, [former]: 1 })
    await eaas.keys.rotate(former)
    expect(await getVersions(model)).toEqual({ [keyId]: 1, [former]: 2 })
  })

  it('refuses what is no model, and an unknown option', async () => {
    const { eaas, keyId } = await scene()
    await expect(getVersions({} as never)).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
    const model = eaas.model({ name: 'users', keyId, bind: ['id'], fields: { email: text() } })
    await expect(getVersions(model, { sginal: 1 } as never)).rejects.toThrow('no option "sginal"')
  })
})
