/**
 * The schemas of the /v1 API: one for each request body, query and answer, by `operationId`. The server parses requests with
 * them, the SDK parses answers; they ignore unknown fields and coerce nothing.
 */
export * from './wire/answers.js'
export * from './wire/queries.js'
export * from './wire/requests.js'
export * from './wire/schemas.js'
export { ALGORITHM, API_KEY_STATUSES, KEY_STATUSES, VERSION_STATUSES, WRAPPED_KEY_CHARACTERS } from './wire/values.js'
