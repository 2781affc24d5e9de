/**
 * Carries out rotations that are due by a key's policy or by its wraps, and destructions whose waiting period is over.
 * Every process tries; because of the policy version, only one succeeds, once.
 */
import { destroyKeyIfDue } from '../api/key-destruction.js'
import { rotateKeyAfterWraps, rotateKeyIfDue } from '../api/key-rotation.js'
import { nameVersion } from '../runner/load-key.js'
import type { Operation, Services } from '../runner/operation.js'
import { performAsSystem } from '../runner/perform.js'
import type { PageOf } from '../store/db.js'
import { type DueKey, listDueKeys } from '../store/keys.js'
import { listWrappingKeys, type WrappingKey } from '../store/version-uses.js'

const PAGE_KEYS = 500
const DAY_MS = 86_400_000

/** NIST SP 800-38D, 8.3: how often one key may seal with random ivs; those of wraps are as good as random. */
const MOST_WRAPS = 2 ** 32
/** More than a key wraps between two runs. Once only this many wraps remain, the key wraps nothing. */
const MARGIN = 2 ** 28

interface DueWorkOptions {
  /** called for a key that failed, which the next run tries again; by default the error is thrown */
  onError?: (error: unknown, key_id: string) => void
  /** ends the work after the current key */
  signal?: AbortSignal
}

/** Changes every key that is due by both this clock and the database's, once; returns how many it changed. */
export async function doDueWork(services: Services, options: DueWorkOptions = {}): Promise<number> {
  const now = new Date(Math.min(services.now(), await services.databaseNow())).toISOString()
  const listDue = (page: PageOf<DueKey>) => listDueKeys(services.sql, now, page)
  return changeKeys(services, options, listDue, ({ key_id, status }) =>
    status === 'active' ? rotateKeyIfDue({ key_id }) : destroyKeyIfDue({ key_id }),
  )
}

/**
 * Rotates each key whose current version has wrapped `EAAS_ROTATE_AFTER_WRAPS` DEKs, once; returns how many it rotated.
 * If rotations of a key fail until its KEK is nearly spent, the key wraps nothing more.
 */
export async function rotateAfterWraps(services: Services, options: DueWorkOptions = {}): Promise<number> {
  const since = new Date(services.now() - DAY_MS).toISOString().slice(0, 10)
  const listWrapping = (page: PageOf<WrappingKey>) => listWrappingKeys(services.sql, since, page)
  const spent = new Set<string>()
  const rotated = await changeKeys(services, options, listWrapping, ({ key_id, current_version, wraps }) => {
    if (wraps < services.rotateAfterWraps) return undefined
    if (wraps >= MOST_WRAPS - MARGIN) spent.add(nameVersion({ key_id, current_version }))
    return rotateKeyAfterWraps({ key_id })
  })
  if (!options.signal?.aborted) services.spentVersions = spent
  return rotated
}

// Keyset pagination: processed keys drop out and failed ones remain, so an offset would skip keys.
async function changeKeys<Key extends { tenant_id: string; key_id: string }>(
  services: Services,
  { onError, signal }: DueWorkOptions,
  list: (page: PageOf<Key>) => Promise<Key[]>,
  findChange: (key: Key) => Operation<unknown> | undefined,
): Promise<number> {
  let changed = 0
  for (let after: Key | undefined; ; ) {
    const keys = await list({ after, limit: PAGE_KEYS })
    for (const key of keys) {
      if (signal?.aborted) return changed
      const change = findChange(key)
      try {
        if (change && (await performAsSystem(services, key.tenant_id, change))) changed += 1
      } catch (error) {
        if (!onError) throw error
        onError(error, key.key_id)
      }
    }
    after = keys.at(-1)
    if (!after || keys.length < PAGE_KEYS) return changed
  }
}
