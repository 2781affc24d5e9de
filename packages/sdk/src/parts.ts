/**
 * What the client loads at the first call: what seals and opens, HTTP and the checks of its answers, the
 * API's resources, and the code for many records. One file, since a program that needs one of them soon needs
 * the others.
 */

// The API's resources.

export { createApiKeys } from './resources/api-keys.js'
export { createAudit } from './resources/audit.js'
export { createKeys } from './resources/keys.js'
export { createServerMode } from './resources/server-mode.js'
export { createService } from './resources/service.js'

// Their calls.

export { observe } from './http/observe.js'
export { createQueue } from './http/queue.js'
export { send } from './http/send.js'

// Values.

export { readJson } from './json.js'
export { openOne, sealOne } from './records/one-value.js'
export { createSealing } from './records/sealing.js'

// Models.

export { createIndexKey, rewrapIndexKey } from './models/local-index.js'
export { createModelRows } from './models/model-rows.js'

// Many records.

export { decryptMany } from './records/decrypt-many.js'
export { encryptMany } from './records/encrypt-many.js'
