// A thousand tenants that went back: one diff, and one command that accepts it.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { rolledBack } from '../audit/rollback/rolled-back-scene.js'

const TENANTS = 1_000

it(`accepts the losses of ${TENANTS} tenants in one line`, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'eaas-rolled-back-'))
  const apiKeys = new Map<string, string>()
  const names = Array.from({ length: TENANTS }, (_, at) => `tenant ${at}`)
  const scene = await rolledBack(folder, names, {
    async prepare(caller, name) {
      const { body } = await caller.call('POST', '/v1/api-keys', { name: 'revoked', permissions: ['decrypt'] })
      apiKeys.set(name, body.id)
    },
    change: (caller, name) => caller.call('DELETE', `/v1/api-keys/${apiKeys.get(name)}`),
  })
  const timed = async (what: string, ...args: string[]) => {
    const from = performance.now()
    const ended = await scene.eaas(...args)
    console.log(`${what}: ${((performance.now() - from) / 1_000).toFixed(1)} s`)
    return ended
  }
  try {
    const found = await timed('the diff', 'audit', 'diff', '--all', '--json')
    const file = join(folder, 'diff')
    await writeFile(file, found.stdout)
    const accept = ['accept', 'rollback', '--all', '--from-diff', file, '--reason', 'a drill']
    const { code, stdout, stderr } = await timed('accepted', ...accept)
    expect([code, stdout, stderr]).toEqual([
      0,
      `Accepted: ${TENANTS + 1} logs of ${TENANTS + 1} that differ or have an alarm. No alarm is left. Now repeat what was lost, which eaas audit diff --export names.\n`,
      '',
    ])
    expect((await timed('verified', 'audit', 'verify', '--all')).code).toBe(0)
  } finally {
    await scene.service.close()
    await rm(folder, { recursive: true, force: true })
  }
})
