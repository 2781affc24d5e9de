// A column whose name is not the field's: its value would be stored as it is, in plain, or be left sealed,
// without a word.
import { describe, expect, it, vi } from 'vitest'
import { type PlainRow, text } from '../index.js'
import { failure, keyId, useClients } from '../test-support/clients.js'
import { itemsOf } from '../test-support/items-of.js'

const { service, connect } = useClients()

function peopleOf(eaas = connect()) {
  return eaas.model({
    name: 'users',
    keyId,
    bind: false,
    fields: {
      birthDate: text().optional(),
      prénom: text().optional(),
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
    ['address.street', { adress: { street: 'SECRET' } }, 'adress'],
    ['address.street', { address: { city: 'x' }, address_street: 'SECRET' }, 'address_street'],
    ['address.street', { address: { city: 'x' }, 'address.street': 'SECRET' }, 'address.street'],
    ['address.street', { address: {}, Address: { street: 'SECRET' } }, 'Address.street'],
    ['address.street', { address: { street: undefined }, adderss: { Street: 'SECRET' } }, 'adderss.Street'],
    ['birthDate', { birth: { date: 'SECRET' } }, 'birth.date'],
    ['prénom', { 'pre\u0301nom': 'SECRET' }, 'pre\u0301nom'],
    ['birthDate', { brithDate: 'SECRET' }, 'brithDate'],
    ['birthDate', { birthDatte: 'SECRET' }, 'birthDatte'],
  ])('is not taken to be missing: %s where the row is %j', async (field, row, found) => {
    const people = peopleOf()
    const calls = [() => people.encrypt(row), () => people.encryptMany([row]), () => people.decrypt(row as never)]
    for (const call of calls) {
      const error = await failure(call())
      expect(error).toMatchObject({ code: 'E_INVALID_INPUT', place: { index: 0, field } })
      expect(error.message).toContain(`has ${JSON.stringify(found)}`)
      expect(error.message).not.toContain('SECRET')
    }
    const items = await itemsOf(people.rewrap([row] as never[]))
    expect(items).toMatchObject([{ status: 'failed', error: { code: 'E_INVALID_INPUT' } }])
    expect(service.requests).toEqual([])
  })

  it.each<[string, Record<string, unknown>, string]>([
    ['birthDate', { birthDate: null, birth_date: 'SECRET' }, 'birth_date'],
    ['birthDate', { birthDate: null, brithDate: 'SECRET' }, 'brithDate'],
    ['address.street', { address: { street: null, Street: 'SECRET' } }, 'Street'],
    ['address.street', { address: null, adress: { street: 'SECRET' } }, 'adress'],
    ['address.street', { address: { street: null }, address_street: 'SECRET' }, 'address_street'],
    ['address.street', { address: { street: null }, Address: { street: 'SECRET' } }, 'Address.street'],
  ])('is not taken to be null when it is sealed: %s where the row is %j', async (field, row, found) => {
    const fields = { birthDate: text().nullable(), 'address.street': text().nullable().optional() }
    const people = connect().model({ name: 'users', keyId, bind: false, fields })
    const whole = { birthDate: null, ...row }
    const many = { keyId, fields: [field], optional: [field] } as { keyId: string; fields: never[]; optional: never[] }
    for (const call of [() => people.encrypt(whole), () => connect().encryptMany([whole], many)]) {
      const error = await failure(call())
      expect(error).toMatchObject({ code: 'E_INVALID_INPUT', place: { index: 0, field } })
      expect(error.message).toContain(`has ${JSON.stringify(found)}`)
      expect(error.message).not.toContain('SECRET')
    }
    expect(service.requests).toEqual([])
  })

  it('is never looked for in long names, which would take long to normalise and to keep', async () => {
    const people = connect().model({ name: 'users', keyId, bind: false, fields: { birthDate: text().nullable() } })
    const long = `a${'\u0316\u0301'.repeat(1_000)}`
    const row = { birthDate: null, [long]: 1, Birth: { [long]: 1 } }
    const normalize = vi.spyOn(String.prototype, 'normalize')
    expect(await people.encrypt(row)).toEqual(row)
    const lengths = normalize.mock.contexts.map((name) => String(name).length)
    normalize.mockRestore()
    expect(Math.max(...lengths)).toBeLessThanOrEqual(128)
  })

  it('may be null beside another spelling of it that holds nothing, and in what is read', async () => {
    const people = connect().model({ name: 'users', keyId, bind: false, fields: { birthDate: text().nullable() } })
    const row = { birthDate: null, birth_date: null }
    expect(await people.encrypt(row)).toEqual(row)
    expect(await people.decrypt({ birthDate: null, birth_date: '1815' })).toEqual({
      birthDate: null,
      birth_date: '1815',
    })
    const many = { keyId, fields: ['birthDate'], index: { birthDate: 'birth_date' } } as const
    const rows = [{ birthDate: null, birth_date: '0'.repeat(64) }]
    expect(await connect().encryptMany(rows, many)).toEqual([{ birthDate: null, birth_date: null }])
    expect(await connect().decryptMany([{ birthDate: null, birthdate: 'x' }], { fields: ['birthDate'] })).toEqual([
      { birthDate: null, birthdate: 'x' },
    ])
    expect(service.requests).toEqual([])
  })

  it('with dots is refused where a column has its very name and an object has it too', async () => {
    const row = { address: { street: 'x' }, 'address.street': 'SECRET' }
    const many = { keyId, fields: ['address.street'] } as { keyId: string; fields: never[] }
    for (const call of [() => peopleOf().encrypt(row), () => connect().encryptMany([row], many)]) {
      const error = await failure(call())
      expect(error).toMatchObject({ code: 'E_INVALID_INPUT', place: { index: 0, field: 'address.street' } })
      expect(error.message).not.toContain('SECRET')
    }
    expect(service.requests).toEqual([])
  })

  it('may be missing beside other columns, those of its index too', async () => {
    const people = peopleOf()
    const row: PlainRow<typeof people> = {
      birth: 'x',
      birthDates: 'y',
      birthDate2: 'z',
      phone2: '1',
      phone22: '2',
      address: { city: 'London' },
      Address: { city: 'Street' },
      Phone: null,
    } as object
    expect(await people.encrypt(row)).toEqual(row)
    expect(await people.encrypt({ birthDate: undefined, address: null as never })).toMatchObject({ address: null })
    expect(service.requests).toEqual([])
  })
})
