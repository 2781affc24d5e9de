// The metrics of several processes as one page.
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import { describe, expect, it } from 'vitest'
import { addCounts, CLOCK_AHEAD, countsOf, type ProcessMetrics, sumMetrics } from './summed-metrics.js'

/** The metrics of a process that served this many calls, and whose clock is this far ahead. */
function metricsOf({ calls, ahead }: { calls: number; ahead: number }): Promise<ProcessMetrics> {
  const registers = [new Registry()]
  new Counter({ name: 'calls_total', help: 'c', labelNames: ['status'], registers }).inc({ status: '200' }, calls)
  const seconds = new Histogram({ name: 'seconds', help: 's', buckets: [1], registers })
  for (let call = 0; call < calls; call++) seconds.observe(0.5)
  new Gauge({ name: 'waiting', help: 'w', registers }).set(calls)
  new Gauge({ name: 'wrong', help: 'w', aggregator: 'max', registers }).set(calls === 1 ? 1 : 0)
  new Gauge({ name: CLOCK_AHEAD, help: 'a', registers }).set(ahead)
  return (registers[0] as Registry).getMetricsAsJSON()
}

const page = async (metrics: ProcessMetrics[]) =>
  (await sumMetrics({ metrics, workers: 3, missing: 1, ended: 4 })).split('\n').filter((line) => !line.startsWith('#'))

describe('the metrics of several processes', () => {
  it('are added, or aggregated as each of them says', async () => {
    const lines = await page([await metricsOf({ calls: 1, ahead: 0 }), await metricsOf({ calls: 2, ahead: 0 })])
    for (const line of [
      'calls_total{status="200"} 3',
      'seconds_count 3',
      'seconds_bucket{le="1"} 3',
      'waiting 3',
      'wrong 1',
    ]) {
      expect(lines).toContain(line)
    }
    for (const line of ['eaas_workers 3', 'eaas_workers_missing 1', 'eaas_workers_ended_total 4'])
      expect(lines).toContain(line)
  })

  it.each([
    [[0, -400, 3], -400],
    [[500, -400], 500],
    [[0, 0], 0],
  ])('show of clocks that are ahead by %j the one that is wrong most', async (clocks, shown) => {
    const lines = await page(await Promise.all(clocks.map((ahead) => metricsOf({ calls: 0, ahead }))))
    expect(lines).toContain(`${CLOCK_AHEAD} ${shown}`)
  })

  it('of processes that ended are their counts alone', async () => {
    const last = await metricsOf({ calls: 2, ahead: 9 })
    expect(countsOf(last).map(({ name }) => name)).toEqual(['calls_total', 'seconds'])
    const ended = await addCounts(await addCounts([], last), await metricsOf({ calls: 5, ahead: 9 }))
    const lines = await page([await metricsOf({ calls: 1, ahead: 1 }), ended])
    for (const line of ['calls_total{status="200"} 8', 'seconds_sum 4', 'waiting 1', `${CLOCK_AHEAD} 1`])
      expect(lines).toContain(line)
  })
})
