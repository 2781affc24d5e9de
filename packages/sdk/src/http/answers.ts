/** Reads the answer of any call by its schema, with zod. Loaded for the calls that a page that seals and opens does not make. */
import type { OperationId } from '@eaas/protocol'
import { ANSWERS, type Answer, BASE64_ANSWERS, readAnswer } from '@eaas/protocol/answers'
import type { Read } from './send.js'

const SCHEMAS: Partial<Record<OperationId, Answer>> = { ...ANSWERS, ...BASE64_ANSWERS }

export const readAnyAnswer: Read = (id, json) => {
  const schema = SCHEMAS[id]
  return schema && { value: readAnswer(schema, json) }
}
