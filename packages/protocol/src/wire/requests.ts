/** What the /v1 API is sent: one schema for each request body. The server parses with them; unknown fields are ignored. */
import * as z from 'zod/mini'
import { IV_BYTES } from '../aead.js'
import { isWellFormed } from '../bytes.js'
import { PERMISSIONS } from '../permissions.js'
import { ALGORITHM, base64, dek, isBase64, time, uuid, version, wrappedKey } from './values.js'

/** Text that UTF-8 can carry: no lone surrogate. */
const unicode = z.string().check(z.refine((value) => isWellFormed(value), 'must not hold a lone surrogate'))

/** Text that PostgreSQL can carry too: no NUL. */
const text = unicode.check(z.refine((value) => !value.includes('\0'), 'must not hold a NUL'))

/** 1 to 255 characters, as names of keys and API keys have. */
const name = text.check(
  z.refine((value) => value.length > 0 && [...value].length <= 255, 'must be 1 to 255 characters'),
)

const iv = z
  .string()
  .check(z.refine((value) => isBase64(value, IV_BYTES), `must be canonical standard base64 of ${IV_BYTES} bytes`))
/** The texts that a check narrows beyond what their type says, for those who describe the API. */
export const FIELDS = { text, name, uuid, base64, wrappedKey, dek, iv, time }

/** Items of each array of a body at most. It is looked at before the items are. */
const MAX_ITEMS = { operations: 1_000, permissions: 100, allowed_ips: 256 } as const

/** Addresses and ranges of an API key at most. */
export const MAX_ALLOWED_IPS = MAX_ITEMS.allowed_ips

/** Says of a body which of its arrays has too many items; undefined where none has. */
export function findOverlong(body: unknown): string | undefined {
  for (const [field, most] of Object.entries(MAX_ITEMS)) {
    const value: unknown = (body as Record<string, unknown> | null | undefined)?.[field]
    if (Array.isArray(value) && value.length > most) {
      return `${field}: must have ${most} items at most, got ${value.length}`
    }
  }
  return undefined
}

/* Keys */

/** Keys of a tenant at most, whatever their status. */
export const MAX_KEYS = 10_000
/** Versions of a key at most: one a day for ten years. */
export const MAX_KEY_VERSIONS = 4_000

export const createKey = z.object({ name, algorithm: z.optional(z.literal(ALGORITHM)) })
export const setRotation = z.object({ interval_days: z.nullable(z.int().check(z.gte(1), z.lte(3_650))) })
export const destroyKey = z.object({ confirm: z.string() })

/* Envelope mode */

export const wrap = z.object({ dek })
export const unwrap = z.object({ wrapped_key: base64 })

/* Blind index */

/** `value` may hold a NUL: it is hashed, and never stored. */
export const hash = z.object({ value: unicode, key_id: z.string() })

/* Server mode */

/** Plaintext in server mode, in bytes after decoding. */
export const MAX_PLAINTEXT_BYTES = 65_536
/** How a plaintext is written: as text, or as the base64 of bytes. */
export const PLAINTEXT_ENCODINGS = ['utf8', 'base64'] as const
export type PlaintextEncoding = (typeof PLAINTEXT_ENCODINGS)[number]
/** Where it is left out, the tenant's setting counts. */
const encoding = z.optional(z.enum(PLAINTEXT_ENCODINGS))
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
export const MAX_BATCH_OPERATIONS = MAX_ITEMS.operations
/** Each operation is checked by itself, against the body of its own call: one that is wrong doesn't spoil the others. */
export const batch = z.object({
  operations: z
    .array(z.looseObject({ op: z.enum(BATCH_OPERATIONS) }))
    .check(z.minLength(1), z.maxLength(MAX_BATCH_OPERATIONS)),
})

/* API keys */

/** API keys of a tenant at most that are not revoked. */
export const MAX_API_KEYS = 1_000
/** API keys in one answer at most, revoked ones too. */
export const MAX_LISTED_API_KEYS = 10_000

const permissions = z.array(z.enum(PERMISSIONS)).check(z.maxLength(MAX_ITEMS.permissions))
const allowedIps = z.array(z.string()).check(z.maxLength(MAX_ITEMS.allowed_ips))
/** `expires_at` takes any RFC 3339 time with an offset. */
export const createApiKey = z.object({
  name,
  permissions,
  expires_at: z.optional(z.nullable(z.string())),
  allowed_ips: z.optional(z.nullable(allowedIps)),
})
/** A field that is absent is kept, `null` clears it, a value sets it. */
export const updateApiKey = z.object({
  name: z.optional(name),
  permissions: z.optional(z.nullable(permissions)),
  expires_at: z.optional(z.nullable(z.string())),
  allowed_ips: z.optional(z.nullable(allowedIps)),
})

export type Encrypt = z.infer<typeof encrypt>
export type Decrypt = z.infer<typeof decrypt>
export type BatchOperation = (typeof BATCH_OPERATIONS)[number]
export type Batch = z.infer<typeof batch>
export type CreateApiKey = z.infer<typeof createApiKey>
export type UpdateApiKey = z.infer<typeof updateApiKey>
