// The command in this process.
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Case } from '../cases/case.js'
import { type Io, run } from '../run.js'

export interface Ran {
  code: number
  out: string
  err: string
  failed: string[] // the names of the cases that failed
  /** the report of `--json` */
  // biome-ignore lint/suspicious/noExplicitAny: the tests look at the members that they expect
  report: any
}

export type Target = { baseUrl: string; apiKey: string; fetch?: Io['fetch']; signal?: AbortSignal }

/** Runs `eaas-conformance URL --api-key-file F --json F` with further arguments. */
export async function runKit({ baseUrl, apiKey, fetch, signal }: Target, ...argv: string[]): Promise<Ran> {
  const folder = mkdtempSync(join(tmpdir(), 'eaas-conformance-'))
  writeFileSync(join(folder, 'api.key'), `${apiKey}\n`)
  const out: string[] = []
  const err: string[] = []
  try {
    const code = await run([baseUrl, '--api-key-file', 'api.key', '--json', 'report.json', ...argv], {
      folder,
      print: (text) => void out.push(text),
      tell: (line) => void err.push(`${line}\n`),
      signal: signal ?? new AbortController().signal,
      ...(fetch ? { fetch } : {}),
    })
    const text = out.join('')
    const failed = [...text.matchAll(/^not ok \d+ - (.*)$/gm)].map(([, name = '']) => name)
    const file = join(folder, 'report.json')
    const report = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : undefined
    return { code, out: text, err: err.join(''), failed, report }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** The option that runs these cases alone. */
export function only(cases: readonly Case[]): string {
  const names = cases.map(([name]) => name.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'))
  return `--only=^(${names.join('|')})$`
}
