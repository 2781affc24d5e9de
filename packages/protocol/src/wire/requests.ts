/** The request bodies of the API, by `operationId` in `BODIES`. They ignore unknown fields. */
import * as z from 'zod/mini'
import { IV_BYTES, KEY_BYTES } from '../aead.js'
import { isRecordable, limitsSomething } from '../api-key-limits.js'
import { encodeBase64, foldUuid, isBase64, isUuid, isWellFormed } from '../bytes.js'
import {
  MAX_ALLOWED_IPS,
  MAX_BATCH_ELEMENTS,
  MAX_BATCH_OPERATIONS,
  MAX_BLINDED_ELEMENTS,
  MAX_BUDGET,
  MAX_LISTED_KEYS,
  MAX_LISTED_KEYS_BYTES,
  MAX_LISTED_PERMISSIONS,
  MAX_NAME_CHARACTERS,
  MAX_ROTATION_DAYS,
  MAX_USE_PAIRS,
  MAX_USE_VALUE_CHARACTERS,
} from '../limits.js'
import { PERMISSIONS } from '../names.js'
import type { OperationId } from '../routes.js'
import { isWrapContext, PURPOSES, type WrapContext } from '../wrapped-key-v2.js'
import { ALGORITHM, BLIND_HASH_SUITE, base64, blindElement, dek, sentId, version, withoutNul } from './values.js'

/** Text that UTF-8 can encode, without lone surrogates. */
const unicode = z.string().check(z.refine((value) => isWellFormed(value), 'must not contain a lone surrogate'))

/** 1 to 255 characters, for names of keys and API keys. Without NUL, which PostgreSQL cannot store. */
const name = unicode.check(
  z.refine((value) => !value.includes('\0'), 'must not contain a NUL'),
  z.refine(
    (value) => value.length > 0 && [...value].length <= MAX_NAME_CHARACTERS,
    `must be 1 to ${MAX_NAME_CHARACTERS} characters`,
  ),
)

const iv = z
  .string()
  .check(z.refine((value) => isBase64(value, IV_BYTES), `must be canonical standard base64 of ${IV_BYTES} bytes`))
export const ZEROS = encodeBase64(new Uint8Array(KEY_BYTES))
/** Not zeros: a client that sends them has zeroed its DEK too early, and would seal under a known key. */
const usableDek = dek.check(
  z.refine((value) => value !== ZEROS, `must not be ${KEY_BYTES} zero bytes: make each DEK of secure random bytes`),
)

/** The most items that each array of a body may have. */
const MAX_ITEMS = Object.entries({
  operations: MAX_BATCH_OPERATIONS,
  elements: MAX_BLINDED_ELEMENTS,
  keys: MAX_BATCH_OPERATIONS,
  permissions: MAX_LISTED_PERMISSIONS,
  allowed_ips: MAX_ALLOWED_IPS,
})

/** Before any item is parsed, names the array of a body with too many items; undefined if there is none. */
export function findOverlong(body: unknown): string | undefined {
  for (const [field, most] of MAX_ITEMS) {
    const value: unknown = (body as Record<string, unknown> | null | undefined)?.[field]
    if (Array.isArray(value) && value.length > most)
      return `${field}: must have at most ${most} items, got ${value.length}`
  }
  return undefined
}

/* Keys */
export const createKey = z.object({ name, algorithm: z.optional(z.literal(ALGORITHM)) })
/** An invalid name fails the whole call; a name that is taken fails only its own key. */
export const createKeys = z.object({
  keys: z.array(createKey).check(z.minLength(1), z.maxLength(MAX_BATCH_OPERATIONS)),
})
/** At most the key's current version, which only the operation knows. */
export const updateKey = z.object({ min_unwrap_version: version })
export const setRotation = z.object({ interval_days: z.nullable(z.int().check(z.gte(1), z.lte(MAX_ROTATION_DAYS))) })
/** Also for a version of a key. */
export const destroyKey = z.object({ confirm: z.string() })

/* Envelope mode */

/** Not a record, which would drop a name such as `__proto__` instead of refusing it. */
export const wrapContext = z
  .unknown()
  .check(
    z.refine(
      isWrapContext,
      `must have at most ${MAX_USE_PAIRS} pairs; a name is a letter and up to 63 letters, digits, _, . or -, a value text of at most ${MAX_USE_VALUE_CHARACTERS} characters`,
    ),
  ) as unknown as z.ZodMiniType<WrapContext>
/** How an entry of the log records a context's values. */
export const CONTEXT_RECORDS = ['values', 'digests'] as const
/** What a wrapped key is bound to. Without `purpose` and `context`, it has format 1. */
const use = {
  purpose: z.optional(z.enum(PURPOSES)),
  context: z.optional(wrapContext),
  record: z.optional(z.enum(CONTEXT_RECORDS)),
}
export const wrap = z.object({ dek: usableDek, ...use })
export const unwrap = z.object({ wrapped_key: base64, ...use })

/* Blind index */

/** `name` is a model's, for example. */
export const indexSecret = z.object({ name })
/** `value` may contain a NUL, because it is hashed and never stored. */
export const hash = z.object({ value: unicode, key_id: sentId })
/** Only the computation finds out whether each is an element of the group. */
export const blindHash = z.object({
  elements: z.array(blindElement).check(z.minLength(1), z.maxLength(MAX_BLINDED_ELEMENTS)),
  key_id: sentId,
  suite: z.optional(z.literal(BLIND_HASH_SUITE)),
})

/* Server mode */

/** The form of a plaintext: text, or base64 of bytes. */
export const PLAINTEXT_ENCODINGS = ['utf8', 'base64'] as const
export type PlaintextEncoding = (typeof PLAINTEXT_ENCODINGS)[number]
/** By default, the tenant's setting applies. */
const encoding = z.optional(z.enum(PLAINTEXT_ENCODINGS))
/** `plaintext` may contain a NUL, because the server does not store it. */
export const encrypt = z.object({ plaintext: unicode, key_id: sentId, encoding })
export const decrypt = z.object({
  ciphertext: base64,
  wrapped_key: base64,
  iv,
  key_id: sentId,
  key_version: version,
  encoding,
})

/* Batch */

export const BATCH_OPERATIONS = [
  'wrap',
  'unwrap',
  'rewrap',
  'encrypt',
  'decrypt',
  'hash',
  'indexSecret',
  'blind_hash',
] as const
const foldedId = z.pipe(
  z.unknown(),
  z.transform((id) => (typeof id === 'string' ? foldUuid(id) : id)),
)
/** Each operation is checked later by the schema of its own call, so that an invalid one fails alone. */
export const batch = z.object({
  operations: z.array(z.looseObject({ op: z.enum(BATCH_OPERATIONS), key_id: z.optional(foldedId) })).check(
    z.minLength(1),
    z.maxLength(MAX_BATCH_OPERATIONS),
    z.refine(
      (operations) =>
        operations.reduce((count, { elements }) => count + countElements(elements), 0) <= MAX_BATCH_ELEMENTS,
      `must have at most ${MAX_BATCH_ELEMENTS} elements to hash in all`,
    ),
  ),
})

function countElements(elements: unknown): number {
  return Array.isArray(elements) ? elements.length : 0
}

/* API keys */

const permissions = z.array(z.enum(PERMISSIONS)).check(z.maxLength(MAX_LISTED_PERMISSIONS))
const addressRange = z.string()
const allowedIps = z.array(addressRange).check(z.maxLength(MAX_ALLOWED_IPS))
/** A key's id, or a folder of names: `customers/*` contains the keys whose names begin with `customers/`. */
const listedKey = name.check(
  z.overwrite(foldUuid),
  z.refine(
    (text) => text.endsWith('/*') || isUuid(text),
    "must be a key's id, or a folder of names such as customers/*",
  ),
)
const keys = z.array(listedKey).check(
  z.maxLength(MAX_LISTED_KEYS),
  z.refine(
    (list) => isRecordable(list),
    `must be at most ${MAX_LISTED_KEYS_BYTES} bytes as a text in JSON: use folders`,
  ),
)

const limit = z.optional(z.int().check(z.minimum(1), z.maximum(MAX_BUDGET)))
const budget = z.object({ per_minute: limit, per_day: limit })
const budgets = z
  .object({ unwrap: z.optional(budget), hash: z.optional(budget), when_over: z.optional(z.enum(['refuse', 'expire'])) })
  .check(z.refine(limitsSomething, 'must limit unwrap or hash, per_minute or per_day'))

/** `expires_at` takes any RFC 3339 time with an offset. */
const limits = {
  expires_at: z.optional(z.nullable(z.string())),
  allowed_ips: z.optional(z.nullable(allowedIps)),
  keys: z.optional(z.nullable(keys)),
  budgets: z.optional(z.nullable(budgets)),
}
export const createApiKey = z.object({ name, permissions, ...limits })
/** An absent field keeps its value, `null` clears it, a value sets it. */
export const updateApiKey = z.object({
  name: z.optional(name),
  permissions: z.optional(z.nullable(permissions)),
  ...limits,
})

/** The checks of functions, beyond the types, for the OpenAPI document to describe. */
export const FIELDS = { name, iv, dek: usableDek, withoutNul, addressRange, listedKey, budgets }

export const BODIES = {
  createKey,
  createKeys,
  updateKey,
  setRotation,
  destroyKey,
  destroyVersion: destroyKey,
  wrap,
  unwrap,
  rewrap: unwrap,
  indexSecret,
  hash,
  blindHash,
  encrypt,
  decrypt,
  batch,
  createApiKey,
  updateApiKey,
} as const satisfies Partial<Record<OperationId, z.ZodMiniType>>

export type Bodies = { [Id in keyof typeof BODIES]: z.infer<(typeof BODIES)[Id]> }
export type CreateKeys = z.infer<typeof createKeys>
export type Wrap = z.infer<typeof wrap>
export type Unwrap = z.infer<typeof unwrap>
export type Encrypt = z.infer<typeof encrypt>
export type Decrypt = z.infer<typeof decrypt>
export type BatchOperation = (typeof BATCH_OPERATIONS)[number]
export function batchedCall(op: BatchOperation): Exclude<BatchOperation, 'blind_hash'> | 'blindHash' {
  return op === 'blind_hash' ? 'blindHash' : op
}
export type Batch = z.infer<typeof batch>
export type CreateApiKey = z.infer<typeof createApiKey>
export type UpdateApiKey = z.infer<typeof updateApiKey>
