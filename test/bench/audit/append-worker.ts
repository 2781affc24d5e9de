// Appends to the audit log by the server's committer. Prints `RESULT <json>`: entries a second, round by round.
import type { EntryDraft } from '../../../packages/server/src/core/audit/formats/chain.js'
import { readConfig } from '../../../packages/server/src/core/config.js'
import { openInstallation } from '../../../packages/server/src/installation.js'
import { createTenant } from '../../../packages/server/src/operators/tenants.js'
import { interleave } from '../lib/rounds.js'

const { url, rootKey, callers, seconds, rounds } = JSON.parse(process.argv[2] ?? '{}')
const config = readConfig({ EAAS_DATABASE_URL: url, EAAS_ROOT_KEY: rootKey })
const onAlarm = (message: string) => {
  throw new Error(message)
}
const installation = await openInstallation({ config, onAlarm })
const { services } = installation
const { tenant_id } = await createTenant(services, { name: `bench ${process.pid}`, envelope_only: true })
const state = await services.states.find(tenant_id)
if (!state) throw new Error('the tenant was not found')
const { auditKey, policy_version } = state
const decide = async () => undefined
const draft: EntryDraft = {
  action: 'key.unwrap',
  key_id: '5b1d2f6c-0c36-4f5e-8d0f-6f5d2d4c9a11',
  key_version: 1,
  actor: '0d9b4f4e-9f6b-4a55-8d3e-0f6d3d2c1b0a',
  ip_address: '192.0.2.7',
  metadata: null,
}

const measured = await interleave(
  {
    [`committer, ${callers} callers`]: () => perSecond(callers),
    'committer, 1 caller': () => perSecond(1),
  },
  { rounds },
)
await installation.close()
console.log(`RESULT ${JSON.stringify(measured)}`)

async function perSecond(count: number): Promise<number> {
  const startedAt = performance.now()
  const end = startedAt + seconds * 1_000
  let done = 0
  const loop = async () => {
    while (performance.now() < end) {
      await services.committer.append({ tenant_id, auditKey, policy_version, decide, entries: [draft] })
      done += 1
    }
  }
  await Promise.all(Array.from({ length: count }, loop))
  return (done * 1_000) / (performance.now() - startedAt)
}
