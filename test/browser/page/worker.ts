// The same as the page, where there is no document.
import type { SealVector, WorkerOutcome } from './page.js'
import './page.js'

globalThis.addEventListener('message', ({ data }) => {
  run(data as { keyId: string; vectors: readonly SealVector[] }).then(
    (outcome) => globalThis.postMessage(outcome),
    (error: unknown) => globalThis.postMessage({ error: String(error) }),
  )
})

async function run({ keyId, vectors }: { keyId: string; vectors: readonly SealVector[] }): Promise<WorkerOutcome> {
  const { roundTrip, runVectors, violations } = globalThis.harness
  return { note: await roundTrip(keyId), vectors: await runVectors(vectors), violations }
}
