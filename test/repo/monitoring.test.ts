// What the package of the server holds for Prometheus and Grafana: it names only metrics and pages that there are.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { makeDashboard } from '../support/sources/dashboard.js'
import { readMetrics } from '../support/sources/metrics.js'
import { ROOT } from '../support/sources/source-files.js'

const SERVER = join(ROOT, 'packages/server')
/** Metrics that are not the server's own. */
const OTHERS = ['up', 'process_open_fds', 'process_max_fds']

interface Rule {
  alert: string
  expr: string
  labels: { severity: string }
  annotations: { summary: string; page: string }
}

const metrics = readMetrics()
const groups = parse(readFileSync(join(SERVER, 'monitoring/rules.yml'), 'utf8')).groups as { rules: Rule[] }[]
const rules = groups.flatMap((group) => group.rules)

/** The names in an expression that are followed by what only a metric is, or stand alone. */
const namesIn = (expr: string) =>
  [...expr.replaceAll(/"[^"]*"/g, '').matchAll(/\b(?:eaas|process|nodejs)_\w+|\bup\b/g)].map(([name]) =>
    name.replace(/_(?:bucket|sum|count)$/, ''),
  )

describe('the list of metrics', () => {
  it('has a help for each, and a name by the conventions of Prometheus', () => {
    expect(metrics.length).toBeGreaterThan(28)
    expect(new Set(metrics.map(({ name }) => name)).size).toBe(metrics.length)
    for (const { name, kind, help } of metrics) {
      expect([name, help.endsWith('.')]).toEqual([name, true])
      expect([name, name.endsWith('_total')]).toEqual([name, kind === 'counter'])
    }
  })
})

describe('the alerts', () => {
  it('have names of their own, and a severity', () => {
    expect(rules.length).toBeGreaterThanOrEqual(30)
    expect(new Set(rules.map(({ alert }) => alert)).size).toBe(rules.length)
    for (const { labels } of rules) expect(['critical', 'warning']).toContain(labels.severity)
  })

  it.each(rules)('$alert names metrics that there are', ({ expr }) => {
    const names = namesIn(expr)
    expect(names.length).toBeGreaterThan(0)
    const known = [...OTHERS, ...metrics.map(({ name }) => name)]
    expect(names.filter((name) => !known.includes(name))).toEqual([])
  })

  it.each(rules)('$alert names a page that there is, and its section', ({ annotations: { page } }) => {
    const [path = '', section] = page.split('#')
    expect(existsSync(join(SERVER, path))).toBe(true)
    if (section === undefined) return
    const headings = [...readFileSync(join(SERVER, path), 'utf8').matchAll(/^#+ (.*)$/gm)]
    expect(headings.map(([, title = '']) => title.toLowerCase().replaceAll(' ', '-'))).toContain(section)
  })

  it('are about each metric that the guide has an alert on', () => {
    const guide = readFileSync(join(SERVER, 'docs/monitoring.md'), 'utf8')
    const [, section = ''] = /^## Alerts\n(.*?)^Use these metrics for graphs/ms.exec(guide) ?? []
    const named = namesIn(section).filter((name) => name.startsWith('eaas_'))
    expect(named.length).toBeGreaterThan(20)
    const watched = rules.flatMap(({ expr }) => namesIn(expr))
    expect([...new Set(named)].filter((name) => !watched.includes(name))).toEqual([])
  })
})

describe('the dashboard', () => {
  // npx vitest run --project unit test/repo/monitoring.test.ts -u writes it
  it('is what is made from the list of metrics', async () => {
    const text = `${JSON.stringify(makeDashboard(metrics), undefined, 2)}\n`
    await expect(text).toMatchFileSnapshot(join(SERVER, 'monitoring/dashboard.json'))
  })
})
