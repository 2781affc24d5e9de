import { describe, expect, it } from 'vitest'
import { createBroker } from '../broker.js'
import { createClient } from '../index.js'

const broker = { apiKey: 'k', authenticate: () => ({ id: 'ada' }), allow: {} }

describe('a base URL', () => {
  it('that is a URL object is refused with what to pass instead', () => {
    const baseUrl = new URL('https://eaas.example.org') as never
    for (const make of [() => createClient({ baseUrl, apiKey: 'k' }), () => createBroker({ ...broker, baseUrl })]) {
      const hint = expect.stringContaining('`href`')
      expect(make).toThrow(expect.objectContaining({ message: 'baseUrl must be text, got an object', hint }))
    }
  })
})

describe('http', () => {
  it.each(['localhost', 'eaas.localhost', '127.0.0.1', '127.1', '127.8.9.10', '[::1]'])(
    'is taken on this machine: %s',
    (host) => {
      createClient({ baseUrl: `http://${host}:8420`, apiKey: 'k' }).close()
      createBroker({ ...broker, baseUrl: `http://${host}:8420` })
    },
  )

  it.each([
    'eaas.example.org',
    'eaas',
    '10.0.0.7',
    '[fd00::1]',
    'localhost.example.org',
    '127.0.0.1.example.org',
    'mylocalhost',
    'localhost.',
  ])('to another machine is refused unless allowInsecure says so: %s', (host) => {
    const baseUrl = `http://${host}:8420/eaas`
    const refusal = expect.objectContaining({
      code: 'E_INVALID_INPUT',
      hint: expect.stringContaining('allowInsecure: true'),
    })
    expect(() => createClient({ baseUrl, apiKey: 'k' })).toThrow(refusal)
    expect(() => createBroker({ ...broker, baseUrl })).toThrow(refusal)
    createClient({ baseUrl, apiKey: 'k', allowInsecure: true }).close()
    createBroker({ ...broker, baseUrl, allowInsecure: true })
    expect(() => createClient({ baseUrl, apiKey: 'k', allowInsecure: 'yes' as never })).toThrow('true or false')
  })
})
