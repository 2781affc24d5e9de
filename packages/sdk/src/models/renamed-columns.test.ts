// A column whose name is not the field's: its value would be stored as it is, in plain, or be left sealed, without a word.
import { beforeEach, describe, expect, it } from 'vitest'
import { type PlainRow, text } from '../index.js'
import { clientsOf, failure, useService } from '../test-support/clients.js'

const service = useService()
const connect = clientsOf(service)
let keyId: string

beforeEach(() => {
  keyId = service.createKey()
})

function peopleOf(eaas = connect()) {
  return eaas.model({
    keyId,
    fields: {
      birthDate: text().optional(),
      'address.street': text().optional(),
      phone: text({ index: 'Phone' }).optional(),
    },
  })
}

describe('an optional field of a model', () => {
  it.each<[string, Record<string, unknown>, string]>([
    ['birthDate', { birthdate: 'SECRET' }, 'birthdate'],
    ['birthDate', { birth_date: 'SECRET' }, 'birth_date'],
    ['address.street', { address: { Street: 'SECRET' } }, 'Street'],
    ['address.street', { address_street: 'SECRET' }, 'address_street'],
    ['address.street', { 'address.street': 'SECRET' }, 'address.street'],
    ['address.street', { Address: { street: 'SECRET' } }, 'Address'],
  ])('is not taken to be missing: %s where the row is %j', async (field, row, found) => {
    const people = peopleOf()
    const calls = [() => people.encrypt(row), () => people.encryptMany([row]), () => people.decrypt(row as never)]
    for (const call of calls) {
      const error = await failure(call())
      expect(error).toMatchObject({ code: 'E_INVALID_INPUT', place: { index: 0, field } })
      expect(error.message).toContain(`has ${JSON.stringify(found)}`)
      expect(error.message).not.toContain('SECRET')
    }
    for await (const { items } of people.rewrap([row] as never[])) {
      expect(items).toMatchObject([{ status: 'failed', error: { code: 'E_INVALID_INPUT' } }])
    }
    expect(service.requests).toEqual([])
  })

  it('may be missing beside other columns, those of its index too', async () => {
    const people = peopleOf()
    const row: PlainRow<typeof people> = {
      birth: 'x',
      birthDates: 'y',
      address: { city: 'London' },
      Phone: null,
    } as object
    expect(await people.encrypt(row)).toEqual(row)
    expect(await people.encrypt({ birthDate: undefined, address: null as never })).toMatchObject({ address: null })
    expect(service.requests).toEqual([])
  })
})
