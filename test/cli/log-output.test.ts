// A log that cannot be written: the server keeps serving, and stops as usual.

import { once } from 'node:events'
import { closeSync, existsSync, openSync } from 'node:fs'
import { Agent, get } from 'node:http'
import { describe, expect, it } from 'vitest'
import { freshDatabase } from '../support/database.js'
import { startEaas } from '../support/eaas-process.js'

const TIMEOUT_MS = 120_000
/** So many calls that their log lines, some 250 bytes each, exceed what a pipe and its reader can hold. */
const MANY = 4_000

const environment = { EAAS_LOG_LEVEL: 'info' }

/** Makes calls over a few connections; the log has one line for each. */
async function callMany(url: string, calls: number): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 8 })
  const call = async () => {
    const [response] = await once(get(`${url}/v1/keys`, { agent }), 'response')
    response.resume()
    await once(response, 'end')
    expect(response.statusCode).toBe(401)
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
    expect((await eaas.stop()).code).toBe(0)
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

function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
