/**
 * API keys: `eaas_sk_<tenant>_<secret>`. The tenant's UUID, as 32 hexadecimal digits, lets authentication read that
 * tenant only. The secret has 43 characters of an alphabet of 62, 256 bits. Only an HMAC under the pepper is stored.
 */
import { type KeyObject, randomBytes } from 'node:crypto'
import { hmacHex } from './hmac.js'

const PREFIX = 'eaas_sk_'
const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
/** Bytes below this map to each character of the alphabet equally often. */
const FAIR_BYTES = 256 - (256 % ALPHABET.length)
const SECRET_CHARACTERS = 43
const SHOWN_SECRET_CHARACTERS = 4
const PATTERN = /^eaas_sk_([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})_[0-9A-Za-z]{43}$/

/** Draws fresh bytes: `randomInt` has a cache, from which copies of this process would make equal API keys. */
export function generateApiKey(tenant_id: string): string {
  let secret = ''
  while (secret.length < SECRET_CHARACTERS) {
    for (const byte of randomBytes(SECRET_CHARACTERS)) if (byte < FAIR_BYTES) secret += ALPHABET[byte % ALPHABET.length]
  }
  return `${PREFIX}${tenant_id.replaceAll('-', '')}_${secret.slice(0, SECRET_CHARACTERS)}`
}

/** The tenant that an API key names; undefined if the text is not an API key. */
export function apiKeyTenant(apiKey: string): string | undefined {
  const match = PATTERN.exec(apiKey)
  return match ? match.slice(1).join('-') : undefined
}

/** The digest that is stored and searched for instead of an API key. */
export function apiKeyDigest(pepper: KeyObject, apiKey: string): string {
  return hmacHex(pepper, apiKey)
}

/** The part of an API key that lists show, as a copy: a slice kept in a tenant's state would keep the whole API key in memory. */
export function apiKeyPrefix(apiKey: string): string {
  return Buffer.from(apiKey.slice(0, SHOWN_SECRET_CHARACTERS - SECRET_CHARACTERS)).toString('latin1')
}
