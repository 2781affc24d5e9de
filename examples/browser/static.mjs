// Serves the files of the built page, with their headers.
import { readFile } from 'node:fs/promises'
import { extname, join } from 'node:path'

/** @import { IncomingMessage, ServerResponse } from 'node:http' */

const TYPES = /** @type {Record<string, string>} */ ({
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
})

/** Scripts only from here, none inline, no eval, no text that becomes markup, no connection to other hosts. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  'trusted-types',
].join('; ')

const HEADERS = {
  'content-security-policy': POLICY,
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'cache-control': 'no-cache',
}

/**
 * Sends a file of the page.
 *
 * @param {string} folder
 * @param {string} path
 * @param {IncomingMessage} request
 * @param {ServerResponse} response
 */
export async function servePage(folder, path, request, response) {
  const name = path === '/' ? '/index.html' : path
  const type = TYPES[extname(name)]
  // Names as Vite gives them: nothing that could lead out of the folder.
  const isName = /^\/(?:assets\/)?[\w-]+\.\w+$/.test(name)
  const content = isName && type && request.method === 'GET' ? await find(join(folder, name)) : undefined
  if (content === undefined || type === undefined) return response.writeHead(404, HEADERS).end()
  return response.writeHead(200, { ...HEADERS, 'content-type': type }).end(content)
}

/** @param {string} file */
async function find(file) {
  try {
    return await readFile(file)
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === 'ENOENT') return undefined
    throw error
  }
}
