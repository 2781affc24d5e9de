/** What a caller learns of input that a schema refused. */
import type * as z from 'zod/mini'

/**
 * Describes the first fault, with the name of its field. `otherwise` says what is wrong if no field can be
 * named.
 */
export function describeIssue({ issues: [issue] }: z.core.$ZodError, otherwise: string): string {
  if (issue?.code === 'unrecognized_keys') return issue.message // which names the parameter
  const field = issue?.path.join('.')
  return issue && field ? `${field}: ${issue.message}` : otherwise
}
