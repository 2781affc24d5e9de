// Makes the Grafana dashboard of the package from the list of metrics.
import type { Metric } from './metrics.js'

/** The metrics of every Node process that are worth showing. */
const OF_PROCESS: Metric[] = [
  ['process_cpu_seconds_total', 'counter', 'Cores in use.'],
  ['process_resident_memory_bytes', 'gauge', 'Memory of the process.'],
  ['process_open_fds', 'gauge', 'Open files.'],
  ['nodejs_eventloop_lag_p99_seconds', 'gauge', 'Lag of the event loop, 99th percentile.'],
].map(([name = '', kind, help = '']) => ({ name, kind: kind as Metric['kind'], help, labels: [] }))

/** The rows of the dashboard; a metric is in the first row that takes it. */
const ROWS: [title: string, takes: RegExp][] = [
  ['Calls', /^eaas_(http|refusals|unrecorded|degraded|build)/],
  ['The audit log', /^eaas_(audit|witness)/],
  ['Database, clocks and custody', /^eaas_/],
  ['Process', /./],
]

const COLUMNS = 24
const WIDTH = 8
const HEIGHT = 7
const DATASOURCE = { type: 'prometheus', uid: '$datasource' }

/** The dashboard, as Grafana imports it. */
export function makeDashboard(metrics: readonly Metric[]): object {
  const panels: object[] = []
  let y = 0
  let id = 0
  const left = [...metrics, ...OF_PROCESS]
  for (const [title, takes] of ROWS) {
    const row = left.filter(({ name }) => takes.test(name))
    for (const metric of row) left.splice(left.indexOf(metric), 1)
    panels.push({ id: ++id, type: 'row', title, gridPos: { x: 0, y, w: COLUMNS, h: 1 }, collapsed: false, panels: [] })
    y += 1
    for (const [at, metric] of row.entries()) {
      const x = (at * WIDTH) % COLUMNS
      panels.push({
        id: ++id,
        ...panel(metric),
        gridPos: { x, y: y + Math.floor((at * WIDTH) / COLUMNS) * HEIGHT, w: WIDTH, h: HEIGHT },
      })
    }
    y += Math.ceil((row.length * WIDTH) / COLUMNS) * HEIGHT
  }
  return {
    uid: 'eaas',
    title: 'EaaS',
    description: 'Every metric of the servers. Made from the list of metrics; copy it before you change it.',
    tags: ['eaas'],
    schemaVersion: 38,
    editable: true,
    refresh: '30s',
    time: { from: 'now-6h', to: 'now' },
    templating: {
      list: [
        { name: 'datasource', type: 'datasource', query: 'prometheus' },
        // Of several installations, each target has the label `installation`; of one, none has.
        chooserOf('installation', 'label_values(eaas_build_info, installation)', { allValue: '.*' }),
        chooserOf('instance', 'label_values(eaas_build_info{installation=~"$installation"}, instance)'),
      ],
    },
    panels,
  }
}

function chooserOf(name: string, query: string, more: { allValue?: string } = {}) {
  return { name, type: 'query', datasource: DATASOURCE, query, includeAll: true, multi: true, refresh: 2, ...more }
}

function panel({ name, kind, help, labels }: Metric): object {
  const legend = ['instance', ...labels].map((label) => `{{${label}}}`).join(' ')
  const by = ['instance', ...labels].join(', ')
  const chosen = `${name}{instance=~"$instance"}`
  const bucket = `${name}_bucket{instance=~"$instance"}`
  const quantile = (share: number) =>
    `histogram_quantile(${share}, sum by (${[by, 'le'].join(', ')}) (rate(${bucket}[$__rate_interval])))`
  const exprs: Record<Metric['kind'], [expr: string, legend: string][]> = {
    counter: [[`sum by (${by}) (rate(${chosen}[$__rate_interval]))`, legend]],
    gauge: [[name.endsWith('_timestamp_seconds') ? `${chosen} * 1000` : chosen, legend]],
    histogram: [
      [quantile(0.5), `${legend} half`],
      [quantile(0.99), `${legend} 99 %`],
    ],
  }
  return {
    type: 'timeseries',
    title: name,
    description: help,
    datasource: DATASOURCE,
    fieldConfig: {
      defaults: { unit: unitOf(name, kind), min: name.includes('_ahead_') ? undefined : 0 },
      overrides: [],
    },
    targets: exprs[kind].map(([expr, legendFormat], at) => ({
      refId: String.fromCharCode(65 + at),
      datasource: DATASOURCE,
      expr,
      legendFormat,
    })),
  }
}

function unitOf(name: string, kind: Metric['kind']): string {
  if (name.endsWith('_timestamp_seconds')) return 'dateTimeFromNow'
  if (name.endsWith('_bytes')) return 'bytes'
  if (kind === 'counter') return name.includes('_seconds') ? 'short' : 'ops'
  return name.endsWith('_seconds') ? 's' : 'short'
}
