/** Gathers the metrics of all workers in the primary process, which outlives each of them. */
import { addCounts, countsOf, type GatheredMetrics, type ProcessMetrics } from '../http/summed-metrics.js'
import type { Member } from './member.js'

/** How long a worker may take: /health, which its metrics include, takes up to a second. In milliseconds. */
const COLLECT_MS = 2_000

export interface Gatherer {
  /** Gathers what the worker that asks has sent and what the others answer. */
  gather(asking: Member, own: ProcessMetrics): Promise<GatheredMetrics>
  /** to be called with what a worker answers */
  onOwn(member: Member, id: number, metrics: ProcessMetrics): void
  /** to be called when a worker has ended */
  onEnd(member: Member, isUnexpected: boolean): void
}

/** Creates the gatherer over the workers that `members` returns, of which there should be `workers`. */
export function createGatherer({ workers, members }: { workers: number; members: () => readonly Member[] }): Gatherer {
  /** what each worker was last known to have counted */
  const known = new Map<Member, ProcessMetrics>()
  const waiting = new Map<number, { member: Member; done: (metrics: ProcessMetrics | undefined) => void }>()
  let counted: Promise<ProcessMetrics> = Promise.resolve([])
  let ended = 0
  let lastId = 0

  function collect(member: Member): Promise<ProcessMetrics | undefined> {
    const id = ++lastId
    return new Promise((resolve) => {
      const done = (metrics: ProcessMetrics | undefined) => {
        clearTimeout(timer)
        waiting.delete(id)
        resolve(metrics)
      }
      const timer = setTimeout(done, COLLECT_MS, undefined)
      waiting.set(id, { member, done })
      member.send({ kind: 'collect', id })
    })
  }

  return {
    async gather(asking, own) {
      known.set(asking, countsOf(own))
      const others = members().filter((member) => member !== asking && member.isReady())
      const answers = await Promise.all(others.map(async (member) => ({ member, metrics: await collect(member) })))
      const here = new Set(members())
      // Of a worker that ended meanwhile, `counted` has the counts.
      const shown = answers.flatMap(({ member, metrics }) =>
        here.has(member) ? [metrics ?? known.get(member) ?? []] : [],
      )
      const answered = answers.filter(({ member, metrics }) => metrics && here.has(member)).length + 1
      return { metrics: [own, ...shown, await counted], workers, missing: Math.max(0, workers - answered), ended }
    },
    onOwn(member, id, metrics) {
      if (!members().includes(member)) return // its last words may arrive after its end
      known.set(member, countsOf(metrics))
      waiting.get(id)?.done(metrics)
    },
    onEnd(member, isUnexpected) {
      if (isUnexpected) ended += 1
      for (const { member: other, done } of waiting.values()) if (other === member) done(undefined)
      const last = known.get(member)
      known.delete(member)
      if (last) counted = counted.then((counts) => addCounts(counts, last))
    },
  }
}
