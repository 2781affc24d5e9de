// Makes vitest compare byte arrays as a whole: by default it compares byte by byte, and a mebibyte takes 1.5 s of CPU
// time.
import { expect } from 'vitest'

const shared = globalThis as { eaasComparesBytes?: true }

// Reports only equality. If values or their classes differ, vitest compares them itself, and says where.
function areEqualBytes(one: unknown, other: unknown): true | undefined {
  if (!(one instanceof Uint8Array && other instanceof Uint8Array)) return undefined
  return one.constructor === other.constructor && Buffer.compare(one, other) === 0 ? true : undefined
}

// A worker loads this for each of its files.
if (!shared.eaasComparesBytes) expect.addEqualityTesters([areEqualBytes])
shared.eaasComparesBytes = true
