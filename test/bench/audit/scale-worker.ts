// Verifies a long log as the server does, and computes the HMACs of the same bytes alone; on one CPU, by CPU time. Prints
// `RESULT <json>`.
import { createHmac, createSecretKey } from 'node:crypto'
import { entryText } from '../../../packages/audit/src/formats/chain.js'
import { readConfig } from '../../../packages/server/src/core/config.js'
import { readChain } from '../../../packages/server/src/core/store/audit.js'
import { openInstallation } from '../../../packages/server/src/installation.js'

const { url, rootKey, tenant_id, entries, rounds } = JSON.parse(process.argv[2] ?? '{}')
const config = readConfig({ EAAS_DATABASE_URL: url, EAAS_ROOT_KEY: rootKey })
const onAlarm = (message: string) => {
  throw new Error(message)
}
const installation = await openInstallation({ config, onAlarm })
const { services } = installation
const state = await services.states.find(tenant_id)
if (!state) throw new Error('the tenant was not found')

const key = createSecretKey(Buffer.alloc(32, 1))
const sample = (await readChain(services.sql, { tenant_id, after_id: 100, through_id: 1_100, limit: 1_000 })).map(
  (entry) => Buffer.from(entryText(entry)),
)

const verify: number[] = []
const hmac: number[] = []
const growth: number[] = []
const elapsed: number[] = []
for (let round = 0; round < rounds; round++) {
  global.gc?.()
  const before = process.memoryUsage.rss()
  let most = before
  const watch = setInterval(() => {
    most = Math.max(most, process.memoryUsage.rss())
  }, 50)
  const startedAt = performance.now()
  verify.push(
    await cpuOf(async () => {
      const { valid, verified_entries } = await services.verifyLog({ ...state, tenant_id })
      if (!valid || verified_entries < entries) throw new Error(`${verified_entries} entries, valid: ${valid}`)
    }),
  )
  elapsed.push(performance.now() - startedAt)
  clearInterval(watch)
  growth.push(most - before)
  hmac.push(
    await cpuOf(async () => {
      for (let at = 0; at < entries; at++) {
        createHmac('sha256', key)
          .update(sample[at % sample.length] ?? key.export())
          .digest()
      }
    }),
  )
}
await installation.close()
console.log(`RESULT ${JSON.stringify({ verify, hmac, growth, elapsed })}`)

async function cpuOf(task: () => Promise<void>): Promise<number> {
  const before = process.cpuUsage()
  await task()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1_000
}
