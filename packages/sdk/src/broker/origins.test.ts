// Which pages may call a broker.
import { beforeEach, describe, expect, it } from 'vitest'
import { ask, otherKey, serveBroker, service, url, useBroker, wrapBody, wrapPath } from '../test-support/broker.js'

useBroker()

describe('pages of other origins', () => {
  const origin = 'https://app.example.org'
  beforeEach(() => {
    serveBroker({ origins: [origin] })
  })

  it('that are named may call, with their cookies', async () => {
    const preflight = await ask(wrapPath(), { method: 'OPTIONS', body: '', headers: { origin, cookie: undefined } })
    expect(preflight.status).toBe(204)
    expect(preflight.headers).toMatchObject({
      'access-control-allow-origin': origin,
      'access-control-allow-credentials': 'true',
      'access-control-allow-methods': 'POST',
      'access-control-allow-headers': 'content-type, traceparent',
      vary: 'Origin',
    })
    const headers = { origin, 'sec-fetch-site': 'cross-site' }
    const { status, headers: answered } = await ask(wrapPath(), { ...wrapBody, headers })
    expect([status, answered['access-control-allow-origin']]).toEqual([200, origin])
    const refused = await ask(wrapPath(otherKey), { ...wrapBody, headers })
    expect([refused.status, refused.headers['access-control-allow-origin']]).toEqual([403, origin])
  })

  it.each(['https://app.example.org.evil.example', 'http://app.example.org', 'https://APP.example.org', 'null', '*'])(
    'that are not named may not: %s',
    async (other) => {
      const headers = { origin: other, 'sec-fetch-site': 'cross-site' }
      const preflight = await ask(wrapPath(), { method: 'OPTIONS', body: '', headers })
      expect([preflight.status, preflight.headers['access-control-allow-origin']]).toEqual([405, undefined])
      const { status, headers: answered } = await ask(wrapPath(), { ...wrapBody, headers })
      expect([status, answered['access-control-allow-origin']]).toEqual([403, undefined])
      expect(service.requests).toEqual([])
    },
  )

  it('are the same origin by their host where the browser says no more', async () => {
    const own = { 'sec-fetch-site': undefined, origin: url }
    expect((await ask(wrapPath(), { ...wrapBody, headers: own })).status).toBe(200)
    expect((await ask(wrapPath(), { ...wrapBody, headers: { ...own, host: 'other' } })).status).toBe(403)
  })
})
