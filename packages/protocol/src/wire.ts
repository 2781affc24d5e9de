/**
 * The schemas of the /v1 API, by `operationId`: of each request body and query, with which the server parses,
 * and of each answer, by which the SDK reads. They coerce nothing; bodies and answers ignore unknown fields.
 */
export * from './wire/answers.js'
export * from './wire/issues.js'
export * from './wire/queries.js'
export * from './wire/requests.js'
export * from './wire/schemas.js'
export {
  ALGORITHM,
  API_KEY_STATUSES,
  base64,
  dek,
  KEY_STATUSES,
  VERSION_STATUSES,
  WRAPPED_KEY_CHARACTERS,
  wrappedKey,
} from './wire/values.js'
