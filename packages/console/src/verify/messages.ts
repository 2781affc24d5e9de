/** The messages between the page and its worker. */

export interface Task {
  /** in the order of their entries */
  exports: readonly File[]
  /** files with checkpoints */
  kept: readonly File[]
  publicKey: string | undefined
  /** names of the tenant, of keys and of API keys, by their ids */
  names: Readonly<Record<string, string>>
  /** RFC 3339, UTC */
  from: string
  to: string
}

/** To prove entries of the exports. */
export interface ProofTask extends Pick<Task, 'exports' | 'publicKey'> {
  ids: readonly number[]
  /** the entry before the first one of each export */
  starts: readonly number[]
}

export type Message =
  | { entries: number; part: number }
  | { error: string }
  /** the report as a whole page of HTML */
  | { page: string }
  /** the file that proves entries */
  | { proof: string }
