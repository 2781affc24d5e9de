// An object store for the example: the part of S3's protocol that presigned PUT and GET need. Objects are files in a folder.
import { createHash, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import { createReadStream, createWriteStream } from 'node:fs'
import { rename, rm, stat } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { signatureOf } from './presign.mjs'

/** @import { IncomingMessage, ServerResponse } from 'node:http' */
/** @import { AddressInfo } from 'node:net' */
/** @import { Credentials } from './presign.mjs' */

/** The answer to a refused request, with S3's code. */
class Refusal extends Error {
  /** @param {number} status @param {string} code */
  constructor(status, code) {
    super(code)
    this.status = status
  }
}

/**
 * Starts a store on a port of its own.
 *
 * @param {{ folder: string, credentials: Credentials, now?: () => number }} options
 */
export async function startStore({ folder, credentials, now = Date.now }) {
  /** Bytes that were sent in answers: shows what a request for a part costs. */
  let sent = 0
  /** @param {string} name */
  const pathOf = (name) => join(folder, createHash('sha256').update(name).digest('hex'))

  const server = createServer((request, response) => {
    serve(request, response).catch((error) => {
      const refusal = error instanceof Refusal ? error : new Refusal(500, 'InternalError')
      request.resume()
      if (response.headersSent) return response.destroy()
      response.writeHead(refusal.status, { 'content-type': 'application/xml' })
      response.end(`<?xml version="1.0"?><Error><Code>${refusal.message}</Code></Error>`)
    })
  })

  /** @param {IncomingMessage} request @param {ServerResponse} response */
  async function serve(request, response) {
    const url = new URL(request.url ?? '', `http://${request.headers.host}`)
    assertSigned(url, request.method ?? '')
    if (request.method === 'PUT') await put(request, url.pathname)
    else if (request.method === 'GET') return get(request, response, url.pathname)
    else throw new Refusal(405, 'MethodNotAllowed')
    response.writeHead(200).end()
  }

  /** @param {IncomingMessage} request @param {string} name */
  async function put(request, name) {
    const length = request.headers['content-length']
    if (length === undefined) throw new Refusal(411, 'MissingContentLength')
    const part = `${pathOf(name)}.${process.hrtime.bigint()}`
    try {
      await pipeline(request, createWriteStream(part))
      if ((await stat(part)).size !== Number(length)) throw new Refusal(400, 'IncompleteBody')
      await rename(part, pathOf(name)) // an object is there as a whole, or not at all
    } finally {
      await rm(part, { force: true })
    }
  }

  /** @param {IncomingMessage} request @param {ServerResponse} response @param {string} name */
  async function get(request, response, name) {
    const size = await stat(pathOf(name)).then(
      (found) => found.size,
      () => {
        throw new Refusal(404, 'NoSuchKey')
      },
    )
    const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? []
    const start = Number(from ?? 0)
    const end = Math.min(to === undefined ? size : Number(to) + 1, size)
    if (from !== undefined && start >= size) throw new Refusal(416, 'InvalidRange')
    sent += end - start
    response.writeHead(from === undefined ? 200 : 206, { 'content-length': end - start })
    await pipeline(createReadStream(pathOf(name), { start, end: Math.max(start, end - 1) }), response)
  }

  /** @param {URL} url @param {string} method */
  function assertSigned(url, method) {
    const parameter = (/** @type {string} */ name) => url.searchParams.get(`X-Amz-${name}`) ?? ''
    const [accessKey, ...scope] = parameter('Credential').split('/')
    const given = Buffer.from(parameter('Signature'))
    const time = parameter('Date')
    const since = Date.parse(time.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'))
    url.searchParams.delete('X-Amz-Signature')
    const expected = Buffer.from(signatureOf(credentials.secretKey, { method, url, time, scope: scope.join('/') }))
    const isSigned = given.length === expected.length && timingSafeEqual(given, expected)
    if (accessKey !== credentials.accessKey || !isSigned) throw new Refusal(403, 'SignatureDoesNotMatch')
    if (!(now() < since + Number(parameter('Expires')) * 1_000)) throw new Refusal(403, 'AccessDenied')
  }

  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = /** @type {AddressInfo} */ (server.address())
  return {
    url: `http://127.0.0.1:${port}`,
    pathOf,
    sent: () => sent,
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
