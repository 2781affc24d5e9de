// What every adapter relies on. The adapters themselves are tested by one contract on a real PostgreSQL, in test/orm.
import { describe, expect, it } from 'vitest'
import { createClient, text } from '../index.js'
import { createTestService } from '../testing.js'
import { createTable } from './table.js'

describe('a search for an equal value', () => {
  it('goes to the index of the whole value, and never to one of parts, which finds other rows too', async () => {
    const eaas = createClient(createTestService())
    const { id: keyId } = await eaas.keys.create({ name: 'people' })
    const indexKey = await eaas.createIndexKey(keyId)
    const parts = {
      name_start: { prefix: 'name', length: 3 },
      name_parts: { ngram: 'name', length: 3, bits: 256 },
    } as const
    const options = { name: 'people', keyId, indexKey, indexes: parts }
    const whole = eaas.model({ ...options, fields: { name: text({ index: 'name_index' }) } })
    const { name_index } = await whole.encrypt({ name: 'Ada Lovelace' })
    expect(await createTable(whole).findEqual('name', '=', ['Ada Lovelace'])).toEqual({
      column: 'name_index',
      values: [name_index],
    })
    const onlyParts = eaas.model({ ...options, fields: { name: text() } })
    await expect(createTable(onlyParts).findEqual('name', '=', ['Ada Lovelace'])).rejects.toMatchObject({
      code: 'E_INVALID_INPUT',
      message: expect.stringContaining('no index by which it could be searched alone'),
    })
  })
})
