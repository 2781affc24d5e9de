import { describe, expect, it } from 'vitest'
import { bytes, json } from '../../../packages/sdk/src/index.js'
import { readJson } from '../../../packages/sdk/src/json.js'
import { clientsOf, failure, useService } from '../../../packages/sdk/src/test-support/clients.js'

const service = useService()
const connect = clientsOf(service)

class Point {
  x = 1
}
class List extends Array<number> {}
const cycle: Record<string, unknown> = { a: 1 }
cycle.self = { inner: cycle }

describe('JSON that would not give back what was sealed', () => {
  it.each<[string, unknown, string]>([
    ['a Map', { limits: [1, new Map([['SECRET', 1]])] }, 'value.limits[1], which is a value of type Map'],
    ['a Set', new Set(['SECRET']), 'value, which is a value of type Set'],
    ['an ArrayBuffer', { a: new ArrayBuffer(1) }, 'value.a, which is a value of type ArrayBuffer'],
    ['a DataView', { a: new DataView(new ArrayBuffer(1)) }, 'value.a, which is a value of type DataView'],
    ['a Uint8Array', { a: new Uint8Array(1) }, 'value.a, which is a value of type Uint8Array'],
    ['a Blob', { a: new Blob(['SECRET']) }, 'value.a, which is a value of type Blob'],
    ['an instance of a class', [new Point()], 'value[0], which is an instance of a class'],
    ['an instance of a class of arrays', new List(), 'value, which is an instance of a class'],
    ['what inherits', Object.create({ a: 'SECRET' }), 'value, which is an instance of a class'],
    ['NaN', { a: { 'b c': Number.NaN } }, 'value.a["b c"], which is NaN'],
    ['Infinity', [Number.POSITIVE_INFINITY], 'value[0], which is Infinity'],
    ['a Date', { at: new Date() }, 'value.at, which is a Date'],
    ['what has a toJSON', { a: new URL('https://x.test') }, 'value.a, which is an object with a toJSON method'],
    ['undefined', undefined, 'value, which is undefined'],
    ['undefined in an array', [undefined], 'value[0], which is undefined'],
    // biome-ignore lint/suspicious/noSparseArray: on purpose
    ['a gap', [1, , 2], 'value, which is an array with gaps or named members'],
    ['an array with names', Object.assign([1], { index: 0 }), 'value, which is an array with gaps or named members'],
    [
      'a gap and a name',
      Object.assign(Array(2), { 0: 1, x: 1 }),
      'value, which is an array with gaps or named members',
    ],
    ['a hidden member', Object.defineProperty({}, 'a', { value: 1 }), 'value, which is an object with a hidden member'],
    ['a bigint', { a: 1n }, 'value.a, which is bigint'],
    ['a function', { a: () => 'SECRET' }, 'value.a, which is function'],
    ['a symbol', { a: Symbol('SECRET') }, 'value.a, which is symbol'],
    ['the name of a symbol', { [Symbol('SECRET')]: 1 }, 'value, which is an object with a symbol'],
    ['a text as an object', { a: new String('SECRET') }, 'value.a, which is a value of type String'],
    ['a cycle', cycle, 'value.self.inner, which is an object that contains itself'],
  ])('is refused with its path: %s', async (_, value, where) => {
    const keyId = service.createKey()
    const model = connect().model({ name: 'users', keyId, bind: false, fields: { a: json() } })
    for (const call of [connect().encryptJson(value, { keyId }), model.encrypt({ a: value ?? new Map() })]) {
      const error = await failure(call)
      expect(error.code).toBe('E_INVALID_INPUT')
      expect(error.message).not.toContain('SECRET')
    }
    expect((await failure(connect().encryptJson(value, { keyId }))).message).toBe(`JSON cannot represent ${where}`)
    expect(service.requests).toEqual([])
  })

  it('may have one object in several places', () => {
    const shared = { a: 1 }
    expect(readJson({ x: shared, y: [shared, shared] })).toBe('{"x":{"a":1},"y":[{"a":1},{"a":1}]}')
  })

  it('is refused where it is nested deeper than the platform goes', async () => {
    let value: unknown = 1
    for (let depth = 0; depth < 50_000; depth++) value = [value]
    const error = await failure(connect().encryptJson(value, { keyId: service.createKey() }))
    expect(error).toMatchObject({ code: 'E_INVALID_INPUT', message: expect.stringContaining('nested too deeply') })
  })

  it('is read once: what a getter gives is what is sealed', async () => {
    const keyId = service.createKey()
    const eaas = connect()
    let reads = 0
    const value = {
      get a() {
        return reads++ === 0 ? 'first' : new Map()
      },
    }
    expect(await eaas.decryptJson(await eaas.encryptJson(value, { keyId }))).toEqual({ a: 'first' })
  })

  it('is not what only leaves undefined members and the sign of zero out', async () => {
    const keyId = service.createKey()
    const eaas = connect()
    const shared = { x: [true, null, 'a\ud800'] }
    const value = Object.assign(Object.create(null), { a: undefined, b: -0, c: shared, d: shared, ['__proto__']: 1 })
    expect(await eaas.decryptJson(await eaas.encryptJson(value, { keyId }))).toEqual(JSON.parse(JSON.stringify(value)))
  })
})

describe('bytes', () => {
  it('may be an ArrayBuffer, and any view: what is sealed is the part of the memory that they show', async () => {
    const keyId = service.createKey()
    const eaas = connect()
    const { buffer } = Uint8Array.of(9, 1, 2, 3, 4, 9)
    const whole = Uint8Array.of(9, 1, 2, 3, 4, 9)
    const part = Uint8Array.of(1, 2, 3, 4).subarray(1)
    const shorts = new Uint16Array(buffer, 2, 2)
    for (const [value, expected] of [
      [buffer, whole],
      [new DataView(buffer, 1, 4), whole.subarray(1, 5)],
      [shorts, whole.subarray(2)],
      [part, part],
      [new ArrayBuffer(0), new Uint8Array(0)],
    ] as const) {
      expect(await eaas.decrypt(await eaas.encrypt(value, { keyId }))).toEqual(new Uint8Array(expected))
    }
    const photos = eaas.model({ name: 'users', keyId, bind: false, fields: { photo: bytes() } })
    expect(await photos.decrypt(await photos.encrypt({ photo: buffer }))).toEqual({ photo: whole })
    const [row] = await eaas.encryptMany([{ photo: shorts }], { keyId, fields: ['photo'] })
    expect(row && (await eaas.decrypt(row.photo))).toEqual(whole.slice(2))
  })
})
