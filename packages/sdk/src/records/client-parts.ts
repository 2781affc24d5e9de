/** What streams and synchronous calls use of a client: its engine and DEKs. Not public, and may change any time. */
import { InvalidInputError } from '../errors.js'
import type { Soon } from '../waiting.js'
import type { OpenDeps, RecordsDeps } from './blocks.js'

export interface LoadParts {
  (toSeal?: true): Soon<{ records: RecordsDeps }>
  (toSeal: false): Soon<{ records: OpenDeps }>
}

export interface PartsOwner {
  /** Loads the parts and the engine. Returns no promise once they are loaded. */
  readonly [CLIENT_PARTS]: LoadParts
}

/** A symbol from the registry, since the client may come from another copy. Its number changes with what it returns. */
export const CLIENT_PARTS: unique symbol = Symbol.for('eaas.client.parts/1')

/** Returns the function that loads a client's parts. @throws InvalidInputError when it is not a client */
export function clientParts(eaas: unknown): LoadParts {
  const load = (eaas as Partial<PartsOwner> | null | undefined)?.[CLIENT_PARTS]
  if (typeof load === 'function') return load
  const hint = 'Pass the client itself. If it is one, @eaas/sdk is installed in two versions.'
  throw new InvalidInputError('the first argument must be a client of createClient()', hint)
}
