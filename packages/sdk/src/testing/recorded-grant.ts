/** What the entries of API keys say of their rights, as the service records it (chain.md 12 of the server). */
import { encodeHex, encodeUtf8 } from '@eaas/protocol'
import { sha256 } from '../engines/sha256.js'
import type { TestApiKey } from './state.js'

/** Longer lists of addresses are recorded by their number and their SHA-256. */
const MAX_LIST_CHARACTERS = 1_024

type Values = Record<string, string | number | null>
export type Grant = Pick<TestApiKey, 'permissions' | 'expires_at' | 'allowed_ips'>

/** Calls `write` with the rights after a change, and with those of before that differ; at once unless a list must be hashed. */
export function whenRecorded<T>(after: Grant, before: Grant | undefined, write: (values: Values) => T): T | Promise<T> {
  const parts = [
    { permissions: sorted(after.permissions), expires_at: after.expires_at },
    recordAddresses('allowed_ips', after.allowed_ips),
    ...(before ? recordBefore(before, after) : []),
  ]
  const isLong = parts.some((part) => part instanceof Promise)
  return isLong ? Promise.all(parts).then((all) => write(merged(all))) : write(merged(parts as Values[]))
}

function recordBefore(before: Grant, after: Grant): (Values | Promise<Values>)[] {
  const isSame = (name: 'permissions' | 'allowed_ips') => sorted(before[name]) === sorted(after[name])
  return [
    isSame('permissions') ? {} : { permissions_before: sorted(before.permissions) },
    before.expires_at === after.expires_at ? {} : { expires_at_before: before.expires_at },
    isSame('allowed_ips') ? {} : recordAddresses('allowed_ips_before', before.allowed_ips),
  ]
}

function recordAddresses(name: string, addresses: readonly string[]): Values | Promise<Values> {
  if (addresses.length === 0) return { [name]: null }
  const list = sorted(addresses)
  if (list.length <= MAX_LIST_CHARACTERS) return { [name]: list }
  return sha256(encodeUtf8(list)).then((hash) => ({
    [`${name}_count`]: addresses.length,
    [`${name}_sha256`]: encodeHex(hash),
  }))
}

function sorted(list: readonly string[]): string {
  return [...list].sort().join(' ')
}

function merged(parts: readonly Values[]): Values {
  return Object.assign({}, ...parts)
}
