/**
 * Values that several bodies of the /v1 API share. They coerce nothing. `FIELDS` in openapi-schemas.ts states them for the OpenAPI
 * document, since a check by a function has no other form.
 */
import { KEY_BYTES } from '../aead.js'
import { isBase64, isUuid } from '../bytes.js'
import { checked, string, textThat } from './shape.js'

/** Ours have 88 (wrapped-key.md 1); those of a KMS have a few hundred. */
export const WRAPPED_KEY_CHARACTERS = 1_024

export const uuid = textThat(isUuid, 'must be a UUID, lower case, with dashes')
export const base64 = textThat((text) => isBase64(text), 'must be canonical standard base64')
export const dek = textThat(
  (text) => isBase64(text, KEY_BYTES),
  `must be canonical standard base64 of exactly ${KEY_BYTES} bytes`,
)
/** A wrapped key as a service may answer it (envelope.md 2). */
export const wrappedKey = textThat(
  (text) => text !== '' && text.length <= WRAPPED_KEY_CHARACTERS && isBase64(text),
  'must be canonical standard base64 of 1 to 1,024 characters',
)
const matching = (pattern: RegExp, message: string) => textThat((text) => pattern.test(text), message)
export const time = matching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/, 'must be RFC 3339, UTC, with milliseconds')
export const hex32 = matching(/^[0-9a-f]{64}$/, 'must be 64 hexadecimal digits')
const whole = (least: number, most = Number.MAX_SAFE_INTEGER) =>
  checked<number>(
    (value) => Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most,
    `must be a whole number from ${least}`,
  )
export const boolean = checked<boolean>((value) => typeof value === 'boolean', 'must be true or false')
export const version = whole(1, 2 ** 31 - 1)
export const position = whole(1)
export const count = whole(0)
export const integer = whole(Number.MIN_SAFE_INTEGER)

/** All of them by name, for the OpenAPI document to describe. */
export const VALUES = { string, uuid, base64, wrappedKey, dek, time, hex32, version, position, count, integer, boolean }

export const ALGORITHM = 'AES-256-GCM'
export { KEY_STATUSES } from '../key-status.js'
export const VERSION_STATUSES = ['active', 'retired', 'destroyed'] as const
export const API_KEY_STATUSES = ['active', 'expired', 'revoked'] as const
