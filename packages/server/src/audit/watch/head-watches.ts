/** The watches over all tenants' heads; one set a process. */

import { Comparisons } from './comparisons.js'
import { HeadWatch } from './head-watch.js'

export interface HeadWatches {
  /** The watch over a tenant's head, created at first use. */
  get(tenant_id: string): HeadWatch
  all(): Iterable<HeadWatch>
  /** The watches of tenants that are not served. */
  alarmed(): HeadWatch[]
  /** The logs whose last entry is ahead of this clock, the furthest first. */
  ahead(clock: { isAhead(last: { created_at: string }): boolean }): { tenant_id: string; created_at: string }[]
  /** how the comparisons of the chains with these watches went */
  readonly comparisons: Comparisons
}

/** Creates the watches; `onAlarm` is called once for each alarm. */
export function createHeadWatches(
  onAlarm: (tenant_id: string, reason: string) => void,
  comparisons = new Comparisons(),
): HeadWatches {
  const watches = new Map<string, HeadWatch>()
  function get(tenant_id: string): HeadWatch {
    let watch = watches.get(tenant_id)
    if (!watch) {
      watch = new HeadWatch(tenant_id, onAlarm)
      watches.set(tenant_id, watch)
    }
    return watch
  }
  return {
    get,
    all: () => watches.values(),
    alarmed: () => [...watches.values()].filter(({ alarm }) => alarm !== undefined),
    ahead: (clock) =>
      [...watches.values()]
        .flatMap(({ tenant_id, witnessed: { created_at } = {} }) =>
          created_at !== undefined && clock.isAhead({ created_at }) ? [{ tenant_id, created_at }] : [],
        )
        .sort((a, b) => (a.created_at < b.created_at ? 1 : -1)),
    comparisons,
  }
}
