import { afterEach, expect, it, vi } from 'vitest'
import { createClient } from '../index.js'
import { createTestService } from '../testing.js'

const service = createTestService()
const ENVIRONMENT = { EAAS_URL: service.baseUrl, EAAS_API_KEY: service.apiKey }

function setEnvironment(values: Record<string, string>) {
  for (const [name, value] of Object.entries(values)) vi.stubEnv(name, value)
}
afterEach(() => vi.unstubAllEnvs())

it('names the service of a client that is told of none, though it is filled later', async () => {
  const eaas = createClient({ fetch: service.fetch })
  await expect(eaas.keys.list()).rejects.toMatchObject({ message: 'EAAS_URL is not set in the environment' })
  setEnvironment({ EAAS_URL: service.baseUrl })
  await expect(eaas.keys.list()).rejects.toMatchObject({ message: 'EAAS_API_KEY is not set in the environment' })
  setEnvironment(ENVIRONMENT)
  expect((await eaas.keys.list()).keys).toEqual([])
})

it('says how to set it', () => {
  const hint = 'Run `npx @eaas/server dev`, or pass `baseUrl` and `apiKey`.'
  return expect(createClient().keys.list()).rejects.toMatchObject({ code: 'E_INVALID_INPUT', hint })
})

it('gives its API key to no service that the client was told of, and to none where the URL was forgotten', async () => {
  setEnvironment(ENVIRONMENT)
  for (const baseUrl of ['https://other.example.org', undefined, '']) {
    const fetch = vi.fn(service.fetch)
    await expect(createClient({ baseUrl, fetch }).keys.list()).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
    expect(fetch).not.toHaveBeenCalled()
  }
})

it('is followed by an API key that the client was given', async () => {
  setEnvironment({ ...ENVIRONMENT, EAAS_API_KEY: 'eaas_sk_wrong' })
  const eaas = createClient({ apiKey: service.apiKey, fetch: service.fetch })
  expect((await eaas.keys.list()).keys).toEqual([])
})

it.each(['http://eaas.example.org', 'eaas.example.org', 'https://user:word@example.org'])(
  'is refused where its URL is wrong: %s',
  async (url) => {
    setEnvironment({ ...ENVIRONMENT, EAAS_URL: url })
    const fetch = vi.fn(service.fetch)
    const refused = createClient({ fetch }).keys.list()
    await expect(refused).rejects.toMatchObject({ code: 'E_INVALID_INPUT', message: expect.stringMatching(/^baseUrl/) })
    expect(fetch).not.toHaveBeenCalled()
  },
)
