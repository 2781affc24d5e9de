// A broker's options are checked when it is made, or reported at the first request.
import { describe, expect, it } from 'vitest'
import { ask, makeBroker, serveBroker, service, useBroker, wrapBody, wrapPath } from '../test-support/broker.js'

useBroker()

describe('the options of a broker', () => {
  it.each<[string, Record<string, unknown>]>([
    ['baseUrl', { baseUrl: '/api' }],
    ['baseUrl', { baseUrl: 'https://user:pass@host' }],
    ['apiKey', { apiKey: 7 }],
    ['authenticate', { authenticate: undefined }],
    ['allow', { allow: undefined }],
    ['allow', { allow: { decrypt: [] } }],
    ['allow', { allow: { wrap: ['users'] } }],
    ['allow', { allow: { wrap: 7 } }],
    ['allow', { allow: { wrap: null } }],
    ['basePath', { basePath: '/api/' }],
    ['basePath', { basePath: 'api' }],
    ['basePath', { basePath: '/a/../b' }],
    ['origins', { origins: ['https://app.example.org/'] }],
    ['origins', { origins: ['*'] }],
    ['origins', { origins: 7 }],
    ['fetch', { fetch: 'fetch' }],
    ['onError', { onError: 'console' }],
    ['maxBodyBytes', { maxBodyBytes: 0 }],
    ['callsPerMinute', { limits: { callsPerMinute: 0 } }],
    ['timeoutMs', { timeoutMs: 0.5 }],
  ])('are checked: %s', (name, options) => {
    expect(() => makeBroker(options)).toThrow(
      expect.objectContaining({ code: 'E_INVALID_INPUT', message: expect.stringContaining(name) }),
    )
  })
})

describe('a broker at the top of a module', () => {
  it.each([
    ['baseUrl', { baseUrl: undefined }],
    ['baseUrl', { baseUrl: '' }],
    ['apiKey', { apiKey: undefined }],
  ])('is made where the environment is missing, and reports it at the first request: %s', async (name, options) => {
    const errors: unknown[] = []
    serveBroker({ ...options, onError: (error) => errors.push(error) })
    const { status, text } = await ask(wrapPath(), wrapBody)
    expect([status, text.includes(name)]).toEqual([500, false])
    expect(errors).toMatchObject([{ code: 'E_INVALID_INPUT', message: expect.stringContaining(`${name} is missing`) }])
    expect(service.requests).toEqual([])
  })
})
