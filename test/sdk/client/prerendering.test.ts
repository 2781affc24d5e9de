// A client at the top of a page's module, which is loaded by the build and by the server that renders the page, too.
import { afterEach, describe, expect, it, vi } from 'vitest'
import { createClient, isEaasError } from '../../../packages/sdk/src/index.js'
import { createTestService } from '../../../packages/sdk/src/testing.js'

afterEach(() => vi.unstubAllGlobals())

const KEY_ID = '0b54f9a4-6f0e-4c1c-9d2a-5e7a1c3b8f60'

describe('a client at the top of a module', () => {
  it.each([
    ['a path of the page', { baseUrl: '/api/eaas' }, 'baseUrl can be a path in pages'],
    ['no baseUrl', { baseUrl: undefined, apiKey: 'x' }, 'baseUrl is missing'],
    ['an empty baseUrl', { baseUrl: '', apiKey: 'x' }, 'baseUrl is missing'],
    ['no API key', { baseUrl: 'https://eaas.test', apiKey: undefined }, 'apiKey is missing'],
    ['an empty API key', { baseUrl: 'https://eaas.test', apiKey: '' }, 'apiKey must be text'],
  ])(
    'is made without a page and without an environment, and the first request says what is missing: %s',
    async (_, options, message) => {
      const fetch = vi.fn(globalThis.fetch)
      const eaas = createClient({ ...options, fetch })
      for (const call of [() => eaas.encrypt('x', { keyId: KEY_ID }), () => eaas.keys.list(), () => eaas.tenant()]) {
        const error: unknown = await call().catch((reason: unknown) => reason)
        expect(isEaasError(error) && [error.code, error.message, error.hint]).toEqual([
          'E_INVALID_INPUT',
          expect.stringContaining(message),
          expect.stringMatching(/\.$/),
        ])
      }
      expect(fetch).not.toHaveBeenCalled()
    },
  )

  it('works in the page once there is one, made before', async () => {
    const service = createTestService()
    const eaas = createClient({
      baseUrl: '/api/eaas',
      fetch: async (input, init) => {
        const request = new Request(input, init)
        expect(request.url).toBe('https://app.example.org/api/eaas/v1/tenant')
        return service.fetch(`${service.baseUrl}/v1/tenant`, { headers: { authorization: `Bearer ${service.apiKey}` } })
      },
    })
    vi.stubGlobal('location', { origin: 'https://app.example.org' })
    expect((await eaas.tenant()).name).toBe('test')
  })

  it('is still refused at once when what it is given is wrong', () => {
    expect(() => createClient({ baseUrl: '/api/eaas?x' })).toThrow('baseUrl')
    expect(() => createClient({ baseUrl: '//evil.example' })).toThrow('baseUrl')
    expect(() => createClient({ baseUrl: 'https://eaas.test', apiKey: 7 as unknown as string })).toThrow('apiKey')
  })
})
