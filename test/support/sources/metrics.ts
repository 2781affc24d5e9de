// The metrics of the server, read from its sources.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from './source-files.js'

export interface Metric {
  name: string
  kind: 'counter' | 'gauge' | 'histogram'
  help: string
  labels: string[]
}

const HTTP = join(ROOT, 'packages/server/src/observe')
/** A string in single or double quotes. */
const TEXT = `(?:'([^']*)'|"([^"]*)")`
const DECLARED = new RegExp(
  String.raw`new (Counter|Gauge|Histogram)\(\{\s*name: '(eaas_\w+)',\s*help: ${TEXT},(?:\s*labelNames: \[([^\]]*)\])?`,
  'g',
)
const IN_TABLE = new RegExp(String.raw`^ {4}(eaas_\w+): \[\s*${TEXT}`, 'gm')

/** Lists them in the order of the sources. */
export function readMetrics(): Metric[] {
  const files = readdirSync(HTTP).filter((name) => /metrics?\.ts$/.test(name))
  const text = files.map((name) => readFileSync(join(HTTP, name), 'utf8')).join('\n')
  const declared = [...text.matchAll(DECLARED)].map(([, kind = '', name = '', single, double, labels = '']) => ({
    name,
    kind: kind.toLowerCase() as Metric['kind'],
    help: single ?? double ?? '',
    labels: [...labels.matchAll(/'(\w+)'/g)].map(([, label = '']) => label),
  }))
  const inTables = [...text.matchAll(IN_TABLE)].map(([, name = '', single, double]) => ({
    name,
    kind: 'gauge' as const,
    help: single ?? double ?? '',
    labels: [],
  }))
  return [...declared, ...inTables]
}
