/**
 * Anchors the logs, and keeps their ends in the checkpoint file, once they grew far since that was last done. The
 * next start follows each log from there and refuses the tenant's calls until it has, so a server that is killed
 * must not leave too much.
 */

import type { Fail } from '../../core/jobs/periodic.js'
import type { Services } from '../../core/runner/operation.js'
import type { HeadWatch } from '../watch/head-watch.js'
import type { WrittenHeads } from './emit-checkpoints.js'

/** How many entries a start may have to follow, apart from those of some seconds: a slow machine follows 40,000 a second. */
const MOST_UNCOVERED = 50_000
/** At least so many for each tenant: an anchor covers all tenants, and takes a tenth of a millisecond of CPU time for each. */
const LEAST_PER_TENANT = 100

interface GrowthCover {
  /** returns whether the logs are covered now */
  anchor: (fail: Fail) => Promise<boolean>
  keep: (grown: readonly HeadWatch[], fail: Fail) => Promise<void>
  written: WrittenHeads
}

/** Creates the job's work. */
export function createGrowthCover(
  { committer: { recent, watches } }: Pick<Services, 'committer'>,
  { anchor, keep, written }: GrowthCover,
): (fail: Fail) => Promise<void> {
  let anchoredAt = 0
  return async (fail) => {
    const { entries } = recent
    const all = [...watches.all()]
    if (entries - anchoredAt >= Math.max(MOST_UNCOVERED, LEAST_PER_TENANT * all.length)) {
      if (await anchor(fail)) anchoredAt = entries
    }
    const isGrown = ({ tenant_id, known }: HeadWatch) =>
      known !== undefined && known.last_id - (written.get(tenant_id)?.[0]?.last_id ?? 0) >= MOST_UNCOVERED
    const grown = all.filter(isGrown)
    if (grown.length > 0) await keep(grown, fail)
  }
}
