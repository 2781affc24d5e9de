// What becomes of a row that answers differently each time, has functions of its own, or is no record at all.
import { inspect } from 'node:util'
import { runInNewContext } from 'node:vm'
import { describe, expect, it } from 'vitest'
import { text } from '../index.js'
import { failure, keyId, useClients } from '../test-support/clients.js'
import { itemsOf } from '../test-support/items-of.js'

const { service, connect } = useClients()

/** Both ways to seal rows with an optional `email` and an optional `address.street`. */
function sealers() {
  const eaas = connect()
  const fields = { email: text().optional(), 'address.street': text().optional() }
  const users = eaas.model({ name: 'users', keyId, bind: false, fields })
  const options = { keyId, fields: Object.keys(fields), optional: Object.keys(fields) }
  return [
    async (row: unknown) => await users.encrypt(row as never),
    async (row: unknown) => (await eaas.encryptMany([row as never], options as never))[0],
  ]
}

/** Answers with nothing, but for the read of that number. */
function onlyAt(read: number, value: unknown) {
  let reads = 0
  return () => (++reads === read ? value : undefined)
}

describe('a row that is sealed', () => {
  it.each([1, 2, 3, 4, 5])('is read once: nothing is stored in plain that a getter gives at read %i', async (read) => {
    for (const seal of sealers()) {
      const email = onlyAt(read, 'PLAIN')
      const street = onlyAt(read, 'PLAIN')
      const row = {
        x: 'x',
        get email() {
          return email()
        },
        address: {
          city: 'London',
          get street() {
            return street()
          },
        },
      }
      const other = onlyAt(read, 'PLAIN')
      const proxy = new Proxy<object>({ email: '' }, { get: (_, name) => (name === 'email' ? other() : undefined) })
      for (const one of [await seal(row), await seal(proxy)]) expect(inspect(one, { depth: 5 })).not.toContain('PLAIN')
    }
  })

  it('is sealed as it was: what is filled in while its DEK is asked for is not stored in plain', async () => {
    for (const seal of sealers()) {
      const row: Record<string, unknown> = { x: 'x', address: { city: 'London' } }
      const other = { ...row, email: 'ada' }
      const sealing = seal(other)
      const timer = setInterval(() => Object.assign(other, { address: { street: 'PLAIN' } }), 1)
      const sealed = await sealing
      clearInterval(timer)
      expect(JSON.stringify(sealed)).not.toContain('PLAIN')
    }
  })

  it('is taken as it is at the call, and so is the list', async () => {
    const eaas = connect()
    const users = eaas.model({ name: 'users', keyId, bind: false, acceptUnbound: true, fields: { email: text() } })
    const row = { email: '' }
    const sealing = ['a', 'b'].map((email) => users.encrypt(Object.assign(row, { email })))
    const lists = [
      (list: { email: string }[]) => users.encryptMany(list),
      (list: { email: string }[]) => eaas.encryptMany(list, { keyId, envelope: 1, fields: ['email'] }),
    ].map((seal) => {
      const list = [{ email: 'c' }, { email: 'd' }]
      const done = seal(list)
      for (const one of list.splice(0)) one.email = 'changed'
      return done
    })
    const sealed = [...(await Promise.all(sealing)), ...(await Promise.all(lists)).flat()]
    const { ok } = await users.decryptMany(sealed)
    expect(ok.map(({ email }) => email)).toEqual(['a', 'b', 'c', 'd', 'c', 'd'])
  })

  it.each<[string, (email: string) => object, string]>([
    ['toJSON', (email) => ({ email, toJSON: () => ({ email }) }), '"toJSON"'],
    ['inspect.custom', (email) => ({ email, [inspect.custom]: () => email }), '"nodejs.util.inspect.custom"'],
    ['a function in an object', (street) => ({ address: { street, show: () => street } }), '"address.show"'],
  ])('is refused when it holds a function that could give the plaintext: %s', async (_, make, name) => {
    for (const seal of sealers()) {
      const error = await failure(seal(make('SECRET')))
      expect(error).toMatchObject({
        code: 'E_INVALID_INPUT',
        message: expect.stringContaining(`${name} is a function`),
      })
    }
    expect(service.requests).toEqual([])
  })

  it('is refused when its class has a field: what the class reads it from would be stored in plain', async () => {
    class User {
      _email = 'SECRET'
      get email() {
        return this._email
      }
    }
    class Home {
      _street = 'SECRET'
      get street() {
        return this._street
      }
    }
    const hidden = Object.defineProperty({}, 'email', { value: 'SECRET' })
    for (const seal of sealers()) {
      for (const row of [new User(), { address: new Home() }, Object.create({ email: 'SECRET' }), hidden]) {
        const field = 'address' in row ? 'address.street' : 'email'
        expect(await failure(seal(row))).toMatchObject({
          code: 'E_INVALID_INPUT',
          message: expect.stringContaining(`the row's ${field} is inherited from its class`),
          hint: expect.stringContaining('row.toObject()'),
          place: { index: 0, field },
        })
      }
    }
    expect(service.requests).toEqual([])
  })

  it('may be of a class, of another realm, and without a prototype; methods of its class are left behind', async () => {
    class User {
      email = 'ada'
      toJSON() {
        return { email: this.email }
      }
    }
    const bare = Object.assign(Object.create(null), { email: 'ada' })
    for (const seal of sealers()) {
      for (const row of [new User(), bare, runInNewContext('({ email: "ada" })')]) {
        expect(JSON.parse(JSON.stringify(await seal(row)))).toMatchObject({ email: { key_id: keyId } })
      }
    }
  })
})

describe('a stored row', () => {
  it('is refused when a field, or what an envelope consists of, is inherited', async () => {
    const eaas = connect()
    const users = eaas.model({ name: 'users', keyId, bind: false, fields: { email: text() } })
    const { email } = await users.encrypt({ email: 'ada' })
    const sub = Object.create(email) as typeof email // as the sub-documents of an ORM
    const { ciphertext, ...rest } = email
    const half = Object.assign(Object.create({ ciphertext }), rest) as typeof email
    service.requests.length = 0
    for (const row of [Object.create({ email }), { email: sub }, { email: half }] as { email: typeof email }[]) {
      expect(() => users.pack(row)).toThrow(expect.objectContaining({ code: 'E_INVALID_INPUT' }))
      const calls = [users.decrypt(row), eaas.decryptMany([row], { fields: ['email'] })]
      for (const call of calls) expect(await failure(call)).toMatchObject({ code: 'E_INVALID_INPUT' })
      expect(await itemsOf(users.rewrap([row]))).toMatchObject([{ status: 'failed' }])
    }
    for (const one of [sub, half]) {
      for (const call of [eaas.rewrap(one), eaas.decrypt(one)]) {
        expect(await failure(call)).toMatchObject({ code: 'E_INVALID_INPUT', hint: expect.stringContaining('plain') })
      }
    }
    const { envelope, ...packed } = users.pack({ email })
    for (const row of [{ ...packed, envelope: Object.create(envelope) }, Object.create({ ...packed, envelope })]) {
      expect(await failure(users.decrypt(row))).toMatchObject({ code: 'E_INVALID_INPUT' })
    }
    expect(() => users.unpack({ ...packed, envelope: Object.create(envelope) } as never)).toThrow('is missing')
    expect(() => users.unpack(Object.create({ ...packed, envelope }))).toThrow('is inherited')
    expect(service.requests).toEqual([])
  })
})

describe('what is no record', () => {
  it.each<[string, unknown]>([
    ['Map', new Map([['email', 'SECRET']])],
    ['Set', new Set(['SECRET'])],
    ['Date', new Date(0)],
    ['Uint8Array', new Uint8Array(1)],
    ['Promise', Promise.resolve({})],
    ['RegExp', /x/],
    ['Map', runInNewContext('new Map()')],
  ])('is refused with its kind, as a row and on a path: %s', async (kind, value) => {
    const eaas = connect()
    for (const seal of sealers()) {
      for (const row of [value, { address: value }]) {
        const error = await failure(seal(row))
        expect(error).toMatchObject({ code: 'E_INVALID_INPUT', message: expect.stringContaining(`of type ${kind}`) })
      }
    }
    const open = eaas.decryptMany([value as never], { fields: ['email' as never], optional: ['email' as never] })
    expect((await failure(open)).message).toContain(`of type ${kind}`)
    const users = eaas.model({ name: 'users', keyId, bind: false, fields: { email: text().optional() } })
    expect(await users.decryptMany([value as never])).toMatchObject({ ok: [], failed: [{ index: 0 }] })
    const list = [value, value].slice(kind === 'Promise' ? 2 : 1) as never[] // a list's promises are awaited
    for (const work of [users.rewrap(list), users.reseal(list)]) {
      expect(await itemsOf<object>(work)).toMatchObject(list.map(() => ({ status: 'failed' })))
    }
    expect(service.requests).toEqual([])
  })

  it('is among those that failed, a gap and a row that cannot be read too', async () => {
    const notes = connect().model({ name: 'users', keyId, bind: false, fields: { a: text() } })
    const row = await notes.encrypt({ a: 'a' })
    const torn = {
      get a(): never {
        throw new TypeError('SECRET')
      },
    }
    const list = [row, row, torn, row] as never[]
    delete list[1] // a gap
    const { ok, failed } = await notes.decryptMany(list)
    expect(ok).toEqual([{ a: 'a' }, { a: 'a' }])
    expect(failed.map(({ index, error }) => [index, error.code])).toEqual([
      [1, 'E_INVALID_INPUT'],
      [2, 'E_INVALID_INPUT'],
    ])
    expect(failed[1]?.error.message).not.toContain('SECRET')
    expect(await failure(notes.encrypt(torn))).toMatchObject({ code: 'E_INVALID_INPUT' })
  })

  it.each([null, undefined, 7, 'rows', {}])('is no list of rows either: rewrap and reseal of %j', async (list) => {
    const notes = connect().model({ name: 'users', keyId, bind: false, fields: { a: text() } })
    for (const work of [notes.rewrap(list as never), notes.reseal(list as never)]) {
      expect(await failure(work.next())).toMatchObject({ code: 'E_INVALID_INPUT' })
    }
  })
})
