import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import { type Client, text } from '../index.js'
import { encryptStream } from '../streams.js'
import { keyId, useClients } from '../test-support/clients.js'
import { type Intercept, problem, send } from '../test-support/service.js'
import { chunked, collect } from '../test-support/stream-bytes.js'

const { service, connect } = useClients()

const operations = () => service.requests.map(({ operation }) => operation)

describe('a DEK of its own', () => {
  it('is made for each value that asks for one, those of one turn in one request, and opens again', async () => {
    const eaas = connect()
    const values = Array.from({ length: 20 }, (_, at) => `value ${at}`)
    const envelopes = await Promise.all(values.map((value) => eaas.encrypt(value, { keyId, dek: 'call' })))
    expect(operations()).toEqual(['batch'])
    expect(new Set(service.wrappedDeks().map((dek) => dek.toString('hex'))).size).toBe(20)
    expect(await Promise.all(envelopes.map((envelope) => connect().decryptText(envelope)))).toEqual(values)
  })

  it('is one for a call on many records, or one for each', async () => {
    const eaas = connect()
    const list = Array.from({ length: 30 }, (_, at) => ({ a: `${at}`, b: 'b' }))
    for (const [dek, count] of [
      ['call', 1],
      ['record', 30],
    ] as const) {
      service.requests.length = 0
      const rows = await eaas.encryptMany(list, { keyId, fields: ['a', 'b'], dek })
      expect(service.count('wrap')).toBe(count)
      expect(service.requests.length).toBe(1)
      expect(new Set(rows.flatMap(({ a, b }) => [a.wrapped_key, b.wrapped_key])).size).toBe(count)
      expect(await connect().decryptMany(rows, { fields: ['a', 'b'] })).toEqual(list)
    }
  })

  it('is refused when the scope is none', async () => {
    const dek = 'row' as 'record'
    await expect(connect().encrypt('x', { keyId, dek })).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
    const rows = connect().encryptMany([{ a: 'x' }], { keyId, fields: ['a'], dek })
    await expect(rows).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
    expect(service.requests).toEqual([])
  })
})

describe('a service that lies when it wraps', () => {
  /** Answers wrap with the wrapped key of something else. */
  const lie = (wrapped_key: string): Intercept => {
    return ({ operation }, response) => {
      if (operation !== 'wrap') return false
      send(response, { status: 200, body: { wrapped_key, key_id: keyId, key_version: 1 } })
      return true
    }
  }

  it.each(['shared', 'call', 'record'] as const)(
    'is found out before anything is sealed when `verify` is on, with a DEK that is %s',
    async (dek) => {
      const { wrapped_key } = await connect().encrypt('other', { keyId })
      service.intercept = lie(wrapped_key)
      const eaas = connect({ deks: { verify: true } })
      const error: unknown = await eaas.encrypt('x', { keyId, dek }).catch((reason: unknown) => reason)
      expect(error).toMatchObject({ code: 'E_PROTOCOL' })
      for (const sent of service.wrappedDeks()) expect(inspect(error)).not.toContain(sent.toString('base64'))
      service.intercept = lie('AAAA')
      await expect(eaas.encrypt('x', { keyId, dek })).rejects.toMatchObject({ code: 'E_PROTOCOL' })
      service.intercept = undefined
      expect(await connect().decryptText(await eaas.encrypt('x', { keyId, dek }))).toBe('x')
    },
  )

  it.each<[string, (eaas: Client) => Promise<unknown>]>([
    ['a value', (eaas) => eaas.encrypt('x', { keyId })],
    ['a value with a DEK of its own', (eaas) => eaas.encrypt('x', { keyId, dek: 'call' })],
    ['many values', (eaas) => eaas.encryptMany([{ a: 'x' }], { keyId, fields: ['a'], dek: 'record' })],
    ['a row', (eaas) => eaas.model({ name: 'm', keyId, bind: false, fields: { a: text() } }).encrypt({ a: 'x' })],
    [
      'a stream',
      (eaas) => collect(chunked(new Uint8Array(1)).pipeThrough(encryptStream(eaas, { keyId, context: {} }))),
    ],
  ])('is refused without `verify` too when the wrapped key holds the DEK in clear: %s', async (_, run) => {
    for (const [first, last] of [
      [0, 0],
      [1, 0],
      [17, 16],
    ] as const) {
      service.intercept = ({ operation, body }, response) => {
        if (operation === 'batch' || operation !== 'wrap') return false
        const { dek } = JSON.parse(body) as { dek: string }
        const bytes = Buffer.concat([Buffer.alloc(first, 2), Buffer.from(dek, 'base64'), Buffer.alloc(last, 2)])
        send(response, { status: 200, body: { wrapped_key: bytes.toString('base64'), key_id: keyId, key_version: 1 } })
        return true
      }
      const error: unknown = await run(connect()).catch((reason: unknown) => reason)
      expect(error).toMatchObject({ code: 'E_PROTOCOL', message: expect.stringContaining('in clear') })
      for (const sent of service.wrappedDeks()) expect(inspect(error)).not.toContain(sent.toString('base64'))
    }
  })

  it('is refused without `verify` too when the wrapped key opens without the use that was stated', async () => {
    service.intercept = lie(Buffer.alloc(65, 1).toString('base64'))
    await connect().encrypt('x', { keyId }) // states none
    const sealed = collect(chunked(new Uint8Array(1)).pipeThrough(encryptStream(connect(), { keyId, context: {} })))
    await expect(sealed).rejects.toMatchObject({
      code: 'E_PROTOCOL',
      message: expect.stringContaining('without the use'),
    })
  })

  it('makes data unreadable when it is off, as documented', async () => {
    service.intercept = lie('AAAA')
    const envelope = await connect().encrypt('x', { keyId })
    await expect(connect().decrypt(envelope)).rejects.toMatchObject({
      code: 'E_DECRYPTION',
      cause: { httpStatus: 403 },
    })
  })

  it('costs an honest one an unwrap for each DEK', async () => {
    const eaas = connect({ deks: { verify: true } })
    await Promise.all([eaas.encrypt('x', { keyId }), eaas.encrypt('y', { keyId })])
    expect(operations()).toEqual(['wrap', 'unwrap'])
  })

  it('seals nothing when the verification cannot be made', async () => {
    service.intercept = ({ operation }, response) => {
      if (operation !== 'unwrap') return false
      send(response, problem(403, 'Forbidden', 'E_MISSING_PERMISSION'))
      return true
    }
    const eaas = connect({ deks: { verify: true } })
    await expect(eaas.encrypt('x', { keyId })).rejects.toMatchObject({ problem: 'E_MISSING_PERMISSION' })
  })
})
