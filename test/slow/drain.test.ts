// The long form of drain.test.ts: behind haproxy in TCP mode, which checks every 2 s and does not retry.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { restartRolling } from '../faults/rolling-restart.js'
import type { Balancer } from '../faults/tcp-balancer.js'
import { backend } from '../support/database/database.js'
import { findOrInstallPrograms } from '../support/run/apt-program.js'

const CALLS = 10_000
const PORT = 21_000 + (process.pid % 10_000)
const haproxy = backend() === 'embedded' ? undefined : findOrInstallPrograms(['haproxy'], ['haproxy'])?.haproxy

async function startHaproxy(program: string, servers: string[]): Promise<Balancer> {
  const folder = mkdtempSync(join(tmpdir(), 'eaas-haproxy-'))
  const file = join(folder, 'haproxy.cfg')
  const lines = servers.map((url, at) => `  server s${at} ${new URL(url).host} check inter 2s`)
  writeFileSync(
    file,
    `defaults
  mode tcp
  retries 0
  timeout connect 5s
  timeout client 60s
  timeout server 60s
listen eaas
  bind 127.0.0.1:${PORT}
  balance roundrobin
  option httpchk GET /health
  http-check expect status 200
${lines.join('\n')}
`,
  )
  const child = spawn(program, ['-db', '-f', file], { stdio: 'inherit' })
  const url = `http://127.0.0.1:${PORT}`
  await expect
    .poll(
      () =>
        fetch(`${url}/health`).then(
          ({ status }) => status,
          () => 0,
        ),
      { timeout: 20_000 },
    )
    .toBe(200)
  return {
    url,
    close() {
      child.kill()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

describe.skipIf(!haproxy)('a rolling restart behind haproxy in TCP mode', () => {
  it('fails none of 10,000 calls', async () => {
    const { made, failures, codes } = await restartRolling({
      drainSeconds: 15,
      calls: CALLS,
      pauseMs: 5,
      startBalancer: (servers) => startHaproxy(haproxy as string, servers),
    })
    console.log(`${made} calls, ${failures.length} failed`)
    expect({ failures, codes }).toEqual({ failures: [], codes: [0, 0] })
    expect(made).toBeGreaterThanOrEqual(CALLS)
  })
})
