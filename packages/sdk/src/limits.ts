/**
 * What callers may pass at most, and the lengths that several folders share. The API's own limits are the
 * protocol's.
 */

/**
 * The longest plaintext of one envelope: the base64 of a longer one would not fit the strings of every
 * platform.
 */
export const MAX_PLAINTEXT_BYTES = 256 * 1024 * 1024
/**
 * The longest text for a blind index, in bytes of JSON: with what is sent along it fits into the 1 MiB of a
 * call.
 */
export const MAX_HASHED_JSON_BYTES = 1_000_000
/** The length of a blind index. */
export const HASH_BITS = 256

/** The longest delay that timers take. */
export const MAX_TIMEOUT_MS = 2 ** 31 - 1
export const MAX_RETRIES = 10

/** Rows in one batch of `rewrap` and `reseal`. */
export const MAX_BATCH_ROWS = 10_000
