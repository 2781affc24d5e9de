/**
 * What the API takes at most, and in which form. This module has no schemas, so that the SDK can use a limit
 * without loading one.
 */

/** Characters of a key's or an API key's name. */
export const MAX_NAME_CHARACTERS = 255

/** Keys of a tenant, whatever their status. */
export const MAX_KEYS = 10_000
/** Versions of a key: one a day for ten years. */
export const MAX_KEY_VERSIONS = 4_000
/** The longest interval between two rotations by policy, in days. */
export const MAX_ROTATION_DAYS = 3_650

/** API keys of a tenant that are not revoked. */
export const MAX_API_KEYS = 1_000
/** API keys in one answer, revoked ones too. */
export const MAX_LISTED_API_KEYS = 10_000
/** Permissions in one body: more than exist, so that a list with repetitions passes. */
export const MAX_LISTED_PERMISSIONS = 100
/** Addresses and ranges of an API key. */
export const MAX_ALLOWED_IPS = 256

/** Audit entries in one answer; a larger `limit` is read as this one. */
export const MAX_LISTED_ENTRIES = 100

/** Counts of calls without an entry in one answer: the largest. */
export const MAX_LISTED_UNRECORDED = 1_000

/** Operations of a batch, and keys that one call creates. */
export const MAX_BATCH_OPERATIONS = 1_000
/** Plaintext in server mode, in bytes after decoding. */
export const MAX_SERVER_MODE_BYTES = 65_536
/** The body of a call, in bytes. */
export const MAX_BODY_BYTES = 1_048_576
/** The body of a batch, in bytes. */
export const MAX_BATCH_BODY_BYTES = 8 * MAX_BODY_BYTES

/** The Content-Type that a request's body must have: JSON, and UTF-8 where it names a charset. */
export const JSON_MEDIA_TYPE = /^application\/json\s*(?:;\s*charset\s*=\s*"?utf-8"?\s*)?$/i
