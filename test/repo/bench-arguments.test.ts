// The arguments of `npm run bench`: a wrong one is refused before anything is installed or measured.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ROOT } from '../support/sources/source-files.js'

const bench = (...argv: string[]) =>
  spawnSync(process.execPath, [join(ROOT, 'test/bench/bench.mjs'), ...argv], { encoding: 'utf8' })

describe('npm run bench', () => {
  it.each([
    [['--list'], "Unknown option '--list'"],
    [['server'], "Unexpected argument 'server'"],
    [['--only', 'none'], 'there is no part "none"'],
    [['--only', 'server/none'], 'there is no part "server/none"'],
    [['--only', 'server/calls/x'], 'there is no part "server/calls/x"'],
    [['--only', 'toString'], 'there is no part "toString"'],
    [['--rounds', 'many'], '--rounds must be a whole number, from 1'],
    [['--seconds', '0'], '--seconds must be a whole number, from 1'],
    [['--nodes', '/none'], 'there is no Node.js at "/none"'],
  ])('refuses %j in one line, and names its help', (argv, message) => {
    const { status, stdout, stderr } = bench(...argv)
    expect({ status, stdout, lines: stderr.trim().split('\n').length }).toEqual({ status: 2, stdout: '', lines: 1 })
    expect(stderr).toContain(`bench: ${message}`)
    expect(stderr).toContain('npm run bench -- --help lists options and parts')
  })

  it('lists its parts and their measurements', () => {
    const { status, stdout } = bench('--help')
    expect(status).toBe(0)
    for (const line of [
      '  server   calls, tenants, ',
      '  audit    append, storage, scale',
      '  sdk      node, ',
      '  profile  profile',
    ])
      expect(stdout).toContain(line)
  })
})
