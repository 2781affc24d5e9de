// What a call throws if the part of the SDK that explains failures cannot be loaded: a page that is offline, or an old build.
import { describe, expect, it } from 'vitest'
import { NetworkError } from '../errors.js'
import { toCall } from './calls.js'
import type { Fetch } from './fetch.js'
import { send } from './send.js'

const ID = '5b1d2f6c-0c36-4f5e-8d0f-6f5d2d4c9a11'
const lost = new NetworkError('a part of the SDK could not be loaded', 'Reload the page.', true)

const attempt = (fetch: Fetch) =>
  send(new URL('https://eaas.example.org/'), toCall('unwrap', { id: ID, body: { wrapped_key: 'x' } }), {
    apiKey: 'eaas_sk_secret',
    fetch,
    loadSchemas: () => Promise.reject(lost),
    loadFailures: () => Promise.reject(lost),
    retries: 2,
    signal: new AbortController().signal,
  })

describe('without what explains failures', () => {
  it('a call without an answer says so, and shows no secret', async () => {
    const error = await attempt(() => Promise.reject(new TypeError('eaas_sk_secret'))).catch(
      (caught: unknown) => caught,
    )
    expect(error).toMatchObject({
      code: 'E_NETWORK',
      message: `POST /v1/keys/${ID}/unwrap: no answer from https://eaas.example.org`,
      hint: 'Check the base URL and the network, then try again.',
      retryable: true,
    })
    expect((error as Error).cause).toBeUndefined()
  })

  it('a refused call, and one with a wrong answer, say that the part is missing', async () => {
    for (const [status, body] of [
      [403, '{}'],
      [200, '{"dek":"x"}'],
      [200, 'no JSON'],
    ] as const) {
      const headers = { 'content-type': 'application/json' }
      await expect(attempt(async () => new Response(body, { status, headers }))).rejects.toBe(lost)
    }
  })
})
