/** Calls about the service itself: tenant, usage and health. And server mode, `/v1/encrypt` and `/v1/decrypt`. */
import { decodeBase64, encodeBase64, MAX_SERVER_MODE_BYTES, type wire } from '@eaas/protocol'
import { InvalidInputError } from '../errors.js'
import { type Http, toCall } from '../http/calls.js'
import type { Binary, Bytes, Row } from '../input.js'
import { assertKeyId, assertOptions, isObject, readSignal, readValue, toText } from '../input.js'
import { type Bundle, envelopeObject, readEnvelope, type StoredEnvelope } from '../records/read-envelope.js'
import type { CallOptions } from './keys.js'

export type Tenant = wire.Tenant
export type Usage = wire.Usage
export type Health = wire.Health

export interface Service {
  /** Reads the tenant that the API key belongs to. One request. Needs `keys:read`. */
  tenant(options?: CallOptions): Promise<Tenant>
  /**
   * Returns how often the tenant used each operation in a month: `{ month, operations, unrecorded, by_api_key }`.
   * `unrecorded` counts calls without an audit entry, which are hashes and refused calls, by day, API key, reason and
   * address. `by_api_key` says what each API key opened and hashed today, and the median of the days before. One
   * request. Needs `audit:read`.
   * @param month `YYYY-MM`, UTC; the current month by default
   */
  usage(month?: string, options?: CallOptions): Promise<Usage>
  /** Reads the health of the service. `degraded` is returned, not thrown. One request. */
  health(options?: CallOptions): Promise<Health>
}

export function createService(http: Http): Service {
  return {
    tenant: async (options) => http(toCall('getTenant', { signal: readSignal('tenant()', options) })),
    async usage(month, options) {
      const signal = readSignal('usage()', options)
      if (month !== undefined && !/^\d{4}-(?:0[1-9]|1[0-2])$/.test(month))
        throw new InvalidInputError('month must be YYYY-MM')
      return http(toCall('getUsage', { query: { month }, signal }))
    },
    health: async (options) => http(toCall('getHealth', { signal: readSignal('health()', options) })),
  }
}

/**
 * Server mode, for programs that cannot hold a DEK. The service sees each plaintext, which the client's own `encrypt`
 * and `decrypt` never send. Envelope-only tenants are refused (`E_API` with status 403). A value may have at most 64
 * KiB. Each call is one request and one audit entry.
 */
export interface ServerMode {
  /** Sends text (as UTF-8) or bytes to the service, which seals it. The client's own `decrypt` also opens the bundle. */
  encrypt(plaintext: string | Binary, options: CallOptions & { keyId: string }): Promise<Bundle>
  /** Sends an envelope or a bundle to the service, which opens it. Returns the bytes. */
  decrypt(envelope: StoredEnvelope, options?: CallOptions): Promise<Bytes>
  /** Like `decrypt`, but returns text. @throws ContentError when the bytes are not UTF-8 */
  decryptText(envelope: StoredEnvelope, options?: CallOptions): Promise<string>
}

export function createServerMode(http: Http): ServerMode {
  const decrypt = async (envelope: StoredEnvelope, options: CallOptions | undefined) => {
    const signal = readSignal('server.decrypt()', options)
    const fields: unknown = envelopeObject(envelope)
    if (!isObject(fields)) readEnvelope(fields) // throws; the service checks the members of an object
    const { ciphertext, wrapped_key, iv, key_id, key_version } = fields as Row
    assertKeyId(key_id, 'key_id')
    if ((fields as Row).envelope_version === 2)
      throw new InvalidInputError('server mode opens format v1, got an envelope of v2', 'Use decrypt() of the client.')
    const body = { ciphertext, wrapped_key, iv, key_id, key_version, encoding: 'base64' }
    const { plaintext } = await http(toCall('decrypt', { id: key_id, body, signal }))
    return decodeBase64(plaintext) as Bytes
  }
  return {
    async encrypt(plaintext, options) {
      assertOptions('server.encrypt()', options, ['keyId', 'signal'])
      const { keyId, signal } = options
      assertKeyId(keyId)
      const bytes = readValue(plaintext)
      if (bytes.length > MAX_SERVER_MODE_BYTES) {
        const message = `server mode takes at most ${MAX_SERVER_MODE_BYTES} bytes, got ${bytes.length}`
        throw new InvalidInputError(message, 'Use encrypt() of the client.')
      }
      const text = encodeBase64(bytes)
      const body = { plaintext: text, key_id: keyId, encoding: 'base64' }
      const secrets = typeof plaintext === 'string' ? [text, plaintext] : [text]
      return http(toCall('encrypt', { id: keyId, body, secrets, signal }))
    },
    decrypt,
    decryptText: async (envelope, options) => toText(await decrypt(envelope, options)),
  }
}
