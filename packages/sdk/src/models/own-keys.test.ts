// A model opens what was sealed under its own keys: whoever can write to the database could put in an
// envelope of another one.
import { beforeEach, describe, expect, it } from 'vitest'
import { type Client, text } from '../index.js'
import { failure, keyId, useClients } from '../test-support/clients.js'
import { itemsOf } from '../test-support/items-of.js'

const { service, connect } = useClients()
let otherId: string

beforeEach(() => {
  otherId = service.createKey()
})

const notesOf = (eaas: Client, id: string, formerKeyIds?: string[], format: 'full' | 'compact' = 'full') =>
  eaas.model({ name: 'users', keyId: id, bind: false, formerKeyIds, format, fields: { a: text({ index: 'a_index' }) } })

describe('an envelope of another key', () => {
  it.each(['full', 'compact'] as const)('is refused, and nothing is sent for it: %s', async (format) => {
    const planted = await notesOf(connect(), otherId, undefined, format).encrypt({ a: 'planted' })
    service.requests.length = 0
    const notes = notesOf(connect(), keyId)
    const error = await failure(notes.decrypt(planted))
    expect(error).toMatchObject({ code: 'E_DECRYPTION', place: { index: 0, field: 'a' } })
    expect(error.message).toContain(otherId)
    expect(error.hint).toContain('formerKeyIds')
    expect((await notes.decryptMany([planted])).failed).toMatchObject([{ index: 0, error: { code: 'E_DECRYPTION' } }])
    for (const run of [notes.rewrap([planted]), notes.reseal([planted])]) {
      expect(await itemsOf<object>(run)).toMatchObject([{ status: 'failed', error: { code: 'E_DECRYPTION' } }])
    }
    expect(service.requests).toEqual([])
  })

  it('opens where the model names that key as a former one, and reseal moves it to the new key', async () => {
    const old = await notesOf(connect(), otherId).encryptMany([{ a: 'x' }, { a: 'y' }])
    const notes = notesOf(connect(), keyId, [otherId])
    const mixed = [...old, await notes.encrypt({ a: 'z' })]
    expect((await notes.decryptMany(mixed)).ok).toEqual([{ a: 'x' }, { a: 'y' }, { a: 'z' }])
    const moved = { status: 'changed', row: { a: { key_id: keyId } } }
    expect(await itemsOf(notes.reseal(mixed))).toMatchObject([moved, moved, moved])
    expect(() => notesOf(connect(), keyId, ['users'])).toThrow("formerKeyIds: a key's id is a UUID")
  })
})
