/** What an API key may be given: its expiry, its allow-list, its permissions. */
import { type Permission, readAddressRange } from '@eaas/protocol'
import type { Caller } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import { parseRfc3339 } from './rfc3339.js'

/** Reads an expiry; null is none. @throws Refusal E_VALIDATION when it is no time, or not in the future */
export function readExpiry(text: string | null, now: number): string | null {
  if (text === null) return null
  const time = parseRfc3339(text, 'down')
  if (time === undefined) throw new Refusal('E_VALIDATION', 'expires_at: must be an RFC 3339 time with an offset')
  if (Date.parse(time) <= now) throw new Refusal('E_VALIDATION', 'expires_at: must be in the future')
  return time
}

/** Reads an allow-list, with the bits beyond each prefix cleared; null is none. @throws Refusal E_VALIDATION */
export function readAllowedIps(list: readonly string[] | null): string[] {
  const ranges = (list ?? []).map((text, at) => {
    const range = readAddressRange(text)
    if (range !== undefined) return range
    throw new Refusal('E_VALIDATION', `allowed_ips.${at}: must be an IPv4 or IPv6 address, or a CIDR range`)
  })
  return [...new Set(ranges)]
}

/** Nobody gives what he lacks; the operator, on the command line, lacks nothing. @throws Refusal E_MISSING_PERMISSION */
export function assertGrantable({ apiKey }: Caller, permissions: readonly Permission[]): void {
  const missing = apiKey && permissions.find((permission) => !apiKey.permissions.includes(permission))
  if (missing)
    throw new Refusal('E_MISSING_PERMISSION', `missing permission: ${missing}; an API key can only grant what it holds`)
}
