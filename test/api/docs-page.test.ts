// GET /docs: the page works offline, and the server serves only the files that it lists by name.
import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Service, startService } from '../support/service/service.js'

let service: Service

beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.close())

const FILES = [
  ['/docs', 'text/html; charset=utf-8', 'EaaS'],
  ['/docs/page.js', 'text/javascript; charset=utf-8', 'SwaggerUIBundle'],
  ['/docs/page.css', 'text/css; charset=utf-8', 'dark-mode'],
  ['/docs/swagger-ui.css', 'text/css; charset=utf-8', '.swagger-ui'],
  ['/docs/swagger-ui-bundle.js', 'text/javascript; charset=utf-8', 'SwaggerUIBundle'],
] as const

// Reads the body to its end, because a connection with an unread answer delays the service's stop.
async function get(path: string) {
  const response = await fetch(service.url + path, { redirect: 'manual' })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

describe('the page of the documentation', () => {
  it.each(FILES)('serves %s as %s, without authentication', async (path, type, content) => {
    const response = await get(path)
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe(type)
    expect(response.headers.get('x-content-type-options')).toBe('nosniff')
    expect(response.text).toContain(content)
  })

  it.each(FILES)('serves %s under a policy that allows this host only, and no inline script or style', async (path) => {
    const policy = (await get(path)).headers.get('content-security-policy') ?? ''
    expect(policy).toMatch(/^default-src 'self';/)
    expect(policy).toContain("frame-ancestors 'none'")
    expect(policy).not.toMatch(/unsafe|https?:|\*|script-src|style-src/)
  })

  it('names no other host, and nothing inline, in what is ours', async () => {
    const page = (await get('/docs')).text
    const script = (await get('/docs/page.js')).text
    for (const text of [page, script]) expect(text).not.toMatch(/(?:https?:)?\/\/[\w.-]+\.\w/)
    expect(page).not.toMatch(/<script(?![^>]* src=)|<style|\son\w+=|style=/)
    expect(script).toContain('validatorUrl: null')
  })

  it('asks only for files that are served, by relative URLs, so that a path prefix in front works', async () => {
    const page = (await get('/docs')).text
    const urls = [...page.matchAll(/(?:src|href)="([^"]+)"/g)]
      .map(([, url = '']) => url)
      .filter((url) => url !== 'data:,')
    expect(urls.length).toBeGreaterThanOrEqual(5)
    for (const url of urls) {
      expect(url).not.toMatch(/^\//)
      expect((await get(`/${url}`)).status).toBe(200)
    }
  })

  it('loads nothing from elsewhere in the style sheet', async () => {
    const style = (await get('/docs/swagger-ui.css')).text
    expect(style).not.toMatch(/@import/)
    const urls = [...style.matchAll(/url\(\s*["']?(.{5})/g)].map(([, start]) => start)
    expect(new Set(urls)).toEqual(new Set(['data:']))
  })

  it.each([
    '/docs/',
    '/docs/LICENSE',
    '/docs/swagger-ui.js',
    '/docs/swagger-ui-bundle.js.map',
    '/docs/package.json',
    '/docs/index.html',
    '/docs/%2e%2e/index.js',
    '/docs/..%2findex.js',
    '/docs/%2e%2e%2f%2e%2e%2fpackage.json',
    '/docs/..%5c..%5cpackage.json',
    '/docs/page.js%00.html',
    '/docs/page.js/',
    '//docs',
  ])('does not serve %s', async (path) => {
    const response = await get(path)
    expect(response.status).toBe(404)
    expect(response.headers.get('content-type')).toBe('application/problem+json')
  })

  it('does not serve a path that climbs out, sent as it is', async () => {
    expect(await rawStatus('/docs/../../package.json')).toBe(404)
    expect(await rawStatus('/docs/../openapi.json')).toBe(404)
  })
})

/** fetch would resolve the dots before it sends them. */
async function rawStatus(path: string): Promise<number> {
  const { hostname, port } = new URL(service.url)
  const socket = connect(Number(port), hostname)
  socket.end(`GET ${path} HTTP/1.1\r\nhost: ${hostname}\r\nconnection: close\r\n\r\n`)
  let text = ''
  for await (const chunk of socket) text += chunk
  return Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1])
}
