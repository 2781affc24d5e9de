/** A run as TAP version 14, and as JSON. */
import type { Result } from './suite.js'

/** The lines before the first result. */
export function tapHead(cases: number): string {
  return `TAP version 14\n1..${cases}\n`
}

/** The lines of a result; `at` counts from 1. */
export function tapResult({ name, outcome, message }: Result, at: number): string {
  const point = `${outcome === 'failed' ? 'not ok' : 'ok'} ${at} - ${name.replaceAll(/[\\#]/g, '\\$&')}`
  if (outcome === 'skipped') return `${point} # SKIP ${message}\n`
  // JSON is YAML too.
  return message === undefined ? `${point}\n` : `${point}\n  ---\n  message: ${JSON.stringify(message)}\n  ...\n`
}

/** How many results of each outcome there are. */
export function countOutcomes(results: readonly Result[]): { passed: number; failed: number; skipped: number } {
  const count = (outcome: Result['outcome']) => results.filter((one) => one.outcome === outcome).length
  return { passed: count('passed'), failed: count('failed'), skipped: count('skipped') }
}

export interface Run {
  url: string
  version: string
  started_at: string
  results: readonly Result[]
}

/** The report of `--json`. */
export function writeJson({ results, ...run }: Run): string {
  return `${JSON.stringify({ ...run, ...countOutcomes(results), cases: results }, undefined, 2)}\n`
}
