/** The answers of the API; they ignore unknown fields. `page-answers.ts` reads those of most pages without zod. */
import * as z from 'zod/mini'
import { ACTIONS } from '../entry-names.js'
import { PERMISSIONS } from '../names.js'
import type { OperationId } from '../routes.js'
import { AnswerError } from './page-answers.js'
import {
  ALGORITHM,
  API_KEY_STATUSES,
  BLIND_HASH_SUITE,
  base64,
  blindElement,
  blindProof,
  count,
  dek,
  hex32,
  KEY_STATUSES,
  position,
  time,
  uuid,
  VERSION_STATUSES,
  version,
  wrappedKey,
} from './values.js'

/** A schema of zod, typed only by its values, so that the SDK's types do not mention zod. See `asZod`. */
export interface Answer<T = unknown> {
  readonly _zod: { readonly output: T }
}

/** Spelt out at each level, also to avoid zod's types. */
type Plain<T> = T extends object ? { [K in keyof T]: Plain<T[K]> } : T

function answer<S extends z.ZodMiniType>(schema: S): Answer<Plain<z.output<S>>> {
  return schema as unknown as Answer<Plain<z.output<S>>>
}

export function asZod<T>(schema: Answer<T>): z.ZodMiniType<T> {
  return schema as unknown as z.ZodMiniType<T>
}

/* Keys */

/** `id` and `key_id`, `current_version` and `key_version`: both names have the same value. */
const keyFields = {
  id: uuid,
  key_id: uuid,
  name: z.string(),
  algorithm: z.enum([ALGORITHM]),
  status: z.enum(KEY_STATUSES),
  current_version: version,
  key_version: version,
  min_unwrap_version: version,
  created_at: time,
  rotation: z.nullable(z.object({ interval_days: count, next_rotation_at: time })),
  destroy_at: z.optional(time),
}
export const key = answer(z.object(keyFields))
export const keyWithVersions = answer(
  z.object({
    ...keyFields,
    updated_at: time,
    /** null once the key is destroyed; absent if the service has no blind hash */
    blind_hash_public_key: z.optional(z.nullable(blindElement)),
    versions: z.array(
      z.object({
        version,
        status: z.enum(VERSION_STATUSES),
        created_at: time,
        /** DEKs that it wrapped */
        wraps: count,
        /** the beginning of the last UTC day on which it opened something; absent if it never did */
        last_unwrapped_at: z.optional(time),
      }),
    ),
  }),
)
export const keyList = answer(z.object({ keys: z.array(asZod(key)), count }))
export const keyExport = answer(
  z.object({
    tenant_id: uuid,
    key_id: uuid,
    name: z.string(),
    algorithm: z.enum([ALGORITHM]),
    versions: z.array(z.object({ version, dek_hex: hex32, status: z.enum(VERSION_STATUSES) })),
    hash_key_hex: hex32,
    exported_at: time,
    warning: z.string(),
  }),
)

/* Envelope mode */
export const wrapped = answer(z.object({ wrapped_key: wrappedKey, key_id: uuid, key_version: version }))
export const unwrapped = answer(z.object({ dek, key_id: uuid, key_version: version }))

export const derivedSecret = answer(z.object({ secret: dek, key_id: uuid }))
export const hashed = answer(z.object({ hash: hex32, key_id: uuid }))
export const blindHashed = answer(
  z.object({ elements: z.array(blindElement), proof: blindProof, key_id: uuid, suite: z.enum([BLIND_HASH_SUITE]) }),
)

/* Server mode */

/** The answer of server mode: envelope format v1 without `envelope_version` (envelope.md 5). */
export const bundle = answer(
  z.object({ ciphertext: base64, wrapped_key: wrappedKey, iv: base64, key_id: uuid, key_version: version }),
)
export const decrypted = answer(z.object({ plaintext: z.string() }))
/** The answers with base64, which the SDK requests. */
export const BASE64_ANSWERS = { decrypt: answer(z.object({ plaintext: base64 })) }

/* Batch */

export const batchResults = answer(z.object({ results: z.array(z.object({ status: z.int(), body: z.unknown() })) }))

/* Audit */

export const entry = answer(
  z.object({
    id: position,
    tenant_id: uuid,
    action: z.enum(ACTIONS),
    key_id: z.nullable(uuid),
    key_version: z.nullable(version),
    actor: z.string(),
    ip_address: z.nullable(z.string()),
    /** never null; contains the entry's `key_version`, if any */
    metadata: z.record(z.string(), z.unknown()),
    created_at: time,
  }),
)
export const entryList = answer(
  z.object({ logs: z.array(asZod(entry)), count, total: count, limit: count, offset: count }),
)
export const verification = answer(
  z.object({
    valid: z.boolean(),
    total_entries: count,
    verified_entries: count,
    broken_at: z.optional(count),
    reason: z.optional(z.string()),
    head: z.nullable(z.object({ id: count, hash: z.string(), created_at: z.nullable(time) })),
    purged_through: count,
    checkpoint: z.optional(z.object({ id: count, compared: z.boolean() })),
  }),
)
export const checkpoint = answer(z.object({ checkpoint: z.string(), public_key: z.string() }))

/* API keys */

const permissions = z.array(z.enum(PERMISSIONS))
const budget = z.object({ per_minute: z.optional(count), per_day: z.optional(count) })
const apiKeyFields = {
  id: uuid,
  name: z.string(),
  prefix: z.string(),
  permissions,
  status: z.enum(API_KEY_STATUSES),
  created_at: time,
  expires_at: z.optional(time),
  allowed_ips: z.optional(z.array(z.string())),
  /** absent if it may use all keys */
  keys: z.optional(z.array(z.string())),
  /** absent if it has none */
  budgets: z.optional(
    z.object({
      unwrap: z.optional(budget),
      hash: z.optional(budget),
      when_over: z.optional(z.enum(['refuse', 'expire'])),
    }),
  ),
  /** accurate to about a minute; absent if the key was never used */
  last_used_at: z.optional(time),
}
export const apiKey = answer(z.object(apiKeyFields))
export const apiKeyList = answer(z.object({ api_keys: z.array(asZod(apiKey)), count }))
export const newApiKey = answer(z.object({ ...apiKeyFields, secret: z.string() }))

/* The rest */

export const tenant = answer(
  z.object({
    tenant_id: uuid,
    name: z.string(),
    envelope_only: z.boolean(),
    created_at: time,
    monthly_encrypt_quota: z.nullable(count),
    /** absent if it is `utf8` */
    plaintext_encoding: z.optional(z.enum(['base64'])),
  }),
)
export const usage = answer(
  z.object({
    month: z.string(),
    operations: z.record(z.string(), count),
    /** calls without an entry, largest first; `ip_address` is null for all further addresses, `kind` may be unknown */
    unrecorded: z.array(
      z.object({ day: z.string(), api_key_id: uuid, kind: z.string(), ip_address: z.nullable(z.string()), count }),
    ),
    /** `today` in every month's answer; `unwrap` includes decrypts; `median` is over the used ones of the 30 days before */
    by_api_key: z.array(z.object({ api_key_id: uuid, kind: z.string(), today: count, median: z.nullable(count) })),
  }),
)

export const health = answer(
  z.object({
    status: z.enum(['healthy', 'degraded']),
    database: z.string(),
    cache: z.string(),
    hsm: z.string(),
    durability: z.string(),
    /** only if the service is degraded */
    title: z.optional(z.string()),
    detail: z.optional(z.string()),
  }),
)
export const problem = answer(
  z.object({
    type: z.string(),
    title: z.string(),
    status: count,
    detail: z.string(),
    code: z.string(),
    /** after how many seconds the call may succeed */
    retry_after: z.optional(count),
  }),
)

export const ANSWERS = {
  createKey: key,
  createKeys: batchResults,
  listKeys: keyList,
  getKey: keyWithVersions,
  updateKey: key,
  rotateKey: key,
  setRotation: key,
  enableKey: key,
  destroyKey: key,
  cancelDestruction: key,
  destroyVersion: key,
  exportKey: keyExport,
  wrap: wrapped,
  unwrap: unwrapped,
  rewrap: wrapped,
  indexSecret: derivedSecret,
  hash: hashed,
  blindHash: blindHashed,
  encrypt: bundle,
  decrypt: decrypted,
  batch: batchResults,
  listAudit: entryList,
  verifyAudit: verification,
  readAuditCheckpoint: checkpoint,
  listApiKeys: apiKeyList,
  createApiKey: newApiKey,
  updateApiKey: apiKey,
  getTenant: tenant,
  getUsage: usage,
  getHealth: health,
} as const satisfies Partial<Record<OperationId, Answer>>

export type Answers = { [Id in keyof typeof ANSWERS]: (typeof ANSWERS)[Id]['_zod']['output'] }
export type Key = (typeof key)['_zod']['output']
export type KeyWithVersions = (typeof keyWithVersions)['_zod']['output']
export type KeyList = (typeof keyList)['_zod']['output']
export type KeyStatus = Key['status']
export type VersionStatus = (typeof VERSION_STATUSES)[number]
export type Wrapped = (typeof wrapped)['_zod']['output']
export type Unwrapped = (typeof unwrapped)['_zod']['output']
export type DerivedSecret = (typeof derivedSecret)['_zod']['output']
export type KeyExport = (typeof keyExport)['_zod']['output']
export type Bundle = (typeof bundle)['_zod']['output']
export type Decrypted = (typeof decrypted)['_zod']['output']
export type BatchResults = (typeof batchResults)['_zod']['output']
export type ApiKey = (typeof apiKey)['_zod']['output']
export type ApiKeyList = (typeof apiKeyList)['_zod']['output']
export type NewApiKey = (typeof newApiKey)['_zod']['output']
export type Tenant = (typeof tenant)['_zod']['output']
export type Usage = (typeof usage)['_zod']['output']
export type Hashed = (typeof hashed)['_zod']['output']
export type BlindHashed = (typeof blindHashed)['_zod']['output']
export type Entry = (typeof entry)['_zod']['output']
export type EntryList = (typeof entryList)['_zod']['output']
export type Verification = (typeof verification)['_zod']['output']
export type Checkpoint = (typeof checkpoint)['_zod']['output']
export type Health = (typeof health)['_zod']['output']
export type Problem = (typeof problem)['_zod']['output']

/** Returns a copy of a value of JSON.parse, without the members that the schema ignores. @throws AnswerError */
export function readAnswer<T>(schema: Answer<T>, value: unknown): T {
  const { success, data, error } = z.safeParse(asZod(schema), value, { error: describeFault })
  if (success) return data
  const [issue] = error.issues
  throw new AnswerError(`${issue?.path.join('.') || 'the body'}: ${issue?.message}`)
}

const KINDS: Readonly<Record<string, string>> = {
  array: 'an array',
  boolean: 'true or false',
  int: 'a whole number',
  number: 'a whole number',
  object: 'an object',
  record: 'an object',
  string: 'text',
}

/** What a value must be, if its schema itself does not say it. */
function describeFault(issue: z.core.$ZodRawIssue): string {
  if (issue.code === 'invalid_value') return `must be one of ${issue.values.join(', ')}`
  const kind = issue.code === 'invalid_type' ? KINDS[issue.expected] : undefined
  return kind === undefined ? 'is missing or wrong' : `must be ${kind}`
}
