// The long form of drain.test.ts: behind haproxy in TCP mode, which checks every 2 s and does not retry, and behind the haproxy and nginx
// of the guide on several processes.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { restartRolling } from '../faults/rolling-restart.js'
import type { Balancer } from '../faults/tcp-balancer.js'
import { backend } from '../support/database/database.js'
import { freePort } from '../support/database/postgres.js'
import { findOrInstallPrograms } from '../support/run/apt-program.js'
import { haproxyConfig, nginxConfig } from '../support/service/proxies.js'

const CALLS = 10_000
const NAMES = ['haproxy', 'nginx'] as const
const programs = backend() === 'embedded' ? undefined : findOrInstallPrograms(NAMES, NAMES)

async function startProxy(
  name: (typeof NAMES)[number],
  configuration: (port: number, folder: string) => string,
): Promise<Balancer> {
  const [folder, port] = [mkdtempSync(join(tmpdir(), 'eaas-proxy-')), await freePort()]
  const file = join(folder, 'proxy.conf')
  writeFileSync(file, configuration(port, folder))
  const options = name === 'haproxy' ? ['-db', '-f', file] : ['-c', file, '-e', 'stderr', '-g', 'daemon off;']
  const child = spawn(programs?.[name] ?? '', options, { stdio: 'inherit' })
  const url = `http://127.0.0.1:${port}`
  const read = () => fetch(`${url}/health`).then(({ status }) => status, String)
  await expect.poll(read, { timeout: 20_000 }).toBe(200)
  return {
    url,
    close() {
      child.kill()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

function tcpConfig(port: number, servers: readonly string[]): string {
  const lines = servers.map((url, at) => `  server s${at} ${new URL(url).host} check inter 2s`)
  return `defaults
  mode tcp
  retries 0
  timeout connect 5s
  timeout client 60s
  timeout server 60s
listen eaas
  bind 127.0.0.1:${port}
  balance roundrobin
  option httpchk GET /health
  http-check expect status 200
${lines.join('\n')}
`
}

describe.skipIf(!programs)('a rolling restart behind haproxy in TCP mode', () => {
  it('fails none of 10,000 calls', async () => {
    const { made, failures, codes } = await restartRolling({
      drainSeconds: 15,
      calls: CALLS,
      pauseMs: 5,
      startBalancer: (servers) => startProxy('haproxy', (port) => tcpConfig(port, servers)),
    })
    console.log(`${made} calls, ${failures.length} failed`)
    expect({ failures, codes }).toEqual({ failures: [], codes: [0, 0] })
    expect(made).toBeGreaterThanOrEqual(CALLS)
  })
})

describe.skipIf(!programs).each(NAMES)('behind the recipe for %s', (name) => {
  const startBalancer = (servers: readonly string[]) => {
    const ports = servers.map((url) => new URL(url).port)
    return startProxy(name, (port, folder) =>
      name === 'haproxy' ? haproxyConfig(port, ports) : nginxConfig(port, ports, folder),
    )
  }

  it('a rolling restart fails no call', async () => {
    const restart = { drainSeconds: 7, calls: 1_000, pauseMs: 20, tenants: 16, startBalancer }
    const { made, failures, codes } = await restartRolling(restart)
    console.log(`${name}: ${made} calls, ${failures.length} failed`)
    expect({ failures, codes }).toEqual({ failures: [], codes: [0, 0] })
  })

  it('servers that are killed one after another fail no other calls but those that were under way', async () => {
    const restart = { drainSeconds: 0, calls: 1_000, pauseMs: 20, tenants: 16, isKilled: true, startBalancer }
    const { made, lost, failures } = await restartRolling(restart)
    console.log(`${name}: ${made} calls, ${lost} failed that were under way, ${failures.length} others`)
    expect(failures).toEqual([])
  })
})
