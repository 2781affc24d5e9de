/** Values that several bodies of the /v1 API share, and what each must be. They coerce nothing. */
import * as z from 'zod/mini'
import { foldUuid, isBase64 } from '../bytes.js'
import { BASE64_KEY, HEX_32, MAX_VERSION, type TextKind, UUID, WRAPPED_KEY, wholeMessage } from './page-answers.js'

const textOf = ({ is, must }: TextKind) => z.string().check(z.refine(is, must))

export const base64 = z.string().check(z.refine((text) => isBase64(text), 'must be canonical standard base64'))
export const dek = textOf(BASE64_KEY)
const base64Of = (length: number) =>
  z
    .string()
    .check(z.refine((text) => isBase64(text, length), `must be canonical standard base64 of exactly ${length} bytes`))
/** The only suite of the blind hash (blind-hash.md 1). */
export const BLIND_HASH_SUITE = 'ristretto255-SHA512'
export const blindElement = base64Of(32)
export const blindProof = base64Of(64)
/** A wrapped key as a service may return it (envelope.md 2). */
export const wrappedKey = textOf(WRAPPED_KEY)

/* Texts of a format, which the OpenAPI document names too. */
export const uuid = z.stringFormat('uuid', UUID.pattern, UUID.must)
/** An id in a request. It need not be a UUID: other text is not found. */
export const sentId = z.string().check(z.overwrite(foldUuid))
export const sentUuid = z
  .stringFormat('uuid', /^[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$/, 'must be a UUID, with dashes')
  .check(z.overwrite(foldUuid))
export const time = z.stringFormat(
  'date-time',
  /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/,
  'must be RFC 3339, UTC, with milliseconds',
)
export const hex32 = z.string().check(z.regex(HEX_32.pattern, HEX_32.must))

/** By default up to the largest integer that a number holds exactly. */
export const whole = (least: 0 | 1, most?: number) => {
  const message = wholeMessage(least, most)
  const number = z.int(message).check(z.gte(least, message))
  return most === undefined ? number : number.check(z.lte(most, message))
}
export const version = whole(1, MAX_VERSION)
export const position = whole(1)
export const count = whole(0)

/** Text without NUL, which PostgreSQL cannot store. */
export const withoutNul = z.string().check(z.refine((text) => !text.includes('\0'), 'must not contain a NUL'))

export const ALGORITHM = 'AES-256-GCM'
export { KEY_STATUSES } from '../routes.js'
export const VERSION_STATUSES = ['active', 'retired', 'destroyed'] as const
export const API_KEY_STATUSES = ['active', 'expired', 'revoked'] as const
