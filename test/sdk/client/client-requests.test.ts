// Which requests the calls of a client make, and how signals and `close` end them.
import { inspect } from 'node:util'
import { type Envelope, encodeBase64 } from '@eaas/protocol'
import { afterEach, describe, expect, it, vi } from 'vitest'
import vectors from '../../../packages/protocol/src/envelope.vectors.json' with { type: 'json' }
import { failure, keyId, useClients } from '../../../packages/sdk/src/test-support/clients.js'
import { API_KEY, problem, send } from '../../../packages/sdk/src/test-support/service.js'

const { service, connect } = useClients()

afterEach(() => {
  vi.restoreAllMocks()
  vi.unstubAllGlobals()
})

describe('requests', () => {
  it('what a client sealed itself it opens without a request', async () => {
    const eaas = connect()
    await eaas.decrypt(await eaas.encrypt('mine', { keyId }))
    expect(service.requests.map(({ operation }) => operation)).toEqual(['wrap'])
  })

  it('with `cache: false` each decryption is an unwrap, at once or one after the other', async () => {
    const eaas = connect({ deks: { cache: false } })
    const envelope = await eaas.encrypt('each', { keyId })
    await eaas.decrypt(envelope)
    await Promise.all([eaas.decrypt(envelope), eaas.decrypt(envelope), eaas.decrypt(envelope)])
    expect(service.count('unwrap')).toBe(4)
  })

  it('two clients share nothing', async () => {
    const envelope = await connect().encrypt('x', { keyId })
    await connect().decrypt(envelope)
    await connect().decrypt(envelope)
    expect(service.count('unwrap')).toBe(2)
  })

  it('a failed unwrap is not remembered', async () => {
    const envelope = await connect().encrypt('again', { keyId })
    const eaas = connect()
    service.intercept = (_, response) => {
      send(response, problem(403, 'Forbidden', 'E_MISSING_PERMISSION'))
      return true
    }
    expect((await failure(eaas.decrypt(envelope))).code).toBe('E_API')
    service.intercept = undefined
    expect(await eaas.decryptText(envelope)).toBe('again')
  })

  it('an altered envelope does not push the right DEK out of the cache', async () => {
    const eaas = connect()
    const envelope = await eaas.encrypt('kept', { keyId })
    const altered = { ...envelope, iv: encodeBase64(new Uint8Array(12)) }
    expect((await failure(eaas.decrypt(altered))).code).toBe('E_DECRYPTION')
    expect(await eaas.decryptText(envelope)).toBe('kept')
    expect(service.count('unwrap')).toBe(0)
  })

  it('after `maxMessages` a new DEK is taken, never the old one again', async () => {
    const eaas = connect({ deks: { maxMessages: 10 } })
    const envelopes: Envelope[] = []
    for (let at = 0; at < 95; at++) envelopes.push(await eaas.encrypt('x', { keyId }))
    const uses = new Map<string, number>()
    for (const { wrapped_key } of envelopes) uses.set(wrapped_key, (uses.get(wrapped_key) ?? 0) + 1)
    expect(Math.max(...uses.values())).toBe(10)
    expect(new Set(envelopes.map(({ wrapped_key }) => wrapped_key)).size).toBe(10)
    expect(new Set(service.wrappedDeks().map((dek) => dek.toString('hex'))).size).toBe(service.count('wrap'))
  })

  it('asks a function for the API key at each request', async () => {
    const keys = [API_KEY, API_KEY, 'eaas_sk_wrong', 'eaas_sk_wrong'] // asked once more after a 401
    const eaas = connect({ apiKey: async () => keys.shift() ?? '' })
    await eaas.keys.list()
    await eaas.keys.list()
    expect(await failure(eaas.keys.list())).toMatchObject({ code: 'E_API', httpStatus: 401, problem: 'E_UNAUTHORIZED' })
  })

  it('passes on what the function for the API key throws, and sends nothing', async () => {
    const reason = new Error('vault is sealed')
    const eaas = connect({ apiKey: () => Promise.reject(reason) })
    await expect(eaas.keys.list()).rejects.toBe(reason)
    expect(service.requests).toEqual([])
  })

  it.each(['', 'two words', 'line\nfeed', 'é', undefined])(
    'refuses %j as an API key without repeating it',
    async (wrong) => {
      const error = await failure(connect({ apiKey: () => wrong as string }).keys.list())
      expect(error.code).toBe('E_INVALID_INPUT')
      expect(service.requests).toEqual([])
      if (wrong) expect(inspect(error)).not.toContain(wrong)
    },
  )
})

describe('signals and close', () => {
  it('an aborted signal refuses before any network', async () => {
    const eaas = connect()
    const signal = AbortSignal.abort()
    const envelope = vectors.valid as Envelope
    const calls = [
      eaas.encrypt('x', { keyId, signal }),
      eaas.decrypt(envelope, { signal }),
      eaas.hash('x', { keyId, signal }),
      eaas.encryptMany([{ a: 'x' }], { keyId, fields: ['a'], signal }),
      eaas.decryptMany([{ a: envelope }], { fields: ['a'], signal }),
      eaas.keys.list({ signal }),
      eaas.audit.verify({ signal }),
    ]
    for (const call of calls) expect((await failure(call)).code).toBe('E_ABORTED')
    expect(service.requests).toEqual([])
  })

  it('close forgets the DEKs: what was sealed before can be neither read nor added to', async () => {
    const eaas = connect()
    const envelope = await eaas.encrypt('x', { keyId })
    eaas.close()
    const calls = [
      eaas.decrypt(envelope),
      eaas.encrypt('y', { keyId }),
      eaas.decryptMany([{ envelope }], { fields: ['envelope'] }),
    ]
    for (const call of calls) expect((await failure(call)).code).toBe('E_ABORTED')
  })

  it('aborting one of those who wait for a DEK leaves the others waiting', async () => {
    const eaas = connect()
    const controller = new AbortController()
    const aborted = failure(eaas.encrypt('a', { keyId, signal: controller.signal }))
    const served = eaas.encrypt('b', { keyId })
    controller.abort()
    expect((await aborted).code).toBe('E_ABORTED')
    expect(await eaas.decryptText(await served)).toBe('b')
    expect(service.count('wrap')).toBe(1)
  })

  it('one signal may be passed to any number of calls at once without a warning of a leak', async () => {
    const warnings: string[] = []
    const note = (warning: Error) => warnings.push(warning.name)
    process.on('warning', note)
    const envelope = await connect().encrypt('x', { keyId })
    const eaas = connect()
    const { signal } = new AbortController()
    await Promise.all(Array.from({ length: 50 }, () => eaas.decrypt(envelope, { signal })))
    await Promise.all(Array.from({ length: 50 }, (_, at) => eaas.hash(`${at}`, { keyId, signal })))
    await new Promise((resolve) => setTimeout(resolve, 20))
    process.off('warning', note)
    expect(warnings).toEqual([])
  })

  it('aborting a call that is under way ends it at once', async () => {
    service.intercept = () => true // never answers
    const controller = new AbortController()
    const call = failure(connect().keys.list({ signal: controller.signal }))
    setTimeout(() => controller.abort(), 20)
    expect((await call).code).toBe('E_ABORTED')
  })

  it('close ends what is under way, refuses what comes, and may be called twice', async () => {
    service.intercept = () => true
    const eaas = connect()
    const under = [
      eaas.keys.list(),
      eaas.encrypt('x', { keyId }),
      eaas.decrypt({ ...vectors.valid, key_id: keyId } as Envelope),
    ]
    const failures = Promise.all(under.map(failure))
    await expect.poll(() => service.requests.length).toBe(2) // wrap and unwrap are one
    eaas.close()
    eaas.close()
    for (const error of await failures) expect(error.code).toBe('E_ABORTED')
    const after = [eaas.keys.list(), eaas.encrypt('x', { keyId }), eaas.hash('x', { keyId })]
    for (const call of after) expect((await failure(call)).code).toBe('E_ABORTED')
  })
})
