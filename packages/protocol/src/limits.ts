/** The limits of the API. Without schemas, so that the SDK can use a limit without loading one. */
export const MAX_NAME_CHARACTERS = 255

/** Keys of a tenant, whatever their status. */
export const MAX_KEYS = 10_000
/** Versions of a key: one a day for ten years. */
export const MAX_KEY_VERSIONS = 4_000
/** Versions that callers may make of a key as fast as they like ... */
export const FREE_KEY_VERSIONS = 100
/** ... and beyond them in an hour, so that a stolen API key needs days, not seconds, to use up a key's versions. */
export const MAX_KEY_VERSIONS_PER_HOUR = 60
/** The longest interval between two rotations by policy, in days. */
export const MAX_ROTATION_DAYS = 3_650

/** API keys of a tenant that are neither revoked nor expired. */
export const MAX_API_KEYS = 1_000
export const MAX_LISTED_API_KEYS = 10_000
/** Permissions in one body: more than exist, so that a list with repetitions is valid. */
export const MAX_LISTED_PERMISSIONS = 100
export const MAX_ALLOWED_IPS = 256
/** Keys and folders on an API key's list; for more keys, use a folder. */
export const MAX_LISTED_KEYS = 64
/** Bytes of that list as a text in the JSON of the log's entries, each of which may have it twice. */
export const MAX_LISTED_KEYS_BYTES = 4_096

export const MAX_BUDGET = 1_000_000_000

export const MAX_USE_PAIRS = 8
export const MAX_USE_VALUE_CHARACTERS = 128
/** Entries that a filter by actor, end user, purpose or context reads, since no index finds them. */
export const MAX_SCANNED_ENTRIES = 500_000

/** Audit entries in one answer; a larger `limit` is read as this one. */
export const MAX_LISTED_ENTRIES = 100

/** Counts of each kind in one answer about usage; the largest ones are listed. */
export const MAX_LISTED_COUNTS = 1_000

/** The days before today whose counts are the usual ones of an API key. */
export const USUAL_DAYS = 30

/** Operations of a batch, and keys that one call creates. */
export const MAX_BATCH_OPERATIONS = 1_000
/** Elements of a blind hash ... */
export const MAX_BLINDED_ELEMENTS = 256
/** ... and of all blind hashes in a batch: each element costs the server more than a millisecond. */
export const MAX_BATCH_ELEMENTS = 4 * MAX_BLINDED_ELEMENTS
/** Plaintext in server mode, in bytes after decoding. */
export const MAX_SERVER_MODE_BYTES = 65_536
export const MAX_BODY_BYTES = 1_048_576
export const MAX_BATCH_BODY_BYTES = 8 * MAX_BODY_BYTES

/** The Content-Type that a request's body must have: JSON, and UTF-8 where it names a charset. */
export const JSON_MEDIA_TYPE = /^application\/json\s*(?:;\s*charset\s*=\s*"?utf-8"?\s*)?$/i
