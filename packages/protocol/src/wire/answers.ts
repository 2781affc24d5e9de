/**
 * The answers of the API: one shape for each body, by `operationId` in `ANSWERS`. The SDK reads answers by them; they ignore unknown
 * fields. Requests are in a module of their own, because they need zod, which the SDK's bundle leaves out.
 */
import { ACTIONS } from '../actions.js'
import { PERMISSIONS } from '../permissions.js'
import type { OperationId } from '../routes.js'
import { anything, choice, type Infer, list, nullable, object, optional, record, type Shape, string } from './shape.js'
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
  name: string,
  algorithm: choice([ALGORITHM]),
  status: choice(KEY_STATUSES),
  current_version: version,
  key_version: version,
  created_at: time,
  rotation: nullable(object({ interval_days: integer, next_rotation_at: time })),
  destroy_at: optional(time),
}
export const key = object(keyFields)
export const keyWithVersions = object({
  ...keyFields,
  updated_at: time,
  versions: list(object({ version, status: choice(VERSION_STATUSES), created_at: time })),
})
export const keyList = object({ keys: list(key), count })
export const keyExport = object({
  tenant_id: uuid,
  key_id: uuid,
  name: string,
  algorithm: choice([ALGORITHM]),
  versions: list(object({ version, dek_hex: hex32, status: choice(VERSION_STATUSES) })),
  hash_key_hex: hex32,
  exported_at: time,
  warning: string,
})

/* Envelope mode */

export const wrapped = object({ wrapped_key: wrappedKey, key_id: uuid, key_version: version })
export const unwrapped = object({ dek, key_id: uuid, key_version: version })

export const hashed = object({ hash: hex32, key_id: uuid })

/* Server mode */

/** What server mode answers: envelope format v1 without `envelope_version` (envelope.md 5). */
export const bundle = object({
  ciphertext: base64,
  wrapped_key: wrappedKey,
  iv: base64,
  key_id: uuid,
  key_version: version,
})
export const decrypted = object({ plaintext: string })
/** The answer if base64 was requested. */
export const decryptedBytes = object({ plaintext: base64 })

/* Batch */

export const batchResults = object({ results: list(object({ status: integer, body: anything })) })

/* Audit */

export const entry = object({
  id: position,
  tenant_id: uuid,
  action: choice(ACTIONS),
  key_id: nullable(uuid),
  key_version: nullable(version),
  actor: string,
  ip_address: nullable(string),
  /** never null; has `key_version` if the entry has one */
  metadata: record(anything),
  created_at: time,
})
export const entryList = object({ logs: list(entry), count, total: count, limit: count, offset: count })
export const verification = object({
  valid: boolean,
  total_entries: count,
  verified_entries: count,
  broken_at: optional(integer),
  reason: optional(string),
  head: nullable(object({ id: count, hash: string, created_at: nullable(time) })),
  purged_through: count,
  checkpoint: optional(object({ id: count, compared: boolean })),
})
export const checkpoint = object({ checkpoint: string, public_key: string })

/* API keys */

const permissions = list(choice(PERMISSIONS))
const apiKeyFields = {
  id: uuid,
  name: string,
  prefix: string,
  permissions,
  status: choice(API_KEY_STATUSES),
  created_at: time,
  expires_at: optional(time),
  allowed_ips: optional(list(string)),
  /** accurate to about a minute; absent if the key was never used */
  last_used_at: optional(time),
}
export const apiKey = object(apiKeyFields)
export const apiKeyList = object({ api_keys: list(apiKey), count })
export const newApiKey = object({ ...apiKeyFields, secret: string })

/* The rest */

export const tenant = object({
  tenant_id: uuid,
  name: string,
  envelope_only: boolean,
  created_at: time,
  monthly_encrypt_quota: nullable(count),
  /** absent if it is `utf8` */
  plaintext_encoding: optional(choice(['base64'])),
})
export const usage = object({
  month: string,
  operations: record(count),
  /**
   * calls that wrote no entry, the largest counts first; `ip_address` is null for those of further addresses, and `kind` may be one that only
   * a newer server has (unrecorded.ts)
   */
  unrecorded: list(object({ day: string, api_key_id: uuid, kind: string, ip_address: nullable(string), count })),
})

export const health = object({
  status: choice(['healthy', 'degraded']),
  database: string,
  cache: string,
  hsm: string,
  durability: string,
  /** only if the service is degraded */
  title: optional(string),
  detail: optional(string),
})
export const problem = object({
  type: string,
  title: string,
  status: integer,
  detail: string,
  code: string,
})

/** The shape of each call's JSON answer. */
export const ANSWERS = {
  createKey: key,
  createKeys: batchResults,
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
} as const satisfies Partial<Record<OperationId, Shape>>

/** The type of each answer once parsed. */
export type Answers = { [Id in keyof typeof ANSWERS]: Infer<(typeof ANSWERS)[Id]> }
export type Key = Infer<typeof key>
export type KeyWithVersions = Infer<typeof keyWithVersions>
export type KeyList = Infer<typeof keyList>
export type KeyStatus = Key['status']
export type VersionStatus = (typeof VERSION_STATUSES)[number]
export type Wrapped = Infer<typeof wrapped>
export type Unwrapped = Infer<typeof unwrapped>
export type KeyExport = Infer<typeof keyExport>
export type Bundle = Infer<typeof bundle>
export type Decrypted = Infer<typeof decrypted>
export type BatchResults = Infer<typeof batchResults>
export type ApiKey = Infer<typeof apiKey>
export type ApiKeyList = Infer<typeof apiKeyList>
export type NewApiKey = Infer<typeof newApiKey>
export type Tenant = Infer<typeof tenant>
export type Usage = Infer<typeof usage>
export type Hashed = Infer<typeof hashed>
export type Entry = Infer<typeof entry>
export type EntryList = Infer<typeof entryList>
export type Verification = Infer<typeof verification>
export type Checkpoint = Infer<typeof checkpoint>
export type Health = Infer<typeof health>
export type Problem = Infer<typeof problem>
export { anything, readShape, type Shape, ShapeError } from './shape.js'
