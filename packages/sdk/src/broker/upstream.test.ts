// A broker before a service that redirects, breaks off, or answers what a page must not see.
import { describe, expect, it } from 'vitest'
import { UpstreamError } from '../broker.js'
import {
  ask,
  batch,
  batchPath,
  keyId,
  otherKey,
  reported,
  serveBroker,
  service,
  useBroker,
  wrapBody,
  wrapPath,
} from '../test-support/broker.js'
import { API_KEY, problem } from '../test-support/service.js'

useBroker()

describe('a broker before a service that misbehaves', () => {
  const json = { 'content-type': 'application/json' }
  const problemType = { 'content-type': 'application/problem+json' }

  it.each([
    ['redirects', 302, { location: 'http://127.0.0.1:1/steal', ...json }, '{}'],
    ['redirects for good, with the body', 308, { location: '/v1/other', ...json }, '{}'],
    ['answers with a page', 200, { 'content-type': 'text/html' }, '<script>alert(1)</script>'],
    ['answers with a page of an error', 500, { 'content-type': 'text/html' }, 'internal host 10.0.0.7'],
    ['answers nothing', 204, {}, undefined],
    ['answers 201', 201, json, '{}'],
    ['knows the API key no more', 401, problemType, JSON.stringify(problem(401, 'U', 'E_UNAUTHORIZED').body)],
    ['lists other addresses', 403, problemType, '{"code":"E_IP_NOT_ALLOWED","detail":"ip_not_allowed: 10.0.0.7"}'],
    ['is of a suspended tenant', 403, problemType, '{"code":"E_TENANT_SUSPENDED","detail":"suspended 10.0.0.7"}'],
    ['misses a permission', 403, problemType, '{"code":"E_MISSING_PERMISSION","detail":"audit:on_behalf_of 10.0.0.7"}'],
    ['repeats the API key', 400, problemType, JSON.stringify({ detail: API_KEY })],
    [
      'repeats the API key with an escape',
      400,
      problemType,
      JSON.stringify({ detail: API_KEY }).replace('eaas', '\\u0065aas'),
    ],
    ['names a member after the API key, with an escape', 200, json, `{"${API_KEY.replace('_', '\\u005F')}":1}`],
    ['repeats the API key as the request id', 200, { ...json, 'x-request-id': `id-${API_KEY}` }, '{}'],
    ['answers without JSON', 200, json, 'internal host 10.0.0.7'],
    ['nests without end', 200, json, '['.repeat(100_000) + ']'.repeat(100_000)],
  ])('does not pass on what %s', async (_, status, headers, body) => {
    service.intercept = (_, response) => {
      response.writeHead(status, headers as Record<string, string>).end(body)
      return true
    }
    const answer = await ask(wrapPath(), wrapBody)
    expect(answer).toMatchObject({ status: 502, body: { code: 'E_BAD_GATEWAY', title: 'Bad Gateway' } })
    expect(answer.text).not.toMatch(/script|10\.0\.0\.7|eaas_sk/)
    expect(reported.splice(0)).toEqual([expect.any(UpstreamError)])
    expect(service.requests).toHaveLength(1) // nobody followed
  })

  it.each([
    ['too few results', '{"results":[]}'],
    ['no results', '{}'],
    ['null', 'null'],
    ['no JSON', 'DEK'],
  ])('does not mix %s into a batch', async (_, text) => {
    service.intercept = (_, response) => {
      response.writeHead(200, json).end(text)
      return true
    }
    const hash = (key_id: string) => ({ op: 'hash', key_id, value: 'v' })
    expect(await ask(batchPath(), batch(hash(keyId), hash(otherKey)))).toMatchObject({ status: 502 })
    expect(reported.splice(0)).toHaveLength(1)
  })

  it('does not tell a page in a batch either that its API key is refused, and reports that once', async () => {
    const refusal = (status: number, code: string) => problem(status, 'No', code, 'unwrap 10.0.0.7')
    const results = [
      { status: 200, body: { hash: 'a'.repeat(64), key_id: keyId } },
      refusal(403, 'E_MISSING_PERMISSION'),
      refusal(401, 'E_UNAUTHORIZED'),
      refusal(403, 'E_WRAPPED_KEY'),
    ]
    service.intercept = (_, response) => {
      response.writeHead(200, json).end(JSON.stringify({ results }))
      return true
    }
    const hash = { op: 'hash', key_id: keyId, value: 'v' }
    for (const more of [[], [{ ...hash, key_id: otherKey }]]) {
      const { status, body } = await ask(batchPath(), batch(hash, hash, hash, hash, ...more))
      const codes = body.results.map((result: { status: number; body: object }) => {
        return [result.status, 'code' in result.body && result.body.code]
      })
      const refused = more.map(() => [403, 'E_NOT_ALLOWED'])
      const hidden = [502, 'E_BAD_GATEWAY']
      expect([status, codes]).toEqual([200, [[200, false], hidden, hidden, [403, 'E_WRAPPED_KEY'], ...refused]])
      expect(JSON.stringify(body.results.slice(0, 3))).not.toContain('10.0.0.7')
      expect(reported.splice(0)).toEqual([expect.any(UpstreamError)])
    }
  })

  it('says 503 when it breaks off, is down, or is silent', async () => {
    service.intercept = (_, response) => {
      response.socket?.destroy()
      return true
    }
    expect(await ask(wrapPath(), wrapBody)).toMatchObject({ status: 503, body: { code: 'E_UNAVAILABLE' } })
    service.intercept = () => true
    serveBroker({ timeoutMs: 50 })
    expect(await ask(wrapPath(), wrapBody)).toMatchObject({ status: 503 })
    serveBroker({ baseUrl: 'http://127.0.0.1:1' })
    const down = await ask(wrapPath(), wrapBody)
    expect([down.status, down.text.includes('127.0.0.1')]).toEqual([503, false])
    expect(reported.splice(0)).toHaveLength(3)
  })

  it('does not pass on an answer without an end', async () => {
    service.intercept = (_, response) => {
      response.writeHead(200, json)
      const more = () => {
        while (response.write('x'.repeat(65_536)));
        response.once('drain', more)
      }
      more()
      return true
    }
    expect(await ask(wrapPath(), wrapBody)).toMatchObject({ status: 502 })
    expect(reported.splice(0)).toHaveLength(1)
  })

  it('drops a request id that is none', async () => {
    service.intercept = (_, response) => {
      response.writeHead(200, { ...json, 'x-request-id': 'x'.repeat(129) }).end('{}')
      return true
    }
    expect((await ask(wrapPath(), wrapBody)).headers).not.toHaveProperty('x-request-id')
  })
})
