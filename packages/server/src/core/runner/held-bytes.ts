/**
 * Bounds the memory that calls hold in this process: their bodies from the first byte on, and their long
 * answers until they are read. One tenant gets a quarter at most, so that it cannot take the room of the
 * others, and one API key three quarters of that, so that a stolen one leaves room for the rest of its tenant.
 */
import { createHeldBytes, type Holding } from '@eaas/protocol'
import { Refusal } from './refusal.js'

/** What all calls may hold: room for 16 of the largest batches, in a container of 512 MB too. */
const PROCESS_BYTES = 134_217_728
const TENANT_BYTES = PROCESS_BYTES / 4
const API_KEY_BYTES = (TENANT_BYTES * 3) / 4

/** Starts the holding of one call of a tenant's API key, which refuses with E_UNAVAILABLE. */
export type HeldBytes = (tenant_id: string, api_key_id: string) => Holding

/** Creates the bound; one per process. */
export function createCallHoldings(): HeldBytes {
  return createHeldBytes<[tenant_id: string, api_key_id: string]>(
    [PROCESS_BYTES, TENANT_BYTES, API_KEY_BYTES],
    () =>
      new Refusal(
        'E_UNAVAILABLE',
        'bodies and answers under way hold all the memory that there is for them; try again later',
      ),
  )
}
