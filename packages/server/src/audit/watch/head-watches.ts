/** The watches over all tenants' heads; one set a process. */

import type { KeptHead } from '../formats/chain.js'
import { isPast } from './compare-heads.js'
import { Comparisons } from './comparisons.js'
import { HeadWatch } from './head-watch.js'

/** A head that a process witnessed, for another one. */
export type WitnessedHead = KeptHead & { tenant_id: string }

export interface HeadWatches {
  /** The watch over a tenant's head, created at first use. */
  get(tenant_id: string): HeadWatch
  all(): Iterable<HeadWatch>
  /** The watches of tenants that are not served. */
  alarmed(): HeadWatch[]
  /** What this process witnessed of each log. */
  witnessed(): WitnessedHead[]
  /** Records what another process witnessed, where this one knows nothing later. */
  rememberAll(heads: Iterable<WitnessedHead>): void
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
    witnessed: () =>
      [...watches.values()].flatMap(({ tenant_id, witnessed }) => (witnessed ? [{ tenant_id, ...witnessed }] : [])),
    rememberAll(heads) {
      for (const { tenant_id, ...head } of heads) {
        const { held } = get(tenant_id)
        if (!held.witnessed || !isPast(held.witnessed, head)) held.remember(head)
      }
    },
    comparisons,
  }
}
