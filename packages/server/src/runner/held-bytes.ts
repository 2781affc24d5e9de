/**
 * Bounds the memory that calls hold in this process: their bodies from the first byte on, and their long
 * answers until they are read. One tenant gets a quarter at most, so that it cannot take the room of the
 * others, and one API key three quarters of that, so that a stolen one leaves room for the rest of its tenant.
 */
import { Refusal } from './refusal.js'

/** What all calls may hold: room for 16 of the largest batches, in a container of 512 MB too. */
const PROCESS_BYTES = 134_217_728
const TENANT_BYTES = PROCESS_BYTES / 4
const API_KEY_BYTES = (TENANT_BYTES * 3) / 4

/** What one call holds. */
export interface Holding {
  /** Holds more. @throws Refusal E_UNAVAILABLE if there is no room for it */
  take(bytes: number): void
  /** Holds more, whether or not there is room: for the answer of a call that is carried out already. */
  add(bytes: number): void
  /** Releases all of it, and holds nothing more; to be called when the answer is sent, or can no longer be sent. */
  end(): void
}

/** Starts the holding of one call of a tenant's API key. */
export type HeldBytes = (tenant_id: string, api_key_id: string) => Holding

/** Creates the bound; one per process. */
export function createHeldBytes({
  ofProcess = PROCESS_BYTES,
  ofTenant = TENANT_BYTES,
  ofApiKey = API_KEY_BYTES,
} = {}): HeldBytes {
  const all = createBound(ofProcess)
  const tenants = createBound(ofTenant)
  const apiKeys = createBound(ofApiKey)

  return (tenant_id, api_key_id) => {
    let own = 0
    let isOver = false
    const add = (bytes: number) => {
      if (isOver) return
      own += bytes
      all.add('', bytes)
      tenants.add(tenant_id, bytes)
      apiKeys.add(api_key_id, bytes)
    }
    return {
      take(bytes) {
        const hasRoom =
          all.hasRoom('', bytes) && tenants.hasRoom(tenant_id, bytes) && apiKeys.hasRoom(api_key_id, bytes)
        if (!hasRoom) throw noRoom()
        add(bytes)
      },
      add,
      end() {
        add(-own)
        isOver = true
      },
    }
  }
}

function createBound(most: number) {
  /** only those that hold something */
  const held = new Map<string, number>()
  const of = (id: string) => held.get(id) ?? 0
  return {
    hasRoom: (id: string, bytes: number) => of(id) + bytes <= most,
    add(id: string, bytes: number) {
      const left = of(id) + bytes
      if (left > 0) held.set(id, left)
      else held.delete(id)
    },
  }
}

function noRoom(): Refusal {
  return new Refusal(
    'E_UNAVAILABLE',
    'bodies and answers under way hold all the memory that there is for them; try again later',
  )
}
