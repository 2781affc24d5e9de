// How long sealed values are, and what that tells: the padding of fields.
import { describe, expect, it } from 'vitest'
import { boolean, type Client, json, number, text } from '../index.js'
import { clientsOf, useService } from '../test-support/clients.js'

const service = useService()
const connect = clientsOf(service)

const lengthOf = ({ ciphertext }: { ciphertext: string }) => atob(ciphertext).length - 16

describe('padding', () => {
  it('seals true and false to the same length, except in format v1', async () => {
    const keyId = service.createKey()
    const eaas = connect()
    const fields = { yes: boolean(), no: boolean() }
    const sealed = await eaas.model({ name: 'answers', keyId, bind: false, fields }).encrypt({ yes: true, no: false })
    expect([lengthOf(sealed.yes), lengthOf(sealed.no)]).toEqual([8, 8])
    const v1 = await eaas.model({ keyId, envelope: 1, fields }).encrypt({ yes: true, no: false })
    expect(await Promise.all([v1.yes, v1.no].map((one) => eaas.decryptText(one)))).toEqual(['true', 'false'])
  })

  it('seals text, JSON and numbers to the next multiple, and opens the same values', async () => {
    const eaas = connect()
    const fields = { answer: text({ pad: 32 }), list: json<string[]>({ pad: 16 }), pay: number({ pad: 8 }) }
    const model = eaas.model({ name: 'answers', keyId: service.createKey(), bind: false, fields })
    const rows = ['no', 'yes', '', 'x'.repeat(31), 'x'.repeat(32), 'nul\0'].map((answer) => ({
      answer,
      list: [answer],
      pay: -0,
    }))
    const sealed = await model.encryptMany(rows)
    expect(sealed.map(({ answer }) => lengthOf(answer))).toEqual([32, 32, 32, 32, 64, 32])
    expect(new Set(sealed.map(({ pay }) => lengthOf(pay)))).toEqual(new Set([8]))
    expect((await model.decryptMany(sealed)).ok).toEqual(rows)
  })

  it('may begin, change and end while rows are stored', async () => {
    const eaas = connect()
    const keyId = service.createKey()
    const padded = (pad: number | undefined) =>
      eaas.model({ name: 'answers', keyId, bind: false, fields: { answer: text({ pad }) } })
    for (const before of [undefined, 8, 100]) {
      const stored = await padded(before).encrypt({ answer: 'yes' })
      for (const after of [undefined, 8, 100]) expect(await padded(after).decrypt(stored)).toEqual({ answer: 'yes' })
    }
  })

  const wrong: [string, (eaas: Client, keyId: string) => unknown][] = [
    ['a multiple of 1', () => text({ pad: 1 })],
    ['a multiple above 65,536', () => json({ pad: 65_537 })],
    ['a fraction', () => number({ pad: 2.5 })],
    [
      'format v1, which other languages read',
      (eaas, keyId) => eaas.model({ keyId, envelope: 1, fields: { a: text({ pad: 32 }) } }),
    ],
  ]
  it.each(wrong)('refuses %s', (_, define) => {
    expect(() => define(connect(), service.createKey())).toThrow(expect.objectContaining({ code: 'E_INVALID_INPUT' }))
  })
})
