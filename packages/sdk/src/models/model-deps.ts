/** What the code for a model's rows needs of the client, and the options that it takes from the caller. */
import type { Progress, RecordsDeps } from '../records/blocks.js'
import type { CallOptions } from '../resources/keys.js'

/**
 * How many values a model opened so far although they are less protected than it demands: see
 * `acceptPlaintext` and `acceptUnbound`.
 */
export interface Accepted {
  /** Values that were not sealed. */
  plaintext: number
  /** Values of format v1, bound to nothing. */
  unbound: number
}

/** What a model needs of its client. */
export interface ModelDeps extends RecordsDeps {
  /** Counts what it accepts. */
  accepted: Accepted
  /** How many messages a DEK may seal. */
  maxMessages: number
}

export interface RowsOptions extends CallOptions {
  /** Called regularly, and at the end. */
  onProgress?: ((progress: Progress) => void) | undefined
}
