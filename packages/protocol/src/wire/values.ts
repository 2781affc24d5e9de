/** Values that several bodies of the /v1 API share, with what each must be. They coerce nothing. */
import * as z from 'zod/mini'
import { KEY_BYTES } from '../aead.js'
import { foldUuid, isBase64 } from '../bytes.js'

/** Ours have 88 (wrapped-key.md 1); those of a KMS have a few hundred. */
export const WRAPPED_KEY_CHARACTERS = 1_024

/* Checked by functions, so that no regular expression keeps a DEK as the last text that it matched. */

export const base64 = z.string().check(z.refine((text) => isBase64(text), 'must be canonical standard base64'))
const base64Of = (length: number) =>
  z
    .string()
    .check(z.refine((text) => isBase64(text, length), `must be canonical standard base64 of exactly ${length} bytes`))
export const dek = base64Of(KEY_BYTES)
/** The only suite of the blind hash (blind-hash.md 1). */
export const BLIND_HASH_SUITE = 'ristretto255-SHA512'
export const blindElement = base64Of(32)
export const blindProof = base64Of(64)
/** A wrapped key as a service may return it (envelope.md 2). */
export const wrappedKey = z
  .string()
  .check(
    z.refine(
      (text) => text !== '' && text.length <= WRAPPED_KEY_CHARACTERS && isBase64(text),
      'must be canonical standard base64 of 1 to 1,024 characters',
    ),
  )

/* Texts of a format, which the OpenAPI document names too. */

export const uuid = z.stringFormat(
  'uuid',
  /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/,
  'must be a UUID, lower case, with dashes',
)
/** An id in a request, which need not be a UUID: one that is none is not found. */
export const sentId = z.string().check(z.overwrite(foldUuid))
/** A UUID in a request, in any case. */
export const sentUuid = z
  .stringFormat('uuid', /^[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$/, 'must be a UUID, with dashes')
  .check(z.overwrite(foldUuid))
export const time = z.stringFormat(
  'date-time',
  /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/,
  'must be RFC 3339, UTC, with milliseconds',
)
export const hex32 = z.string().check(z.regex(/^[0-9a-f]{64}$/, 'must be 64 hexadecimal digits'))

/** At most what a number holds exactly, unless `most` is given. */
export const whole = (least: 0 | 1, most?: number) => {
  const message = `must be a whole number from ${least} to ${most ?? Number.MAX_SAFE_INTEGER}`
  const number = z.int(message).check(z.gte(least, message))
  return most === undefined ? number : number.check(z.lte(most, message))
}
export const version = whole(1, 2 ** 31 - 1)
export const position = whole(1)
export const count = whole(0)

/** Text without what PostgreSQL cannot store. */
export const withoutNul = z.string().check(z.refine((text) => !text.includes('\0'), 'must not contain a NUL'))

export const ALGORITHM = 'AES-256-GCM'
export { KEY_STATUSES } from '../names.js'
export const VERSION_STATUSES = ['active', 'retired', 'destroyed'] as const
export const API_KEY_STATUSES = ['active', 'expired', 'revoked'] as const
