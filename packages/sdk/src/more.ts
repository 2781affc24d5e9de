/** What only some programs need, in one file: bundlers make further files of what two share, which cost pages more. */
import type { OperationId } from '@eaas/protocol'
import { ANSWERS, type Answer, BASE64_ANSWERS, readAnswer } from '@eaas/protocol/answers'
import type { Read } from './http/send.js'

export { resealRows, rewrapRows, sealEach } from './models/rotation.js'
export { connect } from './parts.js'
export { readJson } from './rare.js'
export { decryptMany, encryptMany } from './records/many-records.js'
export { rewrap, rewrapEnvelope, unwrapsTo } from './records/rewrapping.js'
export { default as createApiKeys } from './resources/api-keys.js'
export { default as createAudit } from './resources/audit.js'
export { createKeyLookup, default as createKeys } from './resources/keys.js'
export { createServerMode, createService } from './resources/service.js'

const SCHEMAS: Partial<Record<OperationId, Answer>> = { ...ANSWERS, ...BASE64_ANSWERS }

/** Reads the answer of any call by its schema, with zod: pages that seal and open make no such call. */
export const readAnyAnswer: Read = (id, json) => {
  const schema = SCHEMAS[id]
  return schema && { value: readAnswer(schema, json) }
}
