/** The watches over all tenants' heads; one set a process. */
import { Comparisons } from './comparisons.js'
import { HeadWatch } from './head-watch.js'

export interface HeadWatches {
  /** The watch over a tenant's head, created at first use. */
  get(tenant_id: string): HeadWatch
  all(): Iterable<HeadWatch>
  /** The watches of tenants that are not served. */
  alarmed(): HeadWatch[]
  /** how the comparisons of the chains with these watches went */
  readonly comparisons: Comparisons
}

/** Creates the watches; `onAlarm` is called once for each alarm. */
export function createHeadWatches(
  onAlarm: (tenant_id: string, reason: string) => void,
  comparisons = new Comparisons(),
): HeadWatches {
  const watches = new Map<string, HeadWatch>()
  return {
    get(tenant_id) {
      let watch = watches.get(tenant_id)
      if (!watch) {
        watch = new HeadWatch(tenant_id, onAlarm)
        watches.set(tenant_id, watch)
      }
      return watch
    },
    all: () => watches.values(),
    alarmed: () => [...watches.values()].filter(({ alarm }) => alarm !== undefined),
    comparisons,
  }
}
