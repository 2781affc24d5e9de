/** Refusals of the service in memory, with the same codes and messages as the real one. */
import { PROBLEMS, type ProblemCode, problemDocument, wire } from '@eaas/protocol'
import type { ZodMiniType } from 'zod/mini'
import en from 'zod/v4/locales/en.js'

/** Thrown by the functions that answer calls, and turned into a problem document. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly code: ProblemCode

  constructor(code: ProblemCode, detail: string) {
    super(detail)
    this.code = code
  }
}

/** A status and a body: of an answer, or of one part of a batch. */
export interface Result {
  status: number
  body: unknown
}

/** Returns the answer to a refused call. */
export function refused({ code, message }: Refusal): Result {
  return { status: PROBLEMS[code].status, body: problemDocument(code, message) }
}

// Passed with each parse instead of set by zod's `config`, which the application shares.
const MESSAGES = { error: en().localeError }

/** Parses by a schema. @throws Refusal E_VALIDATION, naming the field */
export function parse<Value>(schema: ZodMiniType<Value>, input: unknown, otherwise: string): Value {
  const overlong = wire.findOverlong(input)
  if (overlong) throw new Refusal('E_VALIDATION', overlong)
  const result = schema.safeParse(input, MESSAGES)
  if (result.success) return result.data
  throw new Refusal('E_VALIDATION', wire.describeIssue(result.error, otherwise))
}
