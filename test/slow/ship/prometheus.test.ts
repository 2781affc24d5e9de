// The rules and metrics by Prometheus' own tools: each alert fires for what it is about, and not for what is usual.
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { parse } from 'yaml'
import { databaseWithTenant } from '../../support/database/filled-database.js'
import { findOrInstallPrograms } from '../../support/run/apt-program.js'
import { startServer } from '../../support/service/server.js'
import { ROOT } from '../../support/sources/source-files.js'

const RULES = join(ROOT, 'packages/server/monitoring/rules.yml')
const found = findOrInstallPrograms(['promtool'], ['prometheus'])
const promtool = found?.promtool ?? ''

const FOUR_WEEKS = 28 * 24 * 60

/** Values each minute: what fires the alert, what does not, and when it fires, in minutes. */
interface Example {
  series: string
  fires: string
  quiet: string
  minutes?: number
}

const ON = 'job="eaas",instance="one"'
/** A server of another installation, where all is well: it neither hides an alert nor causes one. */
const ELSEWHERE = 'job="eaas",instance="three",installation="other"'
const gauge = (name: string, fires = '1', quiet = '0', minutes = 2): Example => ({
  series: `${name}{${ON}}`,
  fires: `${fires}+0x${minutes}`,
  quiet: `${quiet}+0x${minutes}`,
  minutes,
})
const counter = (labelled: string, fires: number, quiet: number, minutes = 20): Example => ({
  series: labelled.replace('}', `,${ON}}`),
  fires: `0+${fires}x${minutes}`,
  quiet: `0+${quiet}x${minutes}`,
  minutes,
})

const EXAMPLES: Record<string, Example> = {
  EaasLogAlarmed: gauge('eaas_audit_alarmed_tenants'),
  EaasLogInvalid: gauge('eaas_audit_verification_failed_logs'),
  EaasWitnessContradicted: gauge('eaas_witness_contradicted'),
  EaasTenantsUnanchored: gauge('eaas_audit_unanchored_tenants'),
  EaasSchemaChanged: gauge('eaas_schema_differences', '1', '0', 16),
  EaasLogsUnwatched: gauge('eaas_audit_watch_age_seconds', '61', '9'),
  EaasVerificationOverdue: gauge('eaas_audit_verification_age_seconds', '172900', '86400'),
  EaasCheckpointOverdue: gauge('eaas_audit_checkpoint_age_seconds', '7300', '3600'),
  EaasAnchorOverdue: gauge('eaas_audit_anchor_age_seconds', '7300', '3600'),
  EaasWitnessSilent: gauge('eaas_witness_cosignature_age_seconds', '7300', '3600'),
  EaasDown: gauge('up', '0', '1'),
  EaasAllDown: gauge('up', '0', '1'),
  EaasDegraded: gauge('eaas_degraded'),
  EaasClockWrong: gauge('eaas_clock_wrong'),
  EaasClockDrifts: gauge('eaas_clock_ahead_seconds', '-6', '-2', 11),
  EaasLogsAhead: gauge('eaas_clock_ahead_logs'),
  EaasCommitsNotDurable: gauge('eaas_durability_synchronous', '0', '1', 6),
  EaasErrors: counter('eaas_http_requests_total{route="/v1/keys",status="503"}', 6, 0),
  EaasCommitsSlow: counter('eaas_audit_commit_seconds_bucket{le="1"}', 1, 60),
  EaasQueueLong: gauge('eaas_audit_queue_entries', '600', '300', 6),
  EaasOpenFilesScarce: gauge('process_open_fds', '900', '60', 11),
  EaasVersionsDiffer: { series: `eaas_build_info{version="1",${ON}}`, fires: '1+0x61', quiet: '_x61', minutes: 61 },
  EaasCertificateStale: gauge('eaas_tls_certificate_stale'),
  EaasCertificateExpires: gauge('eaas_tls_certificate_expiry_timestamp_seconds', '600000', '700000'),
  EaasStoreKeyRotationInterrupted: gauge('eaas_secrets_under_former_store_key', '1', '0', 61),
  EaasFormerPepperKept: gauge('eaas_api_keys_under_former_pepper', '1', '0', FOUR_WEEKS + 1),
  EaasPurgeFailed: gauge('eaas_audit_purge_failed_tenants'),
  EaasPurgeOverdue: gauge('eaas_audit_purge_age_seconds', '172900', '86400'),
  EaasApiKeysGuessed: counter('eaas_refusals_total{code="E_UNAUTHORIZED",reason="unknown"}', 120, 30),
  EaasDeadApiKeyUsed: counter('eaas_refusals_total{code="E_UNAUTHORIZED",reason="revoked"}', 1, 0),
  EaasMalformedRequests: counter('eaas_refusals_total{code="E_REQUEST_TIMEOUT",reason=""}', 120, 30),
  EaasMovedTenantCalled: counter('eaas_refusals_total{code="E_TENANT_MOVED",reason=""}', 1, 0),
  EaasUsageDoubled: counter('eaas_audit_entries_total{action="usage.doubled"}', 1, 0),
  EaasBudgetsRefuse: counter('eaas_audit_entries_total{action="budget.refused"}', 1, 0),
  EaasKeyLeftOrGoes: counter('eaas_audit_entries_total{action="key.export"}', 1, 0),
  EaasUnrecordedCallsMany: counter('eaas_unrecorded_calls_total{kind="hash"}', 7_000, 3_000, 30),
}
/** What an expression compares with, the same in both cases. */
const BESIDE: Record<string, { series: string; values: string }[]> = {
  EaasCommitsSlow: ['10', '+Inf'].map((le) => ({
    series: `eaas_audit_commit_seconds_bucket{le="${le}",${ON}}`,
    values: '0+60x20',
  })),
  EaasOpenFilesScarce: [{ series: `process_max_fds{${ON}}`, values: '1024+0x11' }],
  EaasVersionsDiffer: [
    { series: 'eaas_build_info{version="2",job="eaas",instance="two"}', values: '1+0x61' },
    { series: `eaas_build_info{version="3",${ELSEWHERE}}`, values: '1+0x61' },
  ],
  EaasVerificationOverdue: [{ series: `eaas_audit_verification_age_seconds{${ELSEWHERE}}`, values: '9+0x2' }],
  EaasAllDown: [{ series: `up{${ELSEWHERE}}`, values: '1+0x2' }],
}

it.runIf(found)('each alert fires for what it is about, and not for what is usual', () => {
  const rules = (parse(readFileSync(RULES, 'utf8')).groups as { rules: { alert: string }[] }[]).flatMap(
    (group) => group.rules,
  )
  expect(Object.keys(EXAMPLES)).toEqual(rules.map(({ alert }) => alert))
  const examples = Object.entries(EXAMPLES)
  const short = examples.filter(([, { minutes = 0 }]) => minutes < FOUR_WEEKS)
  // Four weeks minute by minute take minutes: their values are an hour apart.
  const long = examples.filter(([, { minutes = 0 }]) => minutes >= FOUR_WEEKS)
  runTests('1m', [...short.flatMap((example) => testsOf(example, '1m')), SHOWN])
  runTests(
    '1h',
    long.flatMap((example) => testsOf(example, '1h')),
  )
})

/** What an alert says. */
const SHOWN = {
  name: 'summary and page',
  interval: '1m',
  input_series: [{ series: `eaas_audit_alarmed_tenants{${ON}}`, values: '3+0x2' }],
  alert_rule_test: [
    {
      eval_time: '1m',
      alertname: 'EaasLogAlarmed',
      exp_alerts: [
        {
          exp_labels: { severity: 'critical', job: 'eaas', instance: 'one' },
          exp_annotations: {
            summary:
              'one: 3 logs were cut, rolled back or forged. Servers refuse the calls of a tenant with such a log',
            page: 'docs/alarms.md',
          },
        },
      ],
    },
  ],
}

function testsOf([alert, { series, fires, quiet, minutes = 2 }]: [string, Example], interval: string): object[] {
  return [fires, quiet].map((values) => ({
    name: `${alert}: ${values}`,
    interval,
    input_series: [{ series, values }, ...(BESIDE[alert] ?? [])],
    promql_expr_test: [
      {
        expr: `count(ALERTS{alertname="${alert}",alertstate="firing"})`,
        eval_time: `${minutes}m`,
        exp_samples: values === fires ? [{ labels: '{}', value: 1 }] : [],
      },
    ],
  }))
}

function runTests(evaluation_interval: string, tests: readonly object[]): void {
  const file = join(mkdtempSync(join(tmpdir(), 'eaas-rules-')), 'tests.yml')
  writeFileSync(file, JSON.stringify({ rule_files: [RULES], evaluation_interval, tests }))
  const { status, stdout, stderr } = spawnSync(promtool, ['test', 'rules', file], { encoding: 'utf8' })
  expect([status, `${stdout}${stderr}`]).toEqual([0, expect.stringContaining('SUCCESS')])
}

it.runIf(found)('promtool accepts the rules, and the names of all metrics', async () => {
  execFileSync(promtool, ['check', 'rules', RULES])
  const { database } = await databaseWithTenant()
  const server = await startServer({ database })
  try {
    const input = await (await fetch(`${server.url}/metrics`)).text()
    const { status, stderr } = spawnSync(promtool, ['check', 'metrics'], { input, encoding: 'utf8' })
    expect([status, stderr]).toEqual([0, ''])
  } finally {
    await server.stop()
  }
})
