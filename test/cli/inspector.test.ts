// SIGUSR1 must not open Node's inspector, through which anyone who may signal the server, or a witness, could read every secret in its memory.
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import vectors from '../../packages/audit/src/formats/cosignature.vectors.json' with { type: 'json' }
import { freshDatabase } from '../support/database/database.js'
import { startEaas, untilHealthy } from '../support/service/eaas-process.js'
import { startWitness } from '../support/service/witness.js'

it('opens no inspector on SIGUSR1, and goes on serving', { timeout: 60_000 }, async () => {
  const eaas = await startEaas({ database: await freshDatabase('inspector') })
  process.kill(eaas.pid, 'SIGUSR1')
  await sleep(500) // the inspector writes its line within some milliseconds
  await untilHealthy(eaas)
  const { code, stderr } = await eaas.stop()
  expect([code, stderr]).toEqual([0, expect.not.stringContaining('Debugger')])
})

it('opens none in a witness', { timeout: 60_000 }, async () => {
  const [{ logs } = { logs: [] }] = vectors.runs
  const { process: witness, remove } = await startWitness(logs)
  process.kill(witness.pid, 'SIGUSR1')
  await sleep(500)
  expect((await fetch(witness.url)).status).toBe(404)
  expect(witness.stderr).not.toContain('Debugger')
  await remove()
})
