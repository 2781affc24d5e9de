/**
 * Reads a request's head. Refuses a head that a proxy in front may have read differently, and takes the address and the
 * caller's credentials, from one `Authorization: Bearer eaas_sk_…` header.
 */
import { isIP } from 'node:net'
import { ON_BEHALF_OF_HEADER } from '@eaas/protocol'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type ApiKeyOwner, type Credentials, readCredentials } from '../runner/admission.js'
import type { Services } from '../runner/operation.js'
import { Refusal, unauthorized } from '../runner/refusal.js'
import { sentIds } from './correlation.js'

/** RFC 7235 section 2.1: the scheme is case-insensitive. */
const SCHEME = /^bearer (.*)$/i

/** Refuses two Host headers, since a proxy may use the other one, and encoded bodies, since nothing decodes them. */
export function refuseAmbiguousHeads(app: FastifyInstance): void {
  app.addHook('onRequest', (request, reply, done) => {
    const fault = findFault(request)
    if (fault === undefined) return done()
    reply.header('connection', 'close') // a proxy may also see another end of the request
    done(new Refusal('E_MALFORMED_REQUEST', fault))
  })
}

function findFault(request: FastifyRequest): string | undefined {
  const coding = request.headers['transfer-encoding']
  if (coding !== undefined && coding.toLowerCase() !== 'chunked') return 'Transfer-Encoding: only chunked is supported'
  return countHeader(request, 'host') > 1 ? 'Host: must be sent once' : undefined
}

/** Reads the credentials, which do not include the API key itself. @throws Refusal E_UNAUTHORIZED */
export function requestCredentials(services: Services, request: FastifyRequest, owner: ApiKeyOwner): Credentials {
  const { authorization = '' } = request.headers
  const [, apiKey] = SCHEME.exec(authorization) ?? []
  if (apiKey === undefined || countHeader(request, 'authorization') !== 1) {
    throw unauthorized(authorization === '' ? 'missing' : 'malformed')
  }
  return readCredentials(services, {
    apiKey,
    owner,
    ip_address: clientAddress(request.ip),
    on_behalf_of: request.headers[ON_BEHALF_OF_HEADER]?.toString(), // joined by commas if there are several, which is then refused
    correlation: sentIds(request.headers),
  })
}

/**
 * A caller's address in one form: `::ffff:10.0.0.1` is 10.0.0.1, without a zone id, and without the port that some
 * proxies add. Anything else, such as a peer on a unix socket, is `unknown`, which is on no allow-list.
 */
export function clientAddress(address: string | undefined = ''): string {
  const [plain = ''] = withoutPort(address).split('%')
  const unmapped = /^::ffff:\d+\.\d+\.\d+\.\d+$/i.test(plain) ? plain.slice('::ffff:'.length) : plain
  return isIP(unmapped) === 0 ? 'unknown' : unmapped
}

// An IPv6 address with a port is in brackets; without them, address and port could not be separated.
function withoutPort(address: string): string {
  const [, v6, v4] = /^(?:\[([^[\]]*)\]|(\d+\.\d+\.\d+\.\d+))(?::\d{1,5})?$/.exec(address) ?? []
  return (v6 !== undefined && isIP(v6) === 6 ? v6 : v4) ?? address
}

/** Counts how often a header was sent, by its name in lower case. Node silently keeps only the first of some headers. */
function countHeader(request: FastifyRequest, name: string): number {
  const { rawHeaders } = request.raw
  let count = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.length === name.length && rawHeaders[at]?.toLowerCase() === name) count += 1
  }
  return count
}
