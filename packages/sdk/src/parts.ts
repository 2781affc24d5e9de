/**
 * What the client loads at the first call: what seals and opens, HTTP and the checks of its answers, the API's resources, and the
 * code for many records. One file, since a program that needs one of them soon needs the others.
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

// DEKs.

export { zeroDek } from './deks/bound-keys.js'
export { createOwnDek } from './deks/own-dek.js'

// Values.

export { readJson } from './json.js'
export { demandContext, readContext } from './records/bound-envelopes.js'
export { envelopeObject, likeForm, readEnvelope } from './records/read-envelope.js'
export { createSealing } from './records/sealing.js'

// Models.

export { createIndexKey, rewrapIndexKey } from './models/local-index.js'
export { createModelRows } from './models/model-rows.js'
export { resealRows, rewrapRows } from './models/rotation.js'

// Many records.

export { decryptRecords } from './records/decrypt-many.js'
export { encryptRecords } from './records/encrypt-many.js'
