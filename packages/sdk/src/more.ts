/**
 * What only some programs need besides `parts.ts`, in one file: bundlers make further files of what two share, so a
 * file for each would cost a page more.
 */
export { readAnyAnswer } from './http/answers.js'
export { resealRows, rewrapRows } from './models/rotation.js'
export { sealEach } from './models/seal-each.js'
export { connect } from './parts.js'
export { readJson } from './rare.js'
export { decryptMany, encryptMany } from './records/many-records.js'
export { rewrap, rewrapEnvelope, unwrapsTo } from './records/rewrapping.js'
export { default as createApiKeys } from './resources/api-keys.js'
export { default as createAudit } from './resources/audit.js'
export { createKeyLookup } from './resources/key-lookup.js'
export { default as createKeys } from './resources/keys.js'
export { default as createServerMode } from './resources/server-mode.js'
export { default as createService } from './resources/service.js'
