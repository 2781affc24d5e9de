/** Reads what @47ng/cloak and prisma-field-encryption store: `v1.aesgcm256.<fingerprint>.<iv>.<ciphertext>`. */
import { createHash } from 'node:crypto'
import { decodeBase64, decodeUtf8, FormatError, nobleAead, OpenError } from '@eaas/protocol'
import { ContentError, InvalidInputError } from '@eaas/sdk'
import { assertFlag, assertOptions, type Reader, spelledAs } from '@eaas/sdk/maintenance'

/** `k1.aesgcm256.` and the base64 of 32 bytes. */
const KEY = /^k1\.aesgcm256\.(?<key>[\w-]{43}=?)$/
const STORED = /^v1\.aesgcm256\.(?<fingerprint>[0-9a-f]{8})\.(?<iv>[\w-]{16})\.(?<sealed>[\w-]+={0,2})$/
const FINGERPRINT_DIGITS = 8

export interface CloakOptions {
  /** The keys, `k1.aesgcm256.…`: of prisma-field-encryption, `encryptionKey` and all `decryptionKeys`. */
  keys: readonly string[]
  /** If `true`, also takes values of any other form as plaintext, as prisma-field-encryption does. */
  acceptPlaintext?: boolean | undefined
}

/**
 * Makes a reader of what @47ng/cloak encrypted, and so of the columns of prisma-field-encryption. Does not use the
 * network. Refuses values of another form (unless `acceptPlaintext` is set), and values under another key.
 * @throws InvalidInputError when a key is not one of cloak's
 */
export function cloakReader(options: CloakOptions): Reader {
  assertOptions('cloakReader()', options, ['keys', 'acceptPlaintext'] satisfies (keyof CloakOptions)[])
  const { keys, acceptPlaintext } = options
  assertFlag('acceptPlaintext', acceptPlaintext)
  if (!Array.isArray(keys) || keys.length === 0) throw new InvalidInputError('keys must list at least one key of cloak')
  const raw = keys.map((key: string) => readKey(key))
  const fingerprints = keys.map(fingerprintOf)
  return async (stored) => {
    const spelled = spelledAs('cloak', stored)
    if (spelled === undefined && acceptPlaintext) return stored
    const found = STORED.exec(spelled ?? '')?.groups
    if (!found) throw unreadable()
    const key = raw.find((_, at) => fingerprints[at] === found.fingerprint)
    if (!key) throw unreadable()
    try {
      const iv = fromUrl(found.iv ?? '')
      return decodeUtf8(nobleAead.open(key, iv, fromUrl(found.sealed ?? '')))
    } catch (error) {
      if (error instanceof OpenError || error instanceof FormatError) throw unreadable()
      throw error
    }
  }
}

function readKey(key: unknown): Uint8Array {
  try {
    const text = typeof key === 'string' ? KEY.exec(key)?.groups?.key : undefined
    if (text !== undefined) return fromUrl(text.padEnd(44, '='))
  } catch {
    // the message below does not quote it
  }
  const hint = 'Pass the keys as cloak generated them.'
  throw new InvalidInputError('a key of cloak is k1.aesgcm256. and 43 characters', hint)
}

function fingerprintOf(key: string): string {
  return createHash('sha256').update(key).digest('hex').slice(0, FINGERPRINT_DIGITS)
}

/** cloak writes the URL-safe alphabet, with padding. */
function fromUrl(text: string): Uint8Array {
  return decodeBase64(text.replaceAll('-', '+').replaceAll('_', '/'))
}

function unreadable(): ContentError {
  return new ContentError('not a value of cloak under these keys', 'Pass all keys under which values are stored.')
}
