/**
 * The answers of the API: one schema for each body, by `operationId` in `ANSWERS`. The SDK parses with them; they ignore unknown
 * fields. Separate from the requests, which only the server parses, so that a bundle of the SDK contains only schemas that it uses.
 */
import * as z from 'zod/mini'
import { ACTIONS } from '../actions.js'
import { PERMISSIONS } from '../permissions.js'
import type { OperationId } from '../routes.js'
import { UNRECORDED_KINDS } from '../unrecorded.js'
import {
  ALGORITHM,
  API_KEY_STATUSES,
  base64,
  boolean,
  count,
  dek,
  hex32,
  integer,
  KEY_STATUSES,
  position,
  time,
  uuid,
  VERSION_STATUSES,
  version,
  wrappedKey,
} from './values.js'

/* Keys */

/** `id`/`key_id` and `current_version`/`key_version` are the same values under both names. */
const keyFields = {
  id: uuid,
  key_id: uuid,
  name: z.string(),
  algorithm: z.enum([ALGORITHM]),
  status: z.enum(KEY_STATUSES),
  current_version: version,
  key_version: version,
  created_at: time,
  rotation: z.nullable(z.object({ interval_days: integer, next_rotation_at: time })),
  destroy_at: z.optional(time),
}
export const key = z.object(keyFields)
export const keyWithVersions = z.object({
  ...keyFields,
  updated_at: time,
  versions: z.array(z.object({ version, status: z.enum(VERSION_STATUSES), created_at: time })),
})
export const keyList = z.object({ keys: z.array(key), count })
export const keyExport = z.object({
  tenant_id: uuid,
  key_id: uuid,
  name: z.string(),
  algorithm: z.enum([ALGORITHM]),
  versions: z.array(z.object({ version, dek_hex: hex32, status: z.enum(VERSION_STATUSES) })),
  hash_key_hex: hex32,
  exported_at: time,
  warning: z.string(),
})

/* Envelope mode */

export const wrapped = z.object({ wrapped_key: wrappedKey, key_id: uuid, key_version: version })
export const unwrapped = z.object({ dek, key_id: uuid, key_version: version })

export const hashed = z.object({ hash: hex32, key_id: uuid })

/* Server mode */

/** What server mode answers: envelope format v1 without `envelope_version` (envelope.md 5). */
export const bundle = z.object({
  ciphertext: base64,
  wrapped_key: wrappedKey,
  iv: base64,
  key_id: uuid,
  key_version: version,
})
export const decrypted = z.object({ plaintext: z.string() })
/** The answer if base64 was requested. */
export const decryptedBytes = z.object({ plaintext: base64 })

/* Batch */

export const batchResults = z.object({ results: z.array(z.object({ status: integer, body: z.unknown() })) })

/* Audit */

export const entry = z.object({
  id: position,
  tenant_id: uuid,
  action: z.enum(ACTIONS),
  key_id: z.nullable(uuid),
  key_version: z.nullable(version),
  actor: z.string(),
  ip_address: z.nullable(z.string()),
  /** never null; has `key_version` if the entry has one */
  metadata: z.looseObject({}),
  created_at: time,
})
export const entryList = z.object({ logs: z.array(entry), count, total: count, limit: count, offset: count })
export const verification = z.object({
  valid: boolean,
  total_entries: count,
  verified_entries: count,
  broken_at: z.optional(integer),
  reason: z.optional(z.string()),
  head: z.nullable(z.object({ id: count, hash: z.string(), created_at: z.nullable(time) })),
  purged_through: count,
  checkpoint: z.optional(z.object({ id: count, compared: boolean })),
})
export const checkpoint = z.object({ checkpoint: z.string(), public_key: z.string() })

/* API keys */

const permissions = z.array(z.enum(PERMISSIONS))
const apiKeyFields = {
  id: uuid,
  name: z.string(),
  prefix: z.string(),
  permissions,
  status: z.enum(API_KEY_STATUSES),
  created_at: time,
  expires_at: z.optional(time),
  allowed_ips: z.optional(z.array(z.string())),
  /** accurate to about a minute; absent if the key was never used */
  last_used_at: z.optional(time),
}
export const apiKey = z.object(apiKeyFields)
export const apiKeyList = z.object({ api_keys: z.array(apiKey), count })
export const newApiKey = z.object({ ...apiKeyFields, secret: z.string() })

/* The rest */

export const tenant = z.object({
  tenant_id: uuid,
  name: z.string(),
  envelope_only: boolean,
  created_at: time,
  monthly_encrypt_quota: z.nullable(count),
  /** absent if it is `utf8` */
  plaintext_encoding: z.optional(z.enum(['base64'])),
})
export const usage = z.object({
  month: z.string(),
  operations: z.catchall(z.object({}), count),
  /** calls that wrote no entry, by day and API key, the largest counts first */
  unrecorded: z.array(z.object({ day: z.string(), api_key_id: uuid, kind: z.enum(UNRECORDED_KINDS), count })),
})

export const health = z.object({
  status: z.enum(['healthy', 'degraded']),
  database: z.string(),
  cache: z.string(),
  hsm: z.string(),
  durability: z.string(),
  /** only if the service is degraded */
  title: z.optional(z.string()),
  detail: z.optional(z.string()),
})
export const problem = z.object({
  type: z.string(),
  title: z.string(),
  status: integer,
  detail: z.string(),
  code: z.string(),
})

/** The schema of each call's JSON answer. */
export const ANSWERS = {
  createKey: key,
  listKeys: keyList,
  getKey: keyWithVersions,
  rotateKey: key,
  setRotation: key,
  enableKey: key,
  destroyKey: key,
  cancelDestruction: key,
  exportKey: keyExport,
  wrap: wrapped,
  unwrap: unwrapped,
  rewrap: wrapped,
  hash: hashed,
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
} as const satisfies Partial<Record<OperationId, z.ZodMiniType>>

/** The type of each answer once parsed. */
export type Answers = { [Id in keyof typeof ANSWERS]: z.infer<(typeof ANSWERS)[Id]> }
export type Key = z.infer<typeof key>
export type KeyWithVersions = z.infer<typeof keyWithVersions>
export type KeyList = z.infer<typeof keyList>
export type KeyStatus = Key['status']
export type VersionStatus = (typeof VERSION_STATUSES)[number]
export type Wrapped = z.infer<typeof wrapped>
export type Unwrapped = z.infer<typeof unwrapped>
export type KeyExport = z.infer<typeof keyExport>
export type Bundle = z.infer<typeof bundle>
export type Decrypted = z.infer<typeof decrypted>
export type BatchResults = z.infer<typeof batchResults>
export type ApiKey = z.infer<typeof apiKey>
export type ApiKeyList = z.infer<typeof apiKeyList>
export type NewApiKey = z.infer<typeof newApiKey>
export type Tenant = z.infer<typeof tenant>
export type Usage = z.infer<typeof usage>
export type Hashed = z.infer<typeof hashed>
export type Entry = z.infer<typeof entry>
export type EntryList = z.infer<typeof entryList>
export type Verification = z.infer<typeof verification>
export type Checkpoint = z.infer<typeof checkpoint>
export type Health = z.infer<typeof health>
export type Problem = z.infer<typeof problem>
