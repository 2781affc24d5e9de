/**
 * What is loaded at the first call: HTTP with the checks of its answers, the resources of the API, and the work on many
 * records. One file, since a program that needs the one soon needs the other.
 */
export { send } from './http/http.js'
export { createQueue } from './http/queue.js'
export { readJson } from './json.js'
export { createModelRows } from './models/model-rows.js'
export { resealRows, rewrapRows } from './models/rotation.js'
export { decryptRecords } from './records/decrypt-many.js'
export { encryptRecords } from './records/encrypt-many.js'
export { createApiKeys } from './resources/api-keys.js'
export { createAudit } from './resources/audit.js'
export { createKeys } from './resources/keys.js'
export { createServerMode } from './resources/server-mode.js'
