// Each supported PostgreSQL: the suites whose statements, settings or statistics depend on its version, and those that move whole databases.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { backend } from '../support/database/database.js'
import { findOrInstallVersion, HAS_VERSIONS, VERSIONS } from '../support/database/postgres-versions.js'
import { ROOT } from '../support/sources/source-files.js'

const run = promisify(execFile)
const MAX_OUTPUT_BYTES = 16 * 1_048_576

/** The packages lack pg_basebackup, which a failover needs. */
const SUITES = [
  'test/api/{batch,keys}.test.ts',
  'test/audit/{retention/command,rollback/accept-all}.test.ts',
  'test/cli/{backup,move-to-postgres}.test.ts',
  'test/custody/{migrated,rotation}.test.ts',
  'test/faults/{commit,erased-keys,migrations,schema,search-path,serving-role,shared-appends,text-formats}.test.ts',
]

/** The files that a pattern with braces stands for. */
function expand(pattern: string): string[] {
  const [, before = '', list = '', after = ''] = /^(.*)\{(.*)\}(.*)$/.exec(pattern) ?? []
  return list.split(',').map((each) => before + each + after)
}

/** Without what tells a process that it belongs to this run. */
function environment(bin: string): NodeJS.ProcessEnv {
  const others = Object.entries(process.env).filter(
    ([name]) => !/^(VITEST|EAAS_TEST_SLOW|NODE_ENV|TEST|DEV|PROD|SSR)/.test(name),
  )
  return { ...Object.fromEntries(others), EAAS_TEST_POSTGRES_BIN: bin }
}

describe.skipIf(backend() !== 'postgres' || !HAS_VERSIONS)('PostgreSQL', () => {
  it.each(Object.keys(VERSIONS).map(Number) as (keyof typeof VERSIONS)[])('%i runs the suites', async (major) => {
    const args = ['vitest', 'run', '--project', 'postgres', ...SUITES.flatMap(expand)]
    const env = environment(findOrInstallVersion(major))
    const { code, output } = await run('npx', args, { cwd: ROOT, env, maxBuffer: MAX_OUTPUT_BYTES }).then(
      ({ stdout }) => ({ code: 0, output: stdout }),
      ({ code, stdout, stderr }: { code: number; stdout: string; stderr: string }) => ({
        code,
        output: stdout + stderr,
      }),
    )
    expect(code, output.slice(-20_000)).toBe(0)
  })
})
