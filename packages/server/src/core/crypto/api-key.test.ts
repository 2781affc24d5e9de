// API keys: their form, and what is stored in place of them.
import { createHmac, createSecretKey } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { apiKeyDigest, apiKeyPrefix, apiKeyTenant, generateApiKey } from './api-key.js'

const TENANT = '7c9e6679-7425-40de-944b-e07fc1f90ae7'
const SECRET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg'
const API_KEY = `eaas_sk_7c9e6679742540de944be07fc1f90ae7_${SECRET}`
const pepper = createSecretKey(new Uint8Array(32).fill(5))

describe('an API key', () => {
  it('names its tenant, whichever it is', () => {
    fc.assert(
      fc.property(fc.uuid(), (tenant) => {
        const apiKey = generateApiKey(tenant)
        expect(apiKey).toMatch(/^eaas_sk_[0-9a-f]{32}_[0-9A-Za-z]{43}$/)
        expect(apiKeyTenant(apiKey)).toBe(tenant)
      }),
    )
    expect(apiKeyTenant(API_KEY)).toBe(TENANT)
  })

  it('is never made twice, and its secret uses all 62 characters evenly', () => {
    const secrets = Array.from({ length: 500 }, () => generateApiKey(TENANT).slice(-43))
    expect(new Set(secrets).size).toBe(500)
    const counts = new Map<string, number>()
    for (const character of secrets.join('')) counts.set(character, (counts.get(character) ?? 0) + 1)
    expect(counts.size).toBe(62)
    // 21,500 draws, 347 of each expected, with a standard deviation of 18: seven of them are beyond chance.
    for (const count of counts.values()) expect(Math.abs(count - 347)).toBeLessThan(130)
  })

  it.each([
    ['empty', ''],
    ['only the beginning', 'eaas_sk_'],
    ['without a secret', API_KEY.slice(0, -43)],
    ['a secret one character short', API_KEY.slice(0, -1)],
    ['a secret one character long', `${API_KEY}a`],
    ['another beginning', API_KEY.replace('eaas_sk_', 'eaas_pk_')],
    ['a beginning in capitals', API_KEY.replace('eaas_sk_', 'EAAS_SK_')],
    ['the tenant in capitals', API_KEY.replace('7c9e6679', '7C9E6679')],
    ['the tenant with dashes', `eaas_sk_${TENANT}_${SECRET}`],
    ['the tenant one digit short', API_KEY.replace('7c9e', '7c9')],
    ['no hexadecimal digit in the tenant', API_KEY.replace('7c9e', '7c9g')],
    ['a dash in the secret', API_KEY.replace('0123', '01-3')],
    ['an underscore in the secret', API_KEY.replace('0123', '01_3')],
    ['an Arabic digit in the secret', API_KEY.replace('0123', '012\u0663')],
    ['a line feed behind', `${API_KEY}\n`],
    ['a blank in front', ` ${API_KEY}`],
    ['a NUL behind', `${API_KEY}\0`],
    ['twice', API_KEY + API_KEY],
    ['very long', `${API_KEY}${'a'.repeat(1_000_000)}`],
  ])('is none: %s', (_, text) => {
    expect(apiKeyTenant(text)).toBeUndefined()
  })

  it('is stored as an HMAC under the pepper, of all its characters', () => {
    const digest = apiKeyDigest(pepper, API_KEY)
    expect(digest).toBe(createHmac('sha256', new Uint8Array(32).fill(5)).update(API_KEY).digest('hex'))
    expect(digest).toMatch(/^[0-9a-f]{64}$/)
    expect(apiKeyDigest(createSecretKey(new Uint8Array(32).fill(6)), API_KEY)).not.toBe(digest)
    for (let at = 0; at < API_KEY.length; at++) {
      const other = `${API_KEY.slice(0, at)}${API_KEY[at] === 'x' ? 'y' : 'x'}${API_KEY.slice(at + 1)}`
      expect(apiKeyDigest(pepper, other), `character ${at}`).not.toBe(digest)
    }
  })

  it('shows four characters of its secret and no more', () => {
    expect(apiKeyPrefix(API_KEY)).toBe('eaas_sk_7c9e6679742540de944be07fc1f90ae7_0123')
    const apiKey = generateApiKey(TENANT)
    expect(apiKey.startsWith(apiKeyPrefix(apiKey))).toBe(true)
    expect(apiKey.length - apiKeyPrefix(apiKey).length).toBe(39)
  })
})
