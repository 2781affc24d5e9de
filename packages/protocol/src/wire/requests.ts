/** What the /v1 API is sent: one schema for each request body. The server parses with them; unknown fields are ignored. */
import * as z from 'zod/mini'
import { IV_BYTES } from '../aead.js'
import { isWellFormed } from '../bytes.js'
import { PERMISSIONS } from '../permissions.js'
import { ALGORITHM, base64, dek, isBase64, time, uuid, version, wrappedKey } from './values.js'

/** Text that PostgreSQL and UTF-8 can carry: no NUL, no lone surrogate. */
const text = z.string().check(
  z.refine((value) => isWellFormed(value), 'must not hold a lone surrogate'),
  z.refine((value) => !value.includes('\0'), 'must not hold a NUL'),
)

/** 1 to 255 characters, as names of keys and API keys have. */
const name = text.check(
  z.refine((value) => value.length > 0 && [...value].length <= 255, 'must be 1 to 255 characters'),
)

const iv = z
  .string()
  .check(z.refine((value) => isBase64(value, IV_BYTES), `must be canonical standard base64 of ${IV_BYTES} bytes`))
/** The texts that a check narrows beyond what their type says, for those who describe the API. */
export const FIELDS = { text, name, uuid, base64, wrappedKey, dek, iv, time }

/* Keys */

export const createKey = z.object({ name, algorithm: z.optional(z.literal(ALGORITHM)) })
export const setRotation = z.object({ interval_days: z.nullable(z.int().check(z.gte(1), z.lte(3_650))) })
export const destroyKey = z.object({ confirm: z.string() })

/* Envelope mode */

export const wrap = z.object({ dek })
export const unwrap = z.object({ wrapped_key: base64 })

/* Blind index */

export const hash = z.object({ value: text, key_id: z.string() })

/* Server mode */

/** Plaintext in server mode, in bytes after decoding. */
export const MAX_PLAINTEXT_BYTES = 65_536
const encoding = z.optional(z.enum(['utf8', 'base64']))
export const encrypt = z.object({ plaintext: text, key_id: z.string(), encoding })
export const decrypt = z.object({
  ciphertext: base64,
  wrapped_key: base64,
  iv,
  key_id: z.string(),
  key_version: version,
  encoding,
})

/* Batch */

export const BATCH_OPERATIONS = ['wrap', 'unwrap', 'rewrap', 'encrypt', 'decrypt', 'hash'] as const
export const MAX_BATCH_OPERATIONS = 1_000
/** Each operation is checked by itself, against the body of its own call: one that is wrong doesn't spoil the others. */
export const batch = z.object({
  operations: z
    .array(z.looseObject({ op: z.enum(BATCH_OPERATIONS) }))
    .check(z.minLength(1), z.maxLength(MAX_BATCH_OPERATIONS)),
})

/* API keys */

const permissions = z.array(z.enum(PERMISSIONS))
/** `expires_at` takes any RFC 3339 time with an offset. */
export const createApiKey = z.object({
  name,
  permissions,
  expires_at: z.optional(z.nullable(z.string())),
  allowed_ips: z.optional(z.nullable(z.array(z.string()))),
})
/** A field that is absent is kept, `null` clears it, a value sets it. */
export const updateApiKey = z.object({
  name: z.optional(name),
  permissions: z.optional(z.nullable(permissions)),
  expires_at: z.optional(z.nullable(z.string())),
  allowed_ips: z.optional(z.nullable(z.array(z.string()))),
})

export type Encrypt = z.infer<typeof encrypt>
export type Decrypt = z.infer<typeof decrypt>
export type BatchOperation = (typeof BATCH_OPERATIONS)[number]
export type Batch = z.infer<typeof batch>
export type CreateApiKey = z.infer<typeof createApiKey>
export type UpdateApiKey = z.infer<typeof updateApiKey>
