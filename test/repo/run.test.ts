// The runner of all tests: what it prints and exits with when a test file goes wrong in a way that vitest does not end.
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { describe, expect, it, onTestFinished } from 'vitest'
import { BUILT, builtEntries } from '../built.mjs'
import { FAULT_SUITES } from '../fault-suites.mjs'
import { filesBelow, ROOT } from '../support/sources/source-files.js'

const ERRORS_SHOWN = 5
const ERRORS_AT_MOST = 1_000

/** The long suites of what the packages are for, and of where they run. */
const OF_NO_FAULT =
  /^test\/slow\/(custody\/|ship\/|(console|frameworks|generated-clients|init|mongoose|page-apps|postgres-versions|transit)\.)/

async function run(...given: string[]): Promise<{ code: number | null; output: string }> {
  // A build now would replace what other suites pack and start.
  const args = ['test/run.mjs', '--no-build', '--root', 'test/repo/flood', '--config', 'vitest.config.mjs']
  const child = spawn(process.execPath, [...args, ...given], { cwd: ROOT, env: { ...process.env, EAAS_TEST_SLOW: '' } })
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  const exit = new Promise<number | null>((resolve) => child.once('exit', resolve))
  const [output, errors, code] = await Promise.all([text(child.stdout), text(child.stderr), exit])
  return { code, output: output + errors }
}

describe('test/run.mjs', () => {
  it('ends a run that floods it with unhandled errors, shows the first few, counts the others, and prints its last line', async () => {
    const { code, output } = await run('flood.spec.mjs')
    const lines = output.split('\n')
    expect(code).toBe(1)
    expect(lines.filter((line) => /^RED: unhandled error: flood \(in .*flood\.spec\.mjs\)$/.test(line))).toHaveLength(
      ERRORS_SHOWN,
    )
    expect(output).toMatch(/^RED: \d+ more unhandled errors$/m)
    expect(output).toContain(`RED: the run was ended after ${ERRORS_AT_MOST} unhandled errors`)
    expect(output).toMatch(/^0 passed, \d+ failed$/m)
    expect(lines.length).toBeLessThan(ERRORS_AT_MOST) // printed in full, each error takes several lines
  })

  it('passes where nothing goes wrong', async () => {
    const { code, output } = await run('passing.spec.mjs')
    expect(code).toBe(0)
    expect(output).toMatch(/^1 passed, 0 failed$/m)
  })

  it('says why a test failed in a line of its own', async () => {
    const { code, output } = await run('failing.spec.mjs')
    expect(code).toBe(1)
    expect(output).toMatch(
      /^failed: .*failing\.spec\.mjs > fails: AssertionError: expected 'this value' to be 'that value'/m,
    )
    expect(output).toMatch(/^1 passed, 1 failed$/m)
  })

  it.each([
    ['an option that it does not know', ['--bogus', 'passing.spec.mjs'], 2, /^unknown option --bogus: it takes /m],
    [
      'a file that is not there',
      ['passing.spec.mjs', 'nope.spec.mjs'],
      1,
      /^RED: no test file matches nope\.spec\.mjs$/m,
    ],
  ])('refuses %s, and runs no test', async (_, given, expected, message) => {
    const { code, output } = await run(...given)
    expect(code).toBe(expected)
    expect(output).toMatch(message)
    expect(output).not.toContain('1 passed')
  })

  it('ends when npm is ended, and leaves no temporary folder of a test', async () => {
    const command =
      'node test/run.mjs --no-build --root test/repo/flood --config vitest.config.mjs hanging.spec.mjs & echo "pid $!"; wait'
    const env = { ...process.env, npm_lifecycle_event: 'test' }
    const shell = spawn('sh', ['-c', command], { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'ignore'] })
    let output = ''
    shell.stdout.setEncoding('utf8').on('data', (part: string) => {
      output += part
    })
    await expect.poll(() => output, { timeout: 30_000 }).toMatch(/it hangs in \S+ \./)
    shell.kill('SIGKILL')
    const pid = Number(/pid (\d+)/.exec(output)?.[1])
    const isRunning = () => {
      try {
        return process.kill(pid, 0)
      } catch {
        return false
      }
    }
    await expect.poll(isRunning, { timeout: 15_000 }).toBe(false)
    const [, folder = ''] = /it hangs in (\S+)/.exec(output) ?? []
    await expect.poll(() => existsSync(folder), { timeout: 15_000 }).toBe(false)
  }, 60_000)

  it('knows of each package which files a build makes, so that it builds again only what is out of date', () => {
    for (const folder of BUILT) {
      const entries = builtEntries(folder)
      expect([folder, entries.length > 0]).toEqual([folder, true])
      expect(entries.filter((entry) => !existsSync(entry))).toEqual([])
    }
  })

  it('has suites under each name of faults, and a name for each suite of faults', () => {
    const suites = [...filesBelow('test'), ...filesBelow('packages')].filter((path) => path.endsWith('.test.ts'))
    const named = Object.values(FAULT_SUITES).flat()
    expect(named.filter((part) => !suites.some((path) => path.includes(part)))).toEqual([])
    const faults = suites.filter((path) => /^test\/(faults|slow)\//.test(path) && !OF_NO_FAULT.test(path))
    expect(faults.filter((path) => !named.some((part) => path.includes(part)))).toEqual([])
  })

  it('lists the names of faults', async () => {
    const { code, output } = await run('--help')
    expect(code).toBe(0)
    const names = output.matchAll(/^FAULTS (\w+):$/gm)
    expect([...names].map(([, name]) => name)).toEqual('crash database tamper access input sdk soak'.split(' '))
  })
})
