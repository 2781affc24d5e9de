/** The schemas of a call by its `operationId`. */
import type { ZodMiniType } from 'zod/mini'
import type { OperationId } from '../routes.js'
import { ANSWERS } from './answers.js'
import { QUERIES } from './queries.js'
import { BODIES } from './requests.js'

type Table = Partial<Record<OperationId, ZodMiniType>>
const TABLES: { bodies: Table; queries: Table; answers: Table } = { bodies: BODIES, queries: QUERIES, answers: ANSWERS }

/** The schemas of a call: of its body, its query and its answer, as far as it has them. */
export function getSchemas(id: OperationId): { body?: ZodMiniType; query?: ZodMiniType; answer?: ZodMiniType } {
  const [body, query, answer] = [TABLES.bodies[id], TABLES.queries[id], TABLES.answers[id]]
  return { ...(body && { body }), ...(query && { query }), ...(answer && { answer }) }
}
