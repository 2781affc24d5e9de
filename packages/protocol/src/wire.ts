/**
 * The JSON of the /v1 API: one schema for each request body, query and answer. The server parses requests with them, the
 * SDK answers; unknown fields are ignored. Nothing is coerced.
 */
export * from './wire/answers.js'
export * from './wire/requests.js'
export { ALGORITHM, API_KEY_STATUSES, KEY_STATUSES, VERSION_STATUSES } from './wire/values.js'
