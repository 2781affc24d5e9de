// The systemd unit that the package holds: what it promises, and how systemd itself scores its hardening.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const UNIT = fileURLToPath(new URL('../../packages/server/systemd/eaas.service', import.meta.url))
const MOST_EXPOSED = 2
const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0
if (!hasSystemd)
  console.error('!!! NO SYSTEMD-ANALYZE FOUND: the hardening of the unit was not scored. Install systemd.')

describe('the systemd unit', () => {
  it('restarts for ever, after a pause, and drains', () => {
    const lines = readFileSync(UNIT, 'utf8').split('\n')
    for (const line of ['StartLimitIntervalSec=0', 'Restart=always', 'RestartSec=2']) expect(lines).toContain(line)
    expect(lines.join('\n')).toMatch(/^Environment=.*EAAS_DRAIN_SECONDS=15$/m)
  })

  it.skipIf(!hasSystemd)('is scored below 2 by systemd-analyze security', () => {
    const { stdout } = spawnSync('systemd-analyze', ['security', '--offline=yes', UNIT], { encoding: 'utf8' })
    const [, score] = /Overall exposure level for \S+: ([\d.]+)/.exec(stdout) ?? []
    expect(Number(score)).toBeLessThan(MOST_EXPOSED)
  })
})
