/** Seals rows of which each may fail by itself, for `reseal` and the maintenance. */
import { type EaasError, isEaasError } from '../errors.js'
import type { Row } from '../input.js'
import { attempt, failureOf } from '../records/blocks.js'
import { createPace } from '../waiting.js'
import { naming } from './bindings.js'
import type { Definition } from './definition.js'
import type { RowRead, readRow, SealDeps, SealOptions, sealRead } from './seal-rows.js'

interface Sealing {
  readRow: typeof readRow
  sealRead: typeof sealRead
}

/** An error in place of each row that cannot be sealed; `indexes` are the record numbers in errors. */
export async function sealEach(
  sealing: Sealing,
  deps: SealDeps,
  { definition, rows }: { definition: Definition; rows: readonly Row[] },
  { indexes, ...options }: SealOptions & { indexes: readonly number[] },
): Promise<(Row | EaasError)[]> {
  const failure = await definition.named?.find(deps.ensureKey, options.signal).catch(failureOf)
  definition.late.rare ??= await deps.loadRare()
  const read = failure ? rows.map(() => failure) : readEach(sealing, definition, rows, indexes)
  const byKey: Record<string, RowRead[]> = {}
  for (const one of read) {
    if (isEaasError(one)) continue
    const { keyId = '' } = one
    byKey[keyId] ??= []
    byKey[keyId].push(one)
  }
  const sealed = new Map<unknown, Row | EaasError>()
  const pace = createPace()
  // A key that cannot be used fails its own rows alone. The wraps of all still go out together.
  const sealingEach = Object.values(byKey).map(async (own) => {
    const made = await sealing
      .sealRead(deps, definition, own, { ...options, pace })
      .catch((error) => own.map(() => failureOf(error)))
    for (const [at, one] of own.entries()) sealed.set(one, made[at] ?? {})
  })
  await Promise.all(sealingEach)
  return read.map((one) => (isEaasError(one) ? one : (sealed.get(one) ?? {})))
}

/** Reads each row as `readRow` does, and returns an error in place of each that it refuses. */
export function readEach(
  { readRow }: Pick<Sealing, 'readRow'>,
  definition: Definition,
  rows: readonly Row[],
  indexes: readonly number[],
): (RowRead | EaasError)[] {
  return rows.map((row, at) =>
    attempt(() => naming(definition, undefined, () => readRow(definition, row, indexes[at] ?? at))),
  )
}
