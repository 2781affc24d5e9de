/**
 * Carries out rotations that are due by a key's policy or by its wraps, and destructions whose waiting period is over.
 * Every process tries; the policy version ensures that one of them does it, once.
 */
import { destroyKeyIfDue } from '../api/key-destruction.js'
import { rotateKeyAfterWraps, rotateKeyIfDue } from '../api/key-rotation.js'
import { nameVersion } from '../runner/load-key.js'
import type { Services } from '../runner/operation.js'
import { performAsSystem } from '../runner/perform.js'
import { type DueKey, listDueKeys } from '../store/keys.js'
import { listWrappingKeys, type WrappingKey } from '../store/version-uses.js'

/** Keys listed at a time. */
const PAGE_KEYS = 500
const DAY_MS = 86_400_000

/** NIST SP 800-38D, 8.3: how often one key may seal with random ivs; the ivs of wraps are as good as these. */
const MOST_WRAPS = 2 ** 32
/** More than a key wraps between two runs. Once this few wraps remain before the bound, the key wraps nothing. */
const MARGIN = 2 ** 28

interface DueWorkOptions {
  /**
   * called for a key that failed, which is tried again next time; the others continue. Without it, the error is thrown
   */
  onError?: (error: unknown, key_id: string) => void
  /** ends the work after the current key */
  signal?: AbortSignal
}

/** Changes every key that is due by this clock and by the database's, once; returns how many it changed. */
export async function doDueWork(services: Services, { onError, signal }: DueWorkOptions = {}): Promise<number> {
  const now = new Date(Math.min(services.now(), await services.databaseNow())).toISOString()
  let changed = 0
  for await (const { tenant_id, key_id, status } of dueKeys(services, now)) {
    if (signal?.aborted) break
    const operation = status === 'active' ? rotateKeyIfDue({ key_id }) : destroyKeyIfDue({ key_id })
    try {
      if (await performAsSystem(services, tenant_id, operation)) changed += 1
    } catch (error) {
      if (!onError) throw error
      onError(error, key_id)
    }
  }
  return changed
}

// Keyset pagination: processed keys drop out and failed ones remain, so an offset would skip keys.
async function* dueKeys({ sql }: Services, now: string): AsyncGenerator<DueKey> {
  for (let after: DueKey | undefined; ; ) {
    const page = await listDueKeys(sql, now, { after, limit: PAGE_KEYS })
    yield* page
    after = page.at(-1)
    if (!after || page.length < PAGE_KEYS) return
  }
}

/**
 * Rotates each key whose current version wrapped as many DEKs as `EAAS_ROTATE_AFTER_WRAPS` says, once; returns how many
 * it rotated. If a rotation fails until the KEK is nearly spent, the key wraps nothing more.
 */
export async function rotateAfterWraps(services: Services, { onError, signal }: DueWorkOptions = {}): Promise<number> {
  const spent = new Set<string>()
  let rotated = 0
  for await (const { tenant_id, key_id, current_version, wraps } of wrappingKeys(services)) {
    if (signal?.aborted) break
    if (wraps < services.rotateAfterWraps) continue
    if (wraps >= MOST_WRAPS - MARGIN) spent.add(nameVersion({ key_id, current_version }))
    try {
      if (await performAsSystem(services, tenant_id, rotateKeyAfterWraps({ key_id }))) rotated += 1
    } catch (error) {
      if (!onError) throw error
      onError(error, key_id)
    }
  }
  if (!signal?.aborted) services.spentVersions = spent
  return rotated
}

async function* wrappingKeys({ sql, now }: Services): AsyncGenerator<WrappingKey> {
  const since = new Date(now() - DAY_MS).toISOString().slice(0, 10)
  for (let after: WrappingKey | undefined; ; ) {
    const page = await listWrappingKeys(sql, since, { after, limit: PAGE_KEYS })
    yield* page
    after = page.at(-1)
    if (!after || page.length < PAGE_KEYS) return
  }
}
