import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Fastify, { type FastifyInstance } from 'fastify'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findConsoleDirectory } from '../package-directory.js'
import { serveConsole } from './console.js'

const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:"
const REST = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

let app: FastifyInstance
let folder: string

/** Serves a folder with files of the kinds that the package has, and some that it must not have. */
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'eaas-console-'))
  mkdirSync(join(folder, 'dist/console/assets'), { recursive: true })
  const page = `<meta http-equiv="Content-Security-Policy" content="${POLICY}">`
  for (const name of ['console.html', 'console/index.html', 'console/verify.html'])
    writeFileSync(join(folder, 'dist', name), page)
  writeFileSync(join(folder, 'dist/console/assets/main-1a2b.js'), 'void 0')
  writeFileSync(join(folder, 'dist/console/notes.txt'), 'not served')
  writeFileSync(join(folder, 'package.json'), '{"outside":true}')
  app = Fastify({ logger: false, exposeHeadRoutes: false })
  serveConsole(app, join(folder, 'dist'))
})
afterAll(async () => {
  await app.close()
  rmSync(folder, { recursive: true, force: true })
})

describe('the console', () => {
  it.each(['/console', '/console/', '/console/verify'])('answers GET and HEAD of %s, not to be stored', async (url) => {
    for (const method of ['GET', 'HEAD'] as const) {
      const { statusCode, headers } = await app.inject({ method, url })
      expect([statusCode, headers['content-type']]).toEqual([200, 'text/html; charset=utf-8'])
      expect(headers).toMatchObject({
        'cache-control': 'no-store',
        'content-security-policy': `${POLICY}; frame-ancestors 'none'`,
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cross-origin-opener-policy': 'same-origin',
      })
    }
  })

  it('lets browsers keep what has a hash in its name', async () => {
    const { headers } = await app.inject('/console/assets/main-1a2b.js')
    expect(headers).toMatchObject({
      'content-type': 'text/javascript; charset=utf-8',
      'cache-control': 'public, max-age=31536000, immutable',
    })
  })

  it.each(['POST', 'PUT', 'DELETE'] as const)('answers no %s', async (method) => {
    expect((await app.inject({ method, url: '/console' })).statusCode).toBe(404)
  })

  it.each([
    '/console/unknown',
    '/console/notes.txt',
    '/console.html',
    '/console/index.html',
    '/console/assets',
    '/console/assets/',
    '/console/assets/main-1a2b.js/',
    '/console/../package.json',
    '/console/%2e%2e/package.json',
    '/console/..%2f..%2fpackage.json',
    '/console/assets/..%5c..%5cpackage.json',
    '/console//verify',
  ])('has nothing at %s', async (url) => {
    const { statusCode, body } = await app.inject(url)
    expect([statusCode, body.includes('outside')]).toEqual([404, false])
  })
})

describe('the pages as they are built', () => {
  it('may load and reach only their own origin, and the verifier nothing', async () => {
    const built = Fastify({ logger: false, exposeHeadRoutes: false })
    serveConsole(built, findConsoleDirectory())
    const policyOf = async (url: string) => (await built.inject(url)).headers['content-security-policy']
    expect(await policyOf('/console')).toBe(`${POLICY}; ${REST}`)
    expect(await policyOf('/console/')).toBe(`${POLICY}; ${REST}`)
    expect(await policyOf('/console/verify')).toMatch(
      /^default-src 'none'; script-src 'sha256-[\w+/]{43}='; style-src 'sha256-[\w+/]{43}='; worker-src blob:; connect-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'$/,
    )
    for (const url of ['/console', '/console/'])
      expect((await built.inject(url)).body).not.toMatch(/<style|<script[^>]*>[^<]/)
    await built.close()
  })
})
