/**
 * Rotates keys whose current version wrapped as many DEKs as `EAAS_ROTATE_AFTER_WRAPS` says. Every process checks; the
 * policy version ensures that one of them rotates, once. If a rotation fails until the KEK is nearly spent, the key
 * wraps nothing more.
 */
import { rotateKeyAfterWraps } from '../operations/rotate-key.js'
import { nameVersion } from '../runner/load-key.js'
import type { Services } from '../runner/operation.js'
import { performAsSystem } from '../runner/perform.js'
import { listWrappingKeys, type WrappingKey } from '../store/version-uses.js'
import type { DueWorkOptions } from './due-work.js'

const PAGE_KEYS = 500
const DAY_MS = 86_400_000

/** NIST SP 800-38D, 8.3: how often one key may seal with random ivs; the ivs of wraps are as good as these. */
const MOST_WRAPS = 2 ** 32
/** More than a key wraps between two runs. Once this few wraps remain before the bound, the key wraps nothing. */
const MARGIN = 2 ** 28

/** Rotates each key that wrapped as often as it may, once; returns how many it rotated. */
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
