/** Code that only some programs need, in one file. Bundlers make more files of code that two share, which costs pages more. */
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

/** Reads any call's answer with its schema and zod. Pages that only seal and open make no such call. */
export const readAnyAnswer: Read = (id, json) => {
  const schema = SCHEMAS[id]
  return schema && { value: readAnswer(schema, json) }
}
