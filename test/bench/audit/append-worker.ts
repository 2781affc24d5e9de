// Appends to the audit log by the server's committer, and by the naive design: one transaction an entry, the head locked for
// it. Both chain with the same code. Prints `RESULT <json>`: entries a second, round by round.
import { type EntryDraft, extendChain } from '../../../packages/server/src/core/audit/formats/chain.js'
import { readConfig } from '../../../packages/server/src/core/config.js'
import { appendEntries } from '../../../packages/server/src/core/store/append.js'
import { lockHead } from '../../../packages/server/src/core/store/audit.js'
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
const makeTenant = async (name: string) => {
  const { tenant_id } = await createTenant(services, { name, envelope_only: true })
  const state = await services.states.find(tenant_id)
  if (!state) throw new Error('the tenant was not found')
  const decide = async () => undefined
  return { tenant_id, auditKey: state.auditKey, policy_version: state.policy_version, decide }
}
// A tenant each: the committer would take the other writer's entries for another process's.
const grouped = await makeTenant('grouped')
const naive = await makeTenant('naive')
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
    committer: () =>
      perSecond(callers, async () => {
        await services.committer.append({ ...grouped, entries: [draft] })
      }),
    naive: () => perSecond(callers, appendAlone),
    'committer, 1 caller': () =>
      perSecond(1, async () => {
        await services.committer.append({ ...grouped, entries: [draft] })
      }),
  },
  { rounds },
)
await installation.close()
console.log(`RESULT ${JSON.stringify(measured)}`)

async function appendAlone(): Promise<void> {
  await services.sql.begin(async (sql) => {
    const head = await lockHead(sql, naive.tenant_id)
    if (!head) throw new Error('the head is missing')
    const time = Date.now()
    const { entries, head: next } = extendChain(head, [draft], { auditKey: naive.auditKey, now: time })
    await appendEntries(sql, { previous: head, next, entries, clock: { time, toleranceMs: Number.POSITIVE_INFINITY } })
  })
}

async function perSecond(count: number, task: () => Promise<void>): Promise<number> {
  const startedAt = performance.now()
  const end = startedAt + seconds * 1_000
  let done = 0
  const loop = async () => {
    while (performance.now() < end) {
      await task()
      done += 1
    }
  }
  await Promise.all(Array.from({ length: count }, loop))
  return (done * 1_000) / (performance.now() - startedAt)
}
