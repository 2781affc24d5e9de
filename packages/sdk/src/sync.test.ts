// Encrypting and decrypting without a promise: what it gives, and what it says where it would have to wait.
import { afterEach, describe, expect, it, vi } from 'vitest'
import { type Client, text } from './index.js'
import { ColdError, decryptSync, decryptTextSync, encryptSync, warm } from './sync.js'
import { keyId, useClients } from './test-support/clients.js'

const { service, connect } = useClients()

afterEach(() => {
  vi.useRealTimers()
})

const caught = (run: () => unknown): { code?: string; message: string; hint?: string } => {
  try {
    run()
  } catch (error) {
    return error as Error
  }
  return expect.unreachable('it throws')
}

describe.each(['node', 'noble'] as const)('with engine %s', (engine) => {
  it('encrypts at once what the client decrypts, and the reverse, with and without a context', async () => {
    const eaas = connect({ engine })
    await warm(eaas, keyId)
    for (const bound of [{}, { context: { table: 'users' } }]) {
      const options = { keyId, ...bound }
      const envelope = encryptSync(eaas, 'secret', options)
      expect(await eaas.decryptText(envelope, bound)).toBe('secret')
      expect(decryptTextSync(eaas, await eaas.encrypt('other', options), bound)).toBe('other')
      expect(decryptSync(eaas, envelope, bound)).toEqual(new TextEncoder().encode('secret'))
    }
  })

  it('sends nothing once it is warm', async () => {
    const eaas = connect({ engine })
    await warm(eaas, keyId)
    service.requests.length = 0
    for (let at = 0; at < 100; at++) decryptSync(eaas, encryptSync(eaas, 'x', { keyId }))
    await warm(eaas, keyId)
    expect(service.requests).toEqual([])
  })
})

describe('where it would have to wait', () => {
  it('throws E_COLD, says what to await, and sends nothing', async () => {
    const eaas = connect()
    const first = caught(() => encryptSync(eaas, 'x', { keyId }))
    expect(first).toBeInstanceOf(ColdError)
    expect(first).toMatchObject({ code: 'E_COLD', hint: expect.stringContaining('warm(client, keyId)') })
    await new Promise((resolve) => setImmediate(resolve))
    expect(service.requests).toEqual([])
    await warm(eaas, keyId)
    expect(encryptSync(eaas, 'x', { keyId })).toMatchObject({ envelope_version: 2 })
    expect(caught(() => encryptSync(eaas, 'x', { keyId: service.createKey() })).code).toBe('E_COLD') // of another key
  })

  it('decrypts what another client sealed only once that was decrypted', async () => {
    const envelope = await connect().encrypt('x', { keyId })
    const eaas = connect()
    await warm(eaas, keyId)
    service.requests.length = 0
    expect(caught(() => decryptSync(eaas, envelope))).toMatchObject({
      code: 'E_COLD',
      hint: expect.stringContaining('decrypt()'),
    })
    expect(service.requests).toEqual([])
    await eaas.decrypt(envelope)
    expect(decryptTextSync(eaas, envelope)).toBe('x')
  })

  it.each(['shared', 'record'] as const)('decrypts what a model sealed under a DEK of the scope %s', async (dek) => {
    const modelOf = (eaas: Client) =>
      eaas.model({ name: 'users', keyId, bind: ['id'], dek, fields: { email: text(), phone: text() } })
    const row = await modelOf(connect()).encrypt({ id: 7, email: 'ada@example.org', phone: '1' })
    const contextOf = (field: string) => ({ model: 'users', field, 'row.id': '7' })
    for (const read of [
      (eaas: Client) => eaas.decryptText(row.phone, { context: contextOf('phone') }),
      (eaas: Client) => modelOf(eaas).decrypt(row),
    ]) {
      const eaas = connect()
      expect(caught(() => decryptSync(eaas, row.email, { context: contextOf('email') })).code).toBe('E_COLD')
      await read(eaas)
      service.requests.length = 0
      expect(decryptTextSync(eaas, row.email, { context: contextOf('email') })).toBe('ada@example.org')
      await read(eaas)
      expect(await eaas.decryptText(row.email, { context: contextOf('email') })).toBe('ada@example.org')
      expect(service.requests).toEqual([])
    }
  })

  it('is cold again when the DEK has served its time or its messages', async () => {
    const eaas = connect({ deks: { maxMessages: 2 } })
    await warm(eaas, keyId)
    encryptSync(eaas, 'x', { keyId })
    await vi.waitFor(() => encryptSync(eaas, 'x', { keyId }), { timeout: 20_000 }) // the next DEK, made in advance
    const old = connect({ deks: { maxAgeMs: 1 } })
    await warm(old, keyId)
    await new Promise((resolve) => setTimeout(resolve, 5))
    expect(caught(() => encryptSync(old, 'x', { keyId })).code).toBe('E_COLD')
  })

  it('never keeps a DEK for reading without a cache', async () => {
    const eaas = connect({ deks: { cache: false } })
    const envelope = await eaas.encrypt('x', { keyId })
    await eaas.decrypt(envelope)
    expect(caught(() => decryptSync(eaas, envelope)).code).toBe('E_COLD')
  })
})

describe('what it refuses', () => {
  it('is an engine that is asynchronous', async () => {
    const eaas = connect({ engine: 'web' })
    await expect(warm(eaas, keyId)).rejects.toThrow(/WebCrypto, which is asynchronous/)
    const envelope = await eaas.encrypt('x', { keyId })
    expect(caught(() => encryptSync(eaas, 'x', { keyId })).message).toMatch(/WebCrypto, which is asynchronous/)
    expect(caught(() => decryptSync(eaas, envelope)).message).toMatch(/WebCrypto, which is asynchronous/)
  })

  it('is what encrypt and decrypt refuse', async () => {
    const eaas = connect()
    await warm(eaas, keyId)
    const envelope = encryptSync(eaas, 'x', { keyId, context: { a: 'b' } })
    expect(caught(() => decryptSync(eaas, envelope)).code).toBe('E_DECRYPTION')
    expect(caught(() => decryptSync(eaas, envelope, { context: { a: 'c' } })).code).toBe('E_DECRYPTION')
    expect(caught(() => encryptSync(eaas, '\ud800', { keyId })).code).toBe('E_INVALID_INPUT')
    expect(caught(() => encryptSync(eaas, 'x', { keyId: 'users' })).code).toBe('E_INVALID_INPUT')
    expect(caught(() => encryptSync(eaas, 'x', { keyId, dek: 'call' } as never)).message).toMatch(/no option "dek"/)
    expect(caught(() => encryptSync({} as never, 'x', { keyId })).message).toMatch(/must be a client/)
  })

  it('is a closed client, which is not the same as a cold one', async () => {
    const eaas = connect()
    await warm(eaas, keyId)
    eaas.close()
    expect(caught(() => encryptSync(eaas, 'x', { keyId })).code).toBe('E_ABORTED')
  })
})
