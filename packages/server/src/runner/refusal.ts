/** A call that the server refuses, as a value of the domain: a problem code and a sentence for the caller. */
import { PROBLEMS, type ProblemCode } from '@eaas/protocol'

/** Thrown by operations; `http/errors` turns it into the problem document. `detail` holds nothing secret. */
export class Refusal extends Error {
  override readonly name: string = 'Refusal'
  readonly code: ProblemCode

  constructor(code: ProblemCode, detail: string) {
    super(detail)
    this.code = code
  }

  /** The HTTP status that goes with the code. */
  get status(): number {
    return PROBLEMS[this.code].status
  }
}
