/** Reads a call's credentials: one `Authorization: Bearer eaas_sk_…` header, and the caller's address. */
import { isIP } from 'node:net'
import { DETAILS, isOnBehalfOf, ON_BEHALF_OF_HEADER } from '@eaas/protocol'
import type { FastifyRequest } from 'fastify'
import { type Credentials, unauthorized } from '../runner/admit.js'
import type { Services } from '../runner/operation.js'
import { readCredentials } from '../runner/perform.js'
import { Refusal } from '../runner/refusal.js'
import { countHeader } from './ambiguous-head.js'

/** RFC 7235 section 2.1: the scheme is case-insensitive. */
const SCHEME = /^bearer (.*)$/i

/** Reads the credentials. The API key itself is not passed on. @throws Refusal E_UNAUTHORIZED */
export function requestCredentials(services: Services, request: FastifyRequest): Credentials {
  const { authorization = '' } = request.headers
  const [, apiKey] = SCHEME.exec(authorization) ?? []
  if (apiKey === undefined || countHeader(request, 'authorization') !== 1) {
    throw unauthorized(authorization === '' ? 'missing' : 'malformed')
  }
  return readCredentials(services, {
    apiKey,
    ip_address: clientAddress(request.ip),
    on_behalf_of: readHeader(request, ON_BEHALF_OF_HEADER),
  })
}

/**
 * Refuses the name of an end user that is not 1 to 255 visible ASCII characters. @throws Refusal E_VALIDATION
 */
export function assertOnBehalfOf({ on_behalf_of }: Credentials): void {
  if (on_behalf_of !== undefined && !isOnBehalfOf(on_behalf_of)) {
    throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.onBehalfOf)
  }
}

/**
 * A caller's address in one form: `::ffff:10.0.0.1` on a dual-stack socket is 10.0.0.1, a zone id is dropped,
 * and so is the port that some proxies add. Anything else that a trusted proxy passes on becomes `unknown`,
 * which is on no allow-list.
 */
export function clientAddress(address: string): string {
  const [plain = ''] = withoutPort(address).split('%')
  const unmapped = /^::ffff:\d+\.\d+\.\d+\.\d+$/i.test(plain) ? plain.slice('::ffff:'.length) : plain
  return isIP(unmapped) === 0 ? 'unknown' : unmapped
}

// An IPv6 address with a port is in brackets: without them the two could not be separated.
function withoutPort(address: string): string {
  const [, v6, v4] = /^(?:\[([^[\]]*)\]|(\d+\.\d+\.\d+\.\d+))(?::\d{1,5})?$/.exec(address) ?? []
  return (v6 !== undefined && isIP(v6) === 6 ? v6 : v4) ?? address
}

// Node joins repeated headers by commas, which a user's name must not contain.
function readHeader(request: FastifyRequest, name: string): string | undefined {
  return request.headers[name]?.toString()
}
