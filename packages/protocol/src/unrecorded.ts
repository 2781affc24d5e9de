/** The calls that write no audit entry although they tell something: they are counted instead. */
import type { ProblemCode } from './problem.js'

/** What is counted: hashes, and wrapped keys and ciphertexts that were refused because they are not authentic. */
export const UNRECORDED_KINDS = ['hash', 'wrapped_key_refused', 'decryption_refused'] as const

export type UnrecordedKind = (typeof UNRECORDED_KINDS)[number]

const REFUSED: Partial<Record<ProblemCode, UnrecordedKind>> = {
  E_WRAPPED_KEY: 'wrapped_key_refused',
  E_DECRYPTION_FAILED: 'decryption_refused',
}

/** Finds the kind that a refusal counts as; undefined for refusals that are not counted. */
export function findRefusedKind(code: ProblemCode): UnrecordedKind | undefined {
  return REFUSED[code]
}
