import { afterEach, describe, expect, it, vi } from 'vitest'
import { type ClientOptions, createClient, type Fetch } from '../index.js'
import { createTestService } from '../testing.js'

const service = createTestService()
const ENVIRONMENT = { EAAS_URL: service.baseUrl, EAAS_API_KEY: service.apiKey }

function setEnvironment(values: Record<string, string>) {
  for (const [name, value] of Object.entries(values)) vi.stubEnv(name, value)
}
afterEach(() => {
  vi.unstubAllEnvs()
  vi.unstubAllGlobals()
})

it('names the service of a client that is told of none, though it is filled later', async () => {
  const eaas = createClient({ fetch: service.fetch })
  await expect(eaas.keys.list()).rejects.toMatchObject({ message: 'EAAS_URL is not set in the environment' })
  setEnvironment({ EAAS_URL: service.baseUrl })
  await expect(eaas.keys.list()).rejects.toMatchObject({ message: 'EAAS_API_KEY is not set in the environment' })
  setEnvironment(ENVIRONMENT)
  expect((await eaas.keys.list()).keys).toEqual([])
})

it('says how to set it', () => {
  const hint = expect.stringContaining(
    'npx @eaas/server dev`, then the program with the file that it writes: `node --env-file=.env.local`',
  )
  return expect(createClient().keys.list()).rejects.toMatchObject({ code: 'E_INVALID_INPUT', hint })
})

describe('its API key', () => {
  const URL_OF_TEST = 'https://eaas.example.org/eaas'
  /** Lists a client's keys, and returns what was sent where. */
  const listBy = async (options: ClientOptions) => {
    const sent: { url: string; authorization: string | undefined }[] = []
    const fetch: Fetch = async (url, { headers }) => {
      sent.push({ url, authorization: headers.authorization })
      return new Response('{"keys":[],"count":0}', { headers: { 'content-type': 'application/json' } })
    }
    const error = await createClient({ fetch, ...options })
      .keys.list()
      .then(
        () => undefined,
        (error: unknown) => error,
      )
    return { sent, error }
  }
  const authorization = 'Bearer eaas_sk_of_the_environment'
  const EAAS_API_KEY = 'eaas_sk_of_the_environment'

  it.each([
    URL_OF_TEST,
    `${URL_OF_TEST}/`,
    'https://EAAS.Example.ORG/eaas',
    'HTTPS://eaas.example.org:443/eaas/',
    'https://eaas.example.org/other/../eaas',
    undefined,
    '',
  ])('is sent to the baseUrl of the client where EAAS_URL is %s', async (EAAS_URL) => {
    setEnvironment({ EAAS_API_KEY, ...(EAAS_URL === undefined ? {} : { EAAS_URL }) })
    for (const baseUrl of [URL_OF_TEST, `${URL_OF_TEST}/`, 'https://Eaas.example.org:443/eaas']) {
      expect(await listBy({ baseUrl })).toEqual({
        sent: [{ url: `${URL_OF_TEST}/v1/keys`, authorization }],
        error: undefined,
      })
    }
  })

  it.each([
    'https://other.example.org/eaas',
    'https://eaas.example.org',
    'https://eaas.example.org/Eaas',
    'https://eaas.example.org/eaas/eaas',
    'https://eaas.example.org:8443/eaas',
    'http://eaas.example.org/eaas',
    'https://eaas.example.org.evil.example/eaas',
    'https://eaas.example.org./eaas',
    'https://user:word@eaas.example.org/eaas',
    'https://eaas.example.org/eaas?x',
    'https://eaas.example.org/eaas/#x',
    'eaas.example.org/eaas',
  ])('is not sent to the baseUrl of the client where EAAS_URL is %s', async (EAAS_URL) => {
    setEnvironment({ EAAS_API_KEY, EAAS_URL })
    const { sent, error } = await listBy({ baseUrl: URL_OF_TEST, allowInsecure: true })
    expect(sent).toEqual([])
    expect(error).toMatchObject({
      code: 'E_INVALID_INPUT',
      message: expect.stringMatching(/^apiKey is missing/),
      hint: expect.stringContaining('EAAS_API_KEY belongs to the service of EAAS_URL'),
    })
    expect(JSON.stringify(error)).not.toMatch(/eaas_sk|word/)
  })

  it('is not sent where the client was given no URL, or an API key that is not set', async () => {
    setEnvironment({ EAAS_API_KEY, EAAS_URL: URL_OF_TEST })
    for (const options of [{ baseUrl: undefined }, { baseUrl: '' }, { baseUrl: URL_OF_TEST, apiKey: undefined }]) {
      const { sent, error } = await listBy(options)
      expect([options, sent]).toEqual([options, []])
      expect(error).toMatchObject({ code: 'E_INVALID_INPUT', message: expect.stringContaining('is missing') })
    }
  })

  it('is not sent by pages and workers, whose users have a session', async () => {
    setEnvironment({ EAAS_API_KEY, EAAS_URL: 'https://app.example.org/api/eaas' })
    vi.stubGlobal('location', { origin: 'https://app.example.org' })
    for (const baseUrl of ['/api/eaas', 'https://app.example.org/api/eaas', URL_OF_TEST]) {
      const { sent, error } = await listBy({ baseUrl })
      expect([error, sent.map((one) => one.authorization)]).toEqual([undefined, [undefined]])
    }
  })

  it('is read at each request', async () => {
    const used: unknown[] = []
    const fetch: Fetch = async (_, { headers }) => {
      used.push(headers.authorization)
      return new Response('{"keys":[],"count":0}', { headers: { 'content-type': 'application/json' } })
    }
    const eaas = createClient({ baseUrl: URL_OF_TEST, fetch })
    await expect(eaas.keys.list()).rejects.toMatchObject({ message: expect.stringMatching(/^apiKey is missing/) })
    for (const key of ['one', 'two']) {
      setEnvironment({ EAAS_API_KEY: key })
      await eaas.keys.list()
    }
    expect(used).toEqual(['Bearer one', 'Bearer two'])
  })
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
