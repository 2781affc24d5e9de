/** The metrics of several processes as one page. The `aggregator` of each metric says how its values become one; without one they are added. */
import { AggregatorRegistry, Counter, Gauge, type Registry } from 'prom-client'

/** The metrics of one process, as they travel between processes. */
export type ProcessMetrics = Awaited<ReturnType<Registry['getMetricsAsJSON']>>

/** The metrics of all workers of a server. */
export interface GatheredMetrics {
  /** of each worker that answered; of the others, and of those that ended, the counts alone, as last known */
  metrics: ProcessMetrics[]
  /** how many workers there should be */
  workers: number
  /** how many of them did not answer in time, or are being replaced */
  missing: number
  /** how many ended unexpectedly */
  ended: number
}

/** Of this metric the value that is furthest from zero is shown; prom-client has no aggregator for that. */
export const CLOCK_AHEAD = 'eaas_clock_ahead_seconds'

/** Reads the text of /metrics over all processes. */
export function sumMetrics({ metrics, workers, missing, ended }: GatheredMetrics): Promise<string> {
  const aggregator = furthestFromZero(metrics)
  const registry: Registry = AggregatorRegistry.aggregate(
    metrics.map((own) => own.map((metric) => (metric.name === CLOCK_AHEAD ? { ...metric, aggregator } : metric))),
  )
  const registers = [registry]
  new Gauge({ name: 'eaas_workers', help: 'Worker processes that this server should have.', registers }).set(workers)
  new Gauge({
    name: 'eaas_workers_missing',
    help: 'Workers that did not answer in time or are being replaced: of them, these metrics have the counts alone, as last known.',
    registers,
  }).set(missing)
  new Counter({
    name: 'eaas_workers_ended_total',
    help: 'Workers that ended unexpectedly, and were replaced.',
    registers,
  }).inc(ended)
  return registry.metrics()
}

function furthestFromZero(metrics: ProcessMetrics[]): 'min' | 'max' {
  const found = metrics.flat().filter(({ name }) => name === CLOCK_AHEAD)
  const values = found.flatMap((metric) => metric.values.map(({ value }) => value))
  return Math.max(0, ...values) >= Math.abs(Math.min(0, ...values)) ? 'max' : 'min'
}

/** Selects what only grows. Without these of a process that has ended, the sums would fall, which reads as a restart of the whole server. */
export function countsOf(metrics: ProcessMetrics): ProcessMetrics {
  return metrics.filter(({ type }) => ['counter', 'histogram'].includes(String(type)))
}

/** Adds counts to counts. */
export function addCounts(counts: ProcessMetrics, more: ProcessMetrics): Promise<ProcessMetrics> {
  return AggregatorRegistry.aggregate([counts, countsOf(more)]).getMetricsAsJSON()
}
