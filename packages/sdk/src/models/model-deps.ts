/** What the work on the rows of a model needs of its client, and takes from its caller. */
import type { Progress, RecordsDeps } from '../records/blocks.js'
import type { CallOptions } from '../resources/keys.js'

/** What a model needs of its client. */
export interface ModelDeps extends RecordsDeps {
  /** How many messages a DEK may seal. */
  maxMessages: number
  /** The current version of a key. */
  currentVersion(keyId: string, signal: AbortSignal | undefined): Promise<number>
}

export interface RowsOptions extends CallOptions {
  /** Called now and then, and at the end. */
  onProgress?: ((progress: Progress) => void) | undefined
}
