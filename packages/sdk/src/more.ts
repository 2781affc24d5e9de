/**
 * What only some programs need besides `parts.ts`, in one file: many records, rotation, the API's resources and zod, which
 * reads their answers. Bundlers make further files of what two files share, so a file for each of these would cost a
 * page more than it saves.
 */
export { ANSWERS, BASE64_ANSWERS, readAnswer } from '@eaas/protocol/answers'
export { resealRows, rewrapRows } from './models/rotation.js'
export { connect, openOne } from './parts.js'
export { readJson } from './rare.js'
export { decryptMany, encryptMany } from './records/many-records.js'
export { rewrap, rewrapEnvelope } from './records/rewrapping.js'
export { default as createApiKeys } from './resources/api-keys.js'
export { default as createAudit } from './resources/audit.js'
export { findKey } from './resources/ensure-key.js'
export { default as createKeys } from './resources/keys.js'
export { default as createServerMode } from './resources/server-mode.js'
export { default as createService } from './resources/service.js'
