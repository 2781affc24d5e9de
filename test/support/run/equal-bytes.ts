// Has vitest compare arrays of bytes as a whole: one by one, as it does otherwise, a mebibyte takes 1.5 s of CPU time.
import { expect } from 'vitest'

const shared = globalThis as { eaasComparesBytes?: true }

// Only equality is told. What differs, also in its class, vitest compares by itself, and says where.
function areEqualBytes(one: unknown, other: unknown): true | undefined {
  if (!(one instanceof Uint8Array && other instanceof Uint8Array)) return undefined
  return one.constructor === other.constructor && Buffer.compare(one, other) === 0 ? true : undefined
}

// A worker loads this for each of its files.
if (!shared.eaasComparesBytes) expect.addEqualityTesters([areEqualBytes])
shared.eaasComparesBytes = true
