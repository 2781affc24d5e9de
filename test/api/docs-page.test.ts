// GET /docs and the OpenAPI documents: files that the build made of the routes. The page is whole without scripts, and loads nothing.
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type OpenApiDocument, openApiDocument } from '../../docs/openapi/document.js'
import { openApiFiles } from '../../docs/openapi/files.js'
import { docsPage } from '../../docs/openapi/page.js'
import { ROUTES } from '../../packages/server/src/core/http/endpoints.js'
import { type Service, startService } from '../support/service/service.js'

let service: Service
let page: string

beforeAll(async () => {
  service = await startService({ environment: { EAAS_OPERATOR_API: 'on' } })
  page = (await get('/docs')).text
})
afterAll(() => service.close())

// Reads the body to its end, because a connection with an unread answer delays the service's stop.
async function get(path: string) {
  const response = await fetch(service.url + path, { redirect: 'manual' })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

describe('the files of the documentation', () => {
  it.each([
    ['/docs', 'docs.html', 'text/html; charset=utf-8'],
    ['/openapi.json', 'openapi.json', 'application/json'],
    ['/admin/openapi.json', 'operators-openapi.json', 'application/json'],
  ])('%s is what the routes and their schemas give, without authentication', async (path, name, type) => {
    const { status, headers, text } = await get(path)
    expect(status).toBe(200)
    expect(headers.get('content-type')).toBe(type)
    expect(headers.get('x-content-type-options')).toBe('nosniff')
    expect(headers.get('cache-control')).toBe('public, max-age=3600')
    // `npm run build -w @eaas/server` makes them again.
    expect(text).toBe(openApiFiles()[name])
  })

  it.each([
    '/docs/',
    '/docs.html',
    '/docs/docs.html',
    '/docs/index.html',
    '/docs/page.js',
    '/docs/main.js',
    '/docs/package.json',
    '/docs/%2e%2e/index.js',
    '/docs/..%2findex.js',
    '/docs/%2e%2e%2f%2e%2e%2fpackage.json',
    '/docs/..%5c..%5cpackage.json',
    '/docs%00',
    '/operators-openapi.json',
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

describe('the page of the documentation', () => {
  it('has a policy under which it can only show itself: no script, no request, no frame', async () => {
    const policy = (await get('/docs')).headers.get('content-security-policy') ?? ''
    expect(policy).toMatch(/^default-src 'none'; style-src 'sha256-[A-Za-z0-9+/]{43}='; img-src data:;/)
    expect(policy).toContain("frame-ancestors 'none'")
    expect(policy).not.toMatch(/unsafe|https?:|\*|script-src|connect-src/)
    expect(page).not.toMatch(/<script|<link rel="stylesheet"|<img|<iframe|<form|\son\w+=|style=|url\(|@import/)
  })

  it('leads nowhere but to places in itself and to the document, by a relative URL behind any path prefix', async () => {
    const urls = [...page.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, url = '']) => url)
    const ids = [...page.matchAll(/\sid="([^"]+)"/g)].map(([, id]) => `#${id}`)
    expect(ids.filter((id, at) => ids.indexOf(id) !== at)).toEqual([])
    expect(new Set(urls.filter((url) => !url.startsWith('#')))).toEqual(new Set(['data:,', 'openapi.json']))
    expect(urls.filter((url) => url.startsWith('#') && !ids.includes(url))).toEqual([])
    expect((await get('/openapi.json')).status).toBe(200)
  })

  it('shows each call with its permissions, parameters, members, codes and examples', () => {
    const plain = page
      .replaceAll(/<[^>]*>/g, '')
      .replaceAll('&lt;', '<')
      .replaceAll('&gt;', '>')
      .replaceAll('&amp;', '&')
    for (const { method, path, summary, permissions, operationId } of ROUTES) {
      const start = page.indexOf(`<h3 id="${operationId}">`)
      const section = page.slice(start, page.indexOf('</section>', start))
      expect(section).toContain(`<code>${method} ${path.replaceAll(/:(\w+)/g, '{$1}')}</code>`)
      expect(section).toContain(summary.replaceAll('&', '&amp;'))
      for (const permission of permissions) expect(section).toContain(`<code>${permission}</code>`)
      expect(section).toContain('<code>E_UNAUTHORIZED</code>')
    }
    const missing = new Set<string>()
    const look = (node: unknown): void => {
      if (typeof node !== 'object' || node === null) return
      const { properties, description, name, example } = node as Record<string, unknown>
      for (const member of [...Object.keys(properties ?? {}), name, description].filter(
        (each) => typeof each === 'string',
      ))
        if (!plain.includes(member.replaceAll(/`|\n\n/g, ''))) missing.add(member)
      if (example !== undefined && typeof name !== 'string' && typeof example === 'object')
        if (!plain.includes(JSON.stringify(example, null, 2))) missing.add(JSON.stringify(example))
      for (const each of Object.values(node)) look(each)
    }
    const { paths, components } = openApiDocument()
    look(paths)
    look(components.schemas)
    expect([...missing]).toEqual([])
  })

  it('escapes what it shows', () => {
    const document: OpenApiDocument = JSON.parse(readFileSync('packages/server/dist/openapi.json', 'utf8'))
    const call = document.paths['/v1/keys']?.get as { summary: string; description: string }
    call.summary = '<b>"&\'</b>'
    call.description = '`<i>` & <u>'
    const shown = docsPage(document)
    expect(shown).toContain('&lt;b&gt;"&amp;\'&lt;/b&gt;. <code>&lt;i&gt;</code> &amp; &lt;u&gt;')
    expect(shown).not.toMatch(/<[biu]>/)
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
