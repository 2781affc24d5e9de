/**
 * Bounds the memory that calls hold in this process: their bodies from the first byte on, and their long
 * answers until they are read. One tenant gets a quarter at most, so that it cannot take the room of the
 * others.
 */
import { Refusal } from './refusal.js'

/** What all calls may hold: room for 16 of the largest batches, in a container of 512 MB too. */
const PROCESS_BYTES = 134_217_728
const TENANT_BYTES = PROCESS_BYTES / 4

/** What one call holds. */
export interface Holding {
  /** Holds more. @throws Refusal E_UNAVAILABLE if there is no room for it */
  take(bytes: number): void
  /** Holds more, whether or not there is room: for the answer of a call that is carried out already. */
  add(bytes: number): void
  /**
   * Gives back all of it; to be called when the answer is sent, or cannot be sent any more. More is not held
   * then.
   */
  end(): void
}

/** Begins what one call of a tenant holds. */
export type HeldBytes = (tenant_id: string) => Holding

/** Creates the bound; one per process. */
export function createHeldBytes({ ofProcess = PROCESS_BYTES, ofTenant = TENANT_BYTES } = {}): HeldBytes {
  /** by tenant; none that hold nothing */
  const held = new Map<string, number>()
  let all = 0

  return (tenant_id) => {
    let own = 0
    let isOver = false
    const add = (bytes: number) => {
      if (isOver) return
      own += bytes
      all += bytes
      const left = (held.get(tenant_id) ?? 0) + bytes
      if (left > 0) held.set(tenant_id, left)
      else held.delete(tenant_id)
    }
    return {
      take(bytes) {
        if ((held.get(tenant_id) ?? 0) + bytes > ofTenant || all + bytes > ofProcess) throw noRoom()
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

function noRoom(): Refusal {
  return new Refusal(
    'E_UNAVAILABLE',
    'bodies and answers under way hold all the memory that there is for them; try again later',
  )
}
