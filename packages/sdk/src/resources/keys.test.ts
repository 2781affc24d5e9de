// Creating keys: what is refused before the network, and what a service or a network does to it.
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Client, createClient } from '../index.js'
import { failure } from '../test-support/clients.js'
import { createTestService, type TestService } from '../testing.js'

let service: TestService
let eaas: Client
let requests: string[]
/** What becomes of an answer on its way. */
let answered: (response: Response) => Promise<Response>

beforeEach(() => {
  service = createTestService()
  requests = []
  answered = async (response) => response
  const fetch: TestService['fetch'] = async (input, init) => {
    requests.push(new URL(new Request(input, init).url).pathname)
    return answered(await service.fetch(input, init))
  }
  eaas = createClient({ ...service, fetch })
})
afterEach(() => eaas.close())

describe('one key', () => {
  it.each<[string, () => Promise<object>]>([
    ['keys.create', () => eaas.keys.create({ name: 'ben' })],
    ['keys.ensure', () => eaas.keys.ensure({ name: 'ben' })],
  ])('is not taken from an answer about another name, by which a proxy exchanged two: %s', async (_, create) => {
    answered = async (response) => {
      if (response.status !== 201) return response
      return Response.json({ ...((await response.json()) as object), name: 'ada' }, { status: 201 })
    }
    expect(await failure(create())).toMatchObject({ code: 'E_PROTOCOL', message: expect.stringContaining('name') })
  })
})

describe('many keys', () => {
  it('are one request of up to 1,000', async () => {
    const { ok, failed } = await eaas.keys.createMany(Array.from({ length: 1_000 }, (_, at) => ({ name: `${at}` })))
    expect([ok.length, failed, requests]).toEqual([1_000, [], ['/v1/batch/keys']])
  })

  it.each<[string, unknown, string]>([
    ['no array', { name: 'x' }, 'array of 1 to 1000, got an object'],
    ['an empty one', [], 'array of 1 to 1000, got 0'],
    ['one too many', Array.from({ length: 1_001 }, (_, at) => ({ name: `${at}` })), 'got 1001'],
    ['a name that is none', [{ name: 'good' }, { name: '' }], 'keys.1.name'],
    ['no name', ['good'], 'keys.0'],
    ['an option that there is not', [{ name: 'good', nmae: 'x' }], 'keys.0 has no option "nmae"'],
  ])('are refused before the network is used: %s', async (_, keys, message) => {
    const error = await failure(eaas.keys.createMany(keys as { name: string }[]))
    expect(error.code).toBe('E_INVALID_INPUT')
    expect(error.message).toContain(message)
    expect(requests).toEqual([])
  })

  it('of a service that answers with other names are not taken: they would encrypt what belongs to somebody else', async () => {
    answered = async (response) => {
      const { results } = (await response.json()) as { results: object[] }
      return Response.json({ results: results.reverse() })
    }
    const { ok, failed } = await eaas.keys.createMany([{ name: 'ada' }, { name: 'ben' }])
    expect(ok).toEqual([])
    expect(failed).toMatchObject([
      { index: 0, error: { code: 'E_PROTOCOL' } },
      { index: 1, error: { code: 'E_PROTOCOL' } },
    ])
  })

  it.each([
    ['too few', (results: object[]) => results.slice(1)],
    ['too many', (results: object[]) => [...results, ...results]],
  ])('of a service that answers %s are refused as a whole', async (_, change) => {
    answered = async (response) => {
      const { results } = (await response.json()) as { results: object[] }
      return Response.json({ results: change(results) })
    }
    const error = await failure(eaas.keys.createMany([{ name: 'ada' }, { name: 'ben' }]))
    expect(error.code).toBe('E_PROTOCOL')
  })

  it('are not created again by the client when the answer is lost, and the next call tells that they are there', async () => {
    answered = async () => {
      throw new TypeError('fetch failed')
    }
    expect((await failure(eaas.keys.createMany([{ name: 'ada' }]))).code).toBe('E_NETWORK')
    expect(requests).toHaveLength(1)
    answered = async (response) => response
    const { failed } = await eaas.keys.createMany([{ name: 'ada' }])
    expect(failed).toMatchObject([{ index: 0, error: { problem: 'E_NAME_TAKEN' } }])
    expect((await eaas.keys.list({ name: 'ada' })).count).toBe(1)
  })
})
