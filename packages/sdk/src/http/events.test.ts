import { AsyncLocalStorage } from 'node:async_hooks'
import { ROUTES } from '@eaas/protocol'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { type Client, type ClientEvent, createClient } from '../index.js'
import { calls, connect, keyId, service, stored, useEveryCall } from '../test-support/every-call.js'
import { problem, send } from '../test-support/service.js'

useEveryCall()

let events: ClientEvent[]
const onEvent = (event: ClientEvent) => void events.push(event)
beforeEach(() => {
  events = []
})
afterEach(() => {
  vi.restoreAllMocks()
})

const OPERATIONS = Object.keys(ROUTES)
const MEMBERS = 'type operation keyId durationMs status problem requestId code attempt'.split(' ')

/**
 * Every text in the events must be one of these. What is none, such as a value, a wrapped key or a secret, is
 * named.
 */
function expectOnlyNames(others: readonly string[]): void {
  const types = ['call', 'refusal', 'failure', 'retry', 'hit']
  const known = new Set<unknown>([...types, ...OPERATIONS, keyId, ...others])
  for (const event of events) {
    expect(Object.keys(event).filter((name) => !MEMBERS.includes(name))).toEqual([])
    const texts = Object.values(event).filter((value) => typeof value !== 'number' && value !== undefined)
    expect(texts.filter((text) => !known.has(text))).toEqual([])
  }
}

/** Makes the service answer so in place of itself. */
function answerWith(status: number, code: string): void {
  service.intercept = (_, response) => {
    send(response, problem(status, 'Refused', code, `SECRET ${stored.wrapped_key}`))
    return true
  }
}

describe.each(calls)('the events of %s', (name, repeatable, run) => {
  it('say that it succeeded and how long it took, and hold no value, key or secret', async () => {
    const operations = name === 'batch' ? 2 : 1
    await run(connect({ onEvent })).catch(() => undefined) // the service of the tests lacks keys and routes that some calls need
    const ended = events.filter(({ type }) => type !== 'hit')
    expect(ended).toHaveLength(operations)
    for (const event of ended) {
      expect(event).toMatchObject({ operation: expect.any(String), durationMs: expect.any(Number) })
      expect('durationMs' in event && event.durationMs).toBeGreaterThan(0)
    }
    expectOnlyNames(['E_NOT_FOUND', 'E_ROUTE_NOT_FOUND', 'E_VALIDATION', 'E_PROTOCOL', 'req-1'])
  })

  it('say that it was refused, with the code of the service and without its words', async () => {
    answerWith(403, 'E_MISSING_PERMISSION')
    await expect(run(connect({ onEvent }))).rejects.toMatchObject({ code: 'E_API' })
    const refusal = { type: 'refusal', status: 403, problem: 'E_MISSING_PERMISSION', requestId: 'req-1' }
    expect(events[0]).toMatchObject(refusal)
    expectOnlyNames(['E_MISSING_PERMISSION', 'req-1'])
  })

  it('say how often it was tried, and that it failed', async () => {
    service.intercept = (_, response) => {
      response.destroy()
      return true
    }
    await expect(run(connect({ onEvent, retries: 2 }))).rejects.toMatchObject({ code: 'E_NETWORK' })
    const retries = events.flatMap((event) => (event.type === 'retry' ? [event] : []))
    expect(retries.map(({ attempt, status }) => [attempt, status])).toEqual(
      repeatable ? [[1, undefined], [2, undefined]] : [], // biome-ignore format: one line
    )
    expect(events.at(-1)).toMatchObject({ type: 'failure', code: 'E_NETWORK' })
    expectOnlyNames(['E_NETWORK'])
  })
})

describe('an event', () => {
  it('names the key, and not an API key', async () => {
    const eaas = connect({ onEvent })
    await eaas.encrypt('SECRET', { keyId })
    await eaas.hash('SECRET', { keyId })
    await eaas.keys.get(keyId)
    await eaas.server.decrypt(stored)
    await eaas.apiKeys.revoke(keyId)
    expect(events.map((event) => [event.type, event.operation, event.keyId])).toEqual([
      ['call', 'wrap', keyId],
      ['call', 'hash', keyId],
      ['call', 'getKey', keyId],
      ['call', 'decrypt', keyId],
      ['call', 'revokeApiKey', undefined],
    ])
  })

  it('of a retry has the status of the answer, and the name of the batch where it is one', async () => {
    let left = 2
    service.intercept = (_, response) => {
      if (left-- > 0) send(response, problem(503, 'Busy', 'E_UNAVAILABLE'))
      return left >= 0
    }
    const eaas = connect({ onEvent })
    await Promise.all([eaas.hash('a', { keyId }), eaas.hash('b', { keyId })])
    expect(events).toMatchObject([
      { type: 'retry', operation: 'batch', keyId: undefined, attempt: 1, status: 503 },
      { type: 'retry', operation: 'batch', attempt: 2, status: 503 },
      { type: 'call', operation: 'hash', keyId },
      { type: 'call', operation: 'hash', keyId },
    ])
  })

  it('of a wrapped key that is not authentic is a refusal, although the caller gets E_DECRYPTION', async () => {
    answerWith(403, 'E_WRAPPED_KEY')
    await expect(connect({ onEvent }).decrypt(stored)).rejects.toMatchObject({ code: 'E_DECRYPTION' })
    expect(events).toMatchObject([{ type: 'refusal', operation: 'unwrap', problem: 'E_WRAPPED_KEY', status: 403 }])
  })

  it('of a call that was aborted with an error of the service is a failure', async () => {
    answerWith(403, 'E_MISSING_PERMISSION')
    const error: unknown = await connect()
      .keys.list()
      .catch((reason: unknown) => reason)
    const eaas = connect({ onEvent })
    const controller = new AbortController()
    service.intercept = () => {
      controller.abort(error)
      return true
    }
    await expect(eaas.keys.list({ signal: controller.signal })).rejects.toMatchObject({ code: 'E_ABORTED' })
    expect(events).toMatchObject([{ type: 'failure', code: 'E_ABORTED' }])
  })

  it('of an `apiKey` function that threw has no code, and not its words', async () => {
    const apiKey = () => Promise.reject(new Error('SECRET'))
    await expect(connect({ onEvent, apiKey }).keys.list()).rejects.toThrow('SECRET')
    expect(events).toEqual([
      { type: 'failure', code: undefined, operation: 'listKeys', keyId: undefined, durationMs: expect.any(Number) },
    ])
  })

  it('arrives in the context of its own caller, also where callers share a batch', async () => {
    const context = new AsyncLocalStorage<string>()
    const seen: unknown[] = []
    const eaas = connect({ onEvent: ({ operation }) => void seen.push([operation, context.getStore()]) })
    await Promise.all([
      context.run('first', () => eaas.hash('a', { keyId })),
      context.run('second', () => eaas.hash('b', { keyId })),
    ])
    await context.run('third', () => eaas.keys.list())
    expect(service.requests.map(({ operation }) => operation)).toEqual(['batch', 'list'])
    expect(seen).toEqual([
      ['hash', 'first'],
      ['hash', 'second'],
      ['listKeys', 'third'],
    ])
  })
})

describe('a hit', () => {
  it('is each use of a DEK at hand', async () => {
    const eaas = connect({ onEvent })
    const first = await eaas.encrypt('a', { keyId })
    await eaas.encrypt('b', { keyId })
    await eaas.decrypt(first)
    await eaas.decrypt(stored)
    await eaas.decryptMany([{ a: stored }, { a: stored }], { fields: ['a'] })
    expect(events.map(({ type, operation }) => [type, operation])).toEqual([
      ['call', 'wrap'],
      ['hit', 'wrap'],
      ['hit', 'unwrap'],
      ['call', 'unwrap'],
      ['hit', 'unwrap'],
    ])
    expect(events.filter(({ type }) => type === 'hit').every((event) => event.keyId === keyId)).toBe(true)
  })

  it('does not come between a DEK and its use: whoever closes the client there encrypts under the right DEK', async () => {
    let closed: Client | undefined
    const eaas = connect({ onEvent: ({ type }) => type === 'hit' && closed?.close() })
    const first = await eaas.encrypt('SECRET', { keyId })
    closed = eaas
    const second = await eaas.encrypt('SECRET', { keyId })
    expect(second.wrapped_key).toBe(first.wrapped_key)
    expect(await connect().decryptText(second)).toBe('SECRET')
    await expect(eaas.encrypt('SECRET', { keyId })).rejects.toMatchObject({ code: 'E_ABORTED' })
  })

  it('does not come between a DEK and its use: whoever closes the client there decrypts', async () => {
    let closed: Client | undefined
    const eaas = connect({ onEvent: ({ type }) => type === 'hit' && closed?.close() })
    const envelope = await eaas.encrypt('SECRET', { keyId })
    closed = eaas
    expect(await eaas.decryptText(envelope)).toBe('SECRET')
  })
})

describe('onEvent', () => {
  const listeners = {
    throws: () => {
      throw new Error('of the listener')
    },
    rejects: () => Promise.reject(new Error('of the listener')),
  }

  it.each(Object.entries(listeners))('that %s fails no call, and is reported once', async (_, listener) => {
    const printed = vi.spyOn(console, 'error').mockReturnValue(undefined)
    const eaas = connect({ onEvent: listener })
    const envelope = await eaas.encrypt('SECRET', { keyId })
    expect(await eaas.decryptText(envelope)).toBe('SECRET')
    await eaas.keys.list()
    answerWith(403, 'E_MISSING_PERMISSION')
    await expect(eaas.keys.list()).rejects.toMatchObject({ code: 'E_API' })
    await new Promise((resolve) => setImmediate(resolve)) // a rejection that nobody handles would fail the run
    expect(printed.mock.calls).toEqual([[expect.stringContaining('onEvent threw'), new Error('of the listener')]])
  })

  it('that returns a promise delays no retry', async () => {
    service.intercept = (_, response) => {
      service.intercept = undefined
      send(response, problem(503, 'Busy', 'E_UNAVAILABLE'))
      return true
    }
    const seen: string[] = []
    const onEvent = ({ type }: ClientEvent) => {
      seen.push(type)
      return new Promise<void>(() => undefined)
    }
    await connect({ onEvent, timeoutMs: 2_000 }).keys.list()
    expect(seen).toEqual(['retry', 'call'])
  })

  it('must be a function', () => {
    expect(() => createClient({ baseUrl: 'https://eaas.test', onEvent: 'log' as never })).toThrow(
      'onEvent must be a function',
    )
  })
})
