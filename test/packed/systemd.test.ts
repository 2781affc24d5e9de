// The systemd units that the package holds: what they promise, and how systemd itself scores their hardening.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { readConfig } from '../../packages/server/src/core/config.js'
import { PIN_REFUSED } from '../../packages/server/src/root-keys/program.js'

const UNITS = ['eaas.service', 'eaas@.service']
const pathOf = (unit: string) => fileURLToPath(new URL(`../../packages/server/systemd/${unit}`, import.meta.url))
const linesOf = (unit: string) => readFileSync(pathOf(unit), 'utf8').split('\n')
const MOST_EXPOSED = 2
const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0
if (!hasSystemd)
  console.error('!!! NO SYSTEMD-ANALYZE FOUND: the hardening of the units was not scored. Install systemd.')

describe.each(UNITS)('the systemd unit %s', (unit) => {
  it('restarts for ever, after a pause, and drains', () => {
    const lines = linesOf(unit)
    for (const line of ['StartLimitIntervalSec=0', 'Restart=always', 'RestartSec=2']) expect(lines).toContain(line)
    expect(lines.join('\n')).toMatch(/^Environment=.*EAAS_DRAIN_SECONDS=15$/m)
  })

  it('does not restart after a device refused its PIN, which its next start would lock', () => {
    expect(linesOf(unit)).toContain(`RestartPreventExitStatus=${PIN_REFUSED}`)
  })

  it.skipIf(!hasSystemd)('is scored below 2 by systemd-analyze security', () => {
    const { stdout } = spawnSync('systemd-analyze', ['security', '--offline=yes', pathOf(unit)], { encoding: 'utf8' })
    const [, score] = /Overall exposure level for \S+: ([\d.]+)/.exec(stdout) ?? []
    expect(Number(score)).toBeLessThan(MOST_EXPOSED)
  })
})

describe('the template of units', () => {
  it('is the unit with a port of its own, without the embedded database, which one process holds', () => {
    const [own, others] = [linesOf('eaas@.service'), linesOf('eaas.service')]
    expect(own.filter((line) => !line.startsWith('#') && !others.includes(line))).toEqual([
      'Description=EaaS: encryption as a service, port 84%i',
      'Environment=EAAS_PORT=84%i',
      'Environment=EAAS_DRAIN_SECONDS=15',
    ])
    expect(others.filter((line) => !line.startsWith('#') && !own.includes(line))).toEqual([
      'Description=EaaS: encryption as a service',
      'Environment=EAAS_DATA_DIR=%S/eaas EAAS_DRAIN_SECONDS=15',
    ])
  })

  it.each([
    ['20', 8420],
    ['21', 8421],
  ])('gives the instance %s the port %i', (instance, port) => {
    const [, text] = /^Environment=EAAS_PORT=(.*)$/m.exec(linesOf('eaas@.service').join('\n')) ?? []
    expect(readConfig({ EAAS_PORT: text?.replace('%i', instance) }).port).toBe(port)
  })
})
