/** The schemas of the /v1 API, by `operationId`, for requests and answers. They coerce nothing. */
import type * as z from 'zod/mini'
import type { OperationId } from './routes.js'
import { ANSWERS, type Answer } from './wire/answers.js'
import { QUERIES } from './wire/queries.js'
import { BODIES } from './wire/requests.js'

export * from './wire/answers.js'
export { AnswerError, WRAPPED_KEY_CHARACTERS } from './wire/page-answers.js'
export * from './wire/queries.js'
export * from './wire/requests.js'
export {
  ALGORITHM,
  BLIND_HASH_SUITE,
  base64,
  blindElement,
  blindProof,
  count,
  dek,
  KEY_STATUSES,
  time,
  uuid,
  wrappedKey,
} from './wire/values.js'

type Table = Partial<Record<OperationId, z.ZodMiniType>>
const TABLES: { bodies: Table; queries: Table; answers: Partial<Record<OperationId, Answer>> } = {
  bodies: BODIES,
  queries: QUERIES,
  answers: ANSWERS,
}

/** Gets the schemas of a call's body, query and answer, as far as the call has them. */
export function getSchemas(id: OperationId): { body?: z.ZodMiniType; query?: z.ZodMiniType; answer?: Answer } {
  const [body, query, answer] = [TABLES.bodies[id], TABLES.queries[id], TABLES.answers[id]]
  return { ...(body && { body }), ...(query && { query }), ...(answer && { answer }) }
}

/** Describes the first fault, with the name of its field. `otherwise` is the text if no field can be named. */
export function describeIssue({ issues: [issue] }: z.core.$ZodError, otherwise: string): string {
  if (issue?.code === 'unrecognized_keys') return issue.message // it names the parameter
  const field = issue?.path.join('.')
  return issue && field ? `${field}: ${issue.message}` : otherwise
}
