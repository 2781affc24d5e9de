// A log that cannot be written: the server keeps serving, and stops as usual.

import { once } from 'node:events'
import { closeSync, existsSync, openSync } from 'node:fs'
import { Agent, get } from 'node:http'
import { describe, expect, it } from 'vitest'
import { freshDatabase } from '../support/database/database.js'
import { createTenantInProcess, startEaas } from '../support/service/eaas-process.js'
import { callsOf } from '../support/service/load.js'

const TIMEOUT_MS = 120_000
/** So many calls that their log lines, some 150 bytes each, exceed what a pipe and its reader can hold. */
const MANY = 4_000

const environment = { EAAS_LOG_LEVEL: 'info' }

/** Makes calls over a few connections; the log has one line for each. */
async function callMany(url: string, calls: number): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 8 })
  const call = async () => {
    const [response] = await once(get(`${url}/livez`, { agent }), 'response')
    response.resume()
    await once(response, 'end')
    expect(response.statusCode).toBe(200)
  }
  for (let left = calls; left > 0; left -= 8) await Promise.all(Array.from({ length: 8 }, call))
  agent.destroy()
}

describe('a server whose log', { timeout: TIMEOUT_MS }, () => {
  it.skipIf(!existsSync('/dev/full'))('has no room left on its disk serves and stops', async () => {
    const full = openSync('/dev/full', 'w')
    const eaas = await startEaas({ database: await freshDatabase('log'), environment, stderr: full })
    closeSync(full)
    await callMany(eaas.url, 16)
    const { code, stdout } = await eaas.stop()
    expect(code).toBe(0)
    expect(stdout).not.toContain('Other machines') // it is bound to 127.0.0.1
  })

  it.each(['leave', 'stall'] as const)('has a reader that does not read on (%s) serves and stops', async (how) => {
    const eaas = await startEaas({ database: await freshDatabase('log'), environment })
    eaas.stopReading(how)
    await callMany(eaas.url, how === 'stall' ? MANY : 16)
    const pid = eaas.pid
    process.kill(pid, 'SIGTERM')
    await expect.poll(() => isThere(pid), { timeout: 60_000 }).toBe(false)
  })
})

describe('a server that is bound to all addresses', { timeout: TIMEOUT_MS }, () => {
  it('prints that address, and that other machines reach it without TLS', async () => {
    const database = await freshDatabase('log')
    const open = await startEaas({ database, environment: { EAAS_HOST: '0.0.0.0' } })
    expect(open.url).toMatch(/^http:\/\/0\.0\.0\.0:\d+$/)
    const { stdout } = await open.stop()
    expect(stdout).toContain('Other machines can reach this address, without TLS')
  })
})

// Linux shows the streams of a process in /proc, where a shell can read their device and inode.
describe.skipIf(!existsSync('/proc/self/fd'))('a first start', { timeout: TIMEOUT_MS }, () => {
  it('prints no API key into the journal of systemd, and says how to create a tenant', async () => {
    const database = await freshDatabase('log')
    const asUnit = 'JOURNAL_STREAM=$(stat -L -c %d:%i /proc/$$/fd/1) exec "$@"'
    const eaas = await startEaas({ database, under: ['sh', '-c', asUnit, 'sh'] })
    await expect.poll(() => eaas.stdout).toContain('eaas tenant create --name main')
    const { api_key } = await createTenantInProcess({ database }, 'main')
    expect((await eaas.stop()).stdout).not.toContain('eaas_sk_')

    await eaas.start()
    expect((await callsOf(api_key.secret)(eaas.url, 'GET', '/v1/keys')).status).toBe(200)
    expect((await eaas.stop()).stdout).not.toMatch(/eaas_sk_|no tenant/)
  })

  it('prints it where another stream than its own is the journal', async () => {
    const database = await freshDatabase('log')
    const eaas = await startEaas({ database, environment: { JOURNAL_STREAM: '9:12345' } })
    await expect.poll(() => eaas.stdout).toContain('eaas_sk_')
    await eaas.stop()
  })
})

function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
