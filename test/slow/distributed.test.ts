// A PostgreSQL whose tables are spread over shards by Citus (docs/scaling.md): the suites whose statements an engine of shards may refuse.
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { backend, isPooled } from '../support/database/database.js'
import { findPostgres } from '../support/database/find-postgres.js'
import { ROOT } from '../support/sources/source-files.js'

const run = promisify(execFile)
const MAX_OUTPUT_BYTES = 16 * 1_048_576

/** Without those that write rows or schemas by statements of their own that Citus refuses. */
const SUITES = [
  ...['access', 'api-keys', 'batch', 'blind-hash', 'conformance', 'counted-wraps', 'key-states', 'keys', 'listed-keys'],
  ...['many-keys', 'metrics', 'problems', 'refusals', 'server-mode', 'unrecorded-calls', 'unwrap-path', 'wrapped-uses'],
].map((name) => `test/api/${name}.test.ts`)

/** Whether the PostgreSQL of the tests has the extension. */
function hasCitus(): boolean {
  const bin = findPostgres()
  if (!bin) return false
  const found = ['../lib', '../lib/postgresql', '../../../lib/postgresql'].some((folder) =>
    existsSync(join(bin, folder, 'citus.so')),
  )
  if (!found) {
    console.error('!!! NO CITUS FOUND: nothing runs on tables that are spread over shards. Set EAAS_TEST_POSTGRES_BIN.')
  }
  return found
}

/** Without what tells a process that it belongs to this run. */
function environment(): NodeJS.ProcessEnv {
  const others = Object.entries(process.env).filter(
    ([name]) => !/^(VITEST|EAAS_TEST_SLOW|EAAS_TEST_FAULTS|NODE_ENV|TEST|DEV|PROD|SSR)/.test(name),
  )
  return { ...Object.fromEntries(others), EAAS_TEST_DISTRIBUTED: '1' }
}

describe.skipIf(backend() !== 'postgres' || isPooled() || !hasCitus())('tables that are spread over shards', () => {
  it('serve every call', async () => {
    const args = ['vitest', 'run', '--project', 'postgres', ...SUITES]
    const { code, output } = await run('npx', args, {
      cwd: ROOT,
      env: environment(),
      maxBuffer: MAX_OUTPUT_BYTES,
    }).then(
      ({ stdout }) => ({ code: 0, output: stdout }),
      ({ code, stdout, stderr }: { code: number; stdout: string; stderr: string }) => ({
        code,
        output: stdout + stderr,
      }),
    )
    expect(code, output.slice(-20_000)).toBe(0)
  })
})
