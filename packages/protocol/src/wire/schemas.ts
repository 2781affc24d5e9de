/** Finds the schemas of a call by its `operationId`. */
import type { ZodMiniType } from 'zod/mini'
import type { OperationId } from '../routes.js'
import { ANSWERS, type Answer } from './answers.js'
import { QUERIES } from './queries.js'
import { BODIES } from './requests.js'

type Table = Partial<Record<OperationId, ZodMiniType>>
const TABLES: { bodies: Table; queries: Table; answers: Partial<Record<OperationId, Answer>> } = {
  bodies: BODIES,
  queries: QUERIES,
  answers: ANSWERS,
}

/** Gets the schemas of a call's body and query of its answer; each only if the call has one. */
export function getSchemas(id: OperationId): { body?: ZodMiniType; query?: ZodMiniType; answer?: Answer } {
  const [body, query, answer] = [TABLES.bodies[id], TABLES.queries[id], TABLES.answers[id]]
  return { ...(body && { body }), ...(query && { query }), ...(answer && { answer }) }
}
