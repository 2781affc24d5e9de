/**
 * What the client loads at the first call: what seals and opens, HTTP and the checks of its answers, the API's resources, and the
 * code for many records. One file, since a program that needs one of them soon needs the others.
 */

// biome-ignore-all assist/source/organizeImports: in this order, code that is alike stands within the 32 KB that gzip looks back, which saves 170 bytes
export { createAudit } from './resources/audit.js'
export { createKeys } from './resources/keys.js'
export { createSealing } from './records/sealing.js'
export { zeroDek } from './deks/bound-keys.js'
export { createServerMode } from './resources/server-mode.js'
export { createIndexKey, rewrapIndexKey } from './models/local-index.js'
export { envelopeObject, likeForm, readEnvelope } from './records/read-envelope.js'
export { readJson } from './json.js'
export { send } from './http/send.js'
export { createOwnDek } from './deks/own-dek.js'
export { createApiKeys } from './resources/api-keys.js'
export { createService } from './resources/service.js'
export { resealRows, rewrapRows } from './models/rotation.js'
export { createQueue } from './http/queue.js'
export { demandContext, readContext } from './records/bound-envelopes.js'
export { createModelRows } from './models/model-rows.js'
export { decryptRecords } from './records/decrypt-many.js'
export { encryptRecords } from './records/encrypt-many.js'
export { observe } from './http/observe.js'
