// GET /console: the pages of `@eaas/console`. They are static files that need no API key, and get their data from the
// API. The server serves the files that exist when it starts. Their URLs are relative, for a proxy with a path prefix.
import { readdirSync, readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { policyOf } from '../core/http/open-paths.js'

const HASHED = '/console/assets/' // the folder of files whose names hold a hash of their content
const IMMUTABLE = 'public, max-age=31536000, immutable'

const TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
}

/** The policy of files other than pages. A worker has the policy with which its script was served. */
const NO_PAGE = "default-src 'none'; frame-ancestors 'none'"

/** Registers the pages and the files that they load. Each file is read once, at its first request. */
export function serveConsole(app: FastifyInstance, directory: string): void {
  for (const name of listFiles(directory)) serveFile(app, urlOf(name), join(directory, name))
}

function listFiles(directory: string): string[] {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .map((name) => name.replaceAll('\\', '/'))
    .filter((name) => TYPES[extname(name)] !== undefined)
}

/** `console.html` is `/console`, and `console/index.html` is `/console/`. */
function urlOf(name: string): string {
  return `/${name.replace(/(?:index)?\.html$/, '')}`
}

function serveFile(app: FastifyInstance, url: string, path: string): void {
  let content: Buffer | undefined
  const type = TYPES[extname(path)] ?? ''
  app.route({
    method: ['GET', 'HEAD'],
    url,
    handler: async (_, reply) => {
      content ??= readFileSync(path)
      return reply
        .headers({
          'content-security-policy': extname(path) === '.html' ? policyOf(content) : NO_PAGE,
          'x-content-type-options': 'nosniff',
          'referrer-policy': 'no-referrer',
          'cross-origin-opener-policy': 'same-origin',
          'cross-origin-resource-policy': 'same-origin',
          'cache-control': url.startsWith(HASHED) ? IMMUTABLE : 'no-store',
        })
        .type(type)
        .send(content)
    },
  })
}
