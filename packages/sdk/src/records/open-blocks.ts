/** Opens the values of many rows, block by block. */
import { dekName } from '../deks/decrypt-deks.js'
import type { Secret } from '../deks/secret.js'
import { type EaasError, isEaasError, placedAt, type RecordPlace } from '../errors.js'
import { createBacklog, isPromise, type Pace } from '../waiting.js'
import { BLOCK_RECORDS, failureOf, type OpenDeps, type Progress, type RowsOptions, restAndReport } from './blocks.js'
import { inEitherUse, type OpenableParts, openWith } from './open-envelopes.js'

export type OpenJob = { place: RecordPlace; parts: OpenableParts; dek?: string; plaintext?: Uint8Array }

export interface Opening<J extends OpenJob> extends RowsOptions {
  pace: Pace
  progressOf(job: J): Progress
  /** Gets a job's plaintext. If it throws an error of the SDK, `fail` gets that. */
  take(job: J, plaintext: Uint8Array): void
  /** Gets the error of a job that does not open. If it throws, that ends the block. */
  fail(job: J, error: EaasError): void
}

type Deks = Map<string, Secret>

/** Runs a task for each block of records. Releases the DEKs that were unwrapped. */
export async function eachBlock(count: number, task: (start: number, deks: Deks) => Promise<void>): Promise<void> {
  const deks: Deks = new Map()
  try {
    for (let start = 0; start < count; start += BLOCK_RECORDS) await task(start, deks)
  } finally {
    for (const dek of deks.values()) dek.release()
  }
}

/** Opens jobs in order, with one request for DEKs missing in `deks`. If one is refused, the jobs that need it fail. */
export async function openBlock<J extends OpenJob>(
  deps: OpenDeps,
  jobs: readonly J[],
  deks: Deks,
  opening: Opening<J>,
): Promise<void> {
  const { envelopes } = deps
  const { pace, signal } = opening
  const refused = await unwrapEach(deps, jobs, deks, signal)
  const backlog = createBacklog(envelopes.isSync())
  for (const job of jobs) {
    if (pace.due()) await restAndReport(deps, pace, opening, opening.progressOf(job))
    const { parts, place, dek: name = '' } = job
    const fail = (error: unknown) => {
      if (!isEaasError(error)) throw error
      opening.fail(job, placedAt(error, place))
    }
    const take = (plaintext: Uint8Array) => opening.take(job, plaintext)
    const dek = deks.get(name)
    if (!dek) {
      fail(refused.get(name))
      continue
    }
    try {
      const plaintext = job.plaintext ?? openWith(envelopes, dek, parts, place)
      if (isPromise(plaintext)) await backlog.add(plaintext.then(take).catch(fail))
      else take(plaintext)
    } catch (error) {
      fail(error)
    }
  }
  await backlog.flush()
}

/** Unwraps in one request; the first envelope proves each DEK. Once settled, adds none to `deks`, which the caller releases. */
async function unwrapEach(
  { decryptDeks, envelopes }: OpenDeps,
  jobs: readonly OpenJob[],
  deks: Deks,
  signal: AbortSignal | undefined,
): Promise<Map<string, EaasError>> {
  const firsts = new Map<string, OpenJob>()
  for (const job of jobs) {
    const name = dekName(job.parts)
    job.dek = name
    if (!deks.has(name) && !firsts.has(name)) firsts.set(name, job)
  }
  const refused = new Map<string, EaasError>()
  const unwrap = async ([name, job]: [string, OpenJob]) => {
    try {
      job.plaintext = await inEitherUse(job.parts, (parts) =>
        decryptDeks.use(parts, signal, (dek) => {
          deks.set(name, dek.share())
          return openWith(envelopes, dek, parts, job.place) // proves that it is the right DEK, which may be cached
        }),
      )
    } catch (error) {
      refused.set(name, failureOf(error))
    }
  }
  const outcomes = await Promise.allSettled([...firsts].map(unwrap))
  const failed = outcomes.find((outcome) => outcome.status === 'rejected')
  if (failed) throw failed.reason
  return refused
}
