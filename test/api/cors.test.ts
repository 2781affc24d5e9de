// Pages of other origins: they are refused unless their origin is configured.
import { afterEach, describe, expect, it } from 'vitest'
import { type Service, startService } from '../support/service/service.js'

const PAGE = 'https://app.example.org'

let service: Service | undefined

afterEach(async () => {
  await service?.close()
  service = undefined
})

async function start(origins?: string): Promise<Service> {
  service = await startService(origins === undefined ? {} : { environment: { EAAS_CORS_ORIGINS: origins } })
  return service
}

function preflight({ url }: Service, origin: string): Promise<Response> {
  const headers = {
    origin,
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'authorization,content-type',
  }
  return fetch(`${url}/v1/keys`, { method: 'OPTIONS', headers })
}

describe('a page of another origin', () => {
  it('gets no permission by default', async () => {
    const running = await start()
    expect((await preflight(running, PAGE)).headers.get('access-control-allow-origin')).toBeNull()
    const answer = await fetch(`${running.url}/v1/keys`, { headers: { origin: PAGE } })
    expect(answer.headers.get('access-control-allow-origin')).toBeNull()
  })

  it('is let in when its origin is named, refusals included, and never with cookies', async () => {
    const running = await start(`${PAGE},http://localhost:5173`)
    const asked = await preflight(running, PAGE)
    expect(asked.status).toBe(204)
    expect(asked.headers.get('access-control-allow-origin')).toBe(PAGE)
    expect(asked.headers.get('access-control-allow-headers')).toContain('authorization')
    expect(asked.headers.get('access-control-allow-credentials')).toBeNull()
    const refused = await fetch(`${running.url}/v1/keys`, { headers: { origin: PAGE } })
    expect([refused.status, refused.headers.get('access-control-allow-origin')]).toEqual([401, PAGE])
    expect(refused.headers.get('access-control-expose-headers')).toContain('x-request-id')
  })

  it.each(['https://evil.example.org', 'http://app.example.org', 'https://app.example.org:8443', 'null'])(
    'gets no permission when it is another than the named one: %s',
    async (origin) => {
      const asked = await preflight(await start(PAGE), origin)
      expect(asked.headers.get('access-control-allow-origin')).toBeNull()
    },
  )

  it('is told as without CORS of what is not there, and of an OPTIONS that is no preflight', async () => {
    const { url } = await start(PAGE)
    const ask = async (path: string, headers: Record<string, string>) => {
      const { status, headers: answered } = await fetch(url + path, { method: 'OPTIONS', headers })
      return [status, answered.get('content-type')]
    }
    const asking = { origin: PAGE, 'access-control-request-method': 'POST' }
    expect(await ask('/v1/nothing', asking)).toEqual([404, 'application/problem+json'])
    const missing = await fetch(`${url}/v1/nothing`, { headers: { origin: PAGE } })
    expect([missing.status, missing.headers.get('access-control-allow-origin')]).toEqual([404, PAGE])
    expect(await ask('/v1/keys', {})).toEqual([405, 'application/problem+json'])
    expect(await ask('/v1/keys', { origin: PAGE })).toEqual([405, 'application/problem+json'])
  })

  it.each(['*', 'app.example.org', 'https://app.example.org/', 'https://*.example.org/x'])(
    'cannot be named as %s',
    async (origins) => {
      await expect(startService({ environment: { EAAS_CORS_ORIGINS: origins } })).rejects.toThrow('EAAS_CORS_ORIGINS')
    },
  )
})
