/** What the entry for synchronous calls needs of a client beyond its interface. */
import type { Soon } from '../async/is-promise.js'
import { InvalidInputError } from '../errors.js'
import type { Sealing } from './sealing.js'

/** Loads what seals and opens for a client; no promise once it is there. */
type Load = () => Soon<{ records: Sealing }>

const known = new WeakMap<object, Load>()

export function keepSealing(client: object, load: Load): void {
  known.set(client, load)
}

/** @throws InvalidInputError when it is not a client of this copy of the SDK */
export function getSealing(client: object): Load {
  const load = known.get(client)
  if (load) return load
  throw new InvalidInputError(
    'expected a client, made by createClient()',
    'The program may hold two copies of @eaas/sdk: load all of its entries either by import or by require.',
  )
}
