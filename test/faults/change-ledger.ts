// Clients change things by two servers on one database; the answers that they got are checked against the rows of that database.
import { randomBytes } from 'node:crypto'
import type { TestDatabase } from '../support/database/database.js'
import { connectTo } from '../support/service/eaas-process.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

export interface LedgerRun {
  /** changes that were acknowledged */
  acknowledged: number
  /** wraps that were answered with a wrapped key */
  released: number
  /** acknowledged changes that the database does not have, each as a sentence */
  missing: string[]
  /** answers that were neither a success nor a refusal to try again */
  surprises: string[]
}

interface Ledger {
  keys: Set<string>
  versions: Map<string, number>
  apiKeys: Set<string>
  revoked: Set<string>
  wraps: number
  changes: number
}

/**
 * Makes changes by two servers at once until enough of them are acknowledged: keys, rotations, API keys, revocations, with wraps
 * in between. The clients keep the ledger; afterwards the database is read directly.
 */
export async function keepLedger({
  changes,
  tenants,
  databases = [],
}: {
  changes: number
  tenants: number
  /** as each of the servers reaches it; a fresh one by default */
  databases?: readonly TestDatabase[]
}): Promise<LedgerRun> {
  const [database, throughOther = database] = databases
  const one = await startService(database && { database })
  const other = await startService({ database: throughOther ?? one.database })
  try {
    const surprises: string[] = []
    const owners = await Promise.all(Array.from({ length: tenants }, () => one.createTenant()))
    const ledgers = await Promise.all(
      owners.map((owner) => changeUntil(Math.ceil(changes / tenants), [owner, other.caller(owner.secret)], surprises)),
    )
    const missing = await findMissing(one, owners, ledgers)
    const count = (of: (ledger: Ledger) => number) => ledgers.reduce((sum, ledger) => sum + of(ledger), 0)
    return { acknowledged: count((of) => of.changes), released: count((of) => of.wraps), missing, surprises }
  } finally {
    await other.close()
    await one.close()
  }
}

async function changeUntil(changes: number, callers: readonly [Caller, Caller], surprises: string[]): Promise<Ledger> {
  const ledger: Ledger = {
    keys: new Set(),
    versions: new Map(),
    apiKeys: new Set(),
    revoked: new Set(),
    wraps: 0,
    changes: 0,
  }
  // Two clients for each tenant, one at each server, so that both write its chain.
  await Promise.all(callers.map((caller) => client(caller)))
  return ledger

  async function client(caller: Caller): Promise<void> {
    const note = (status: number, body: { code?: string } | undefined, done: () => void) => {
      if (status < 300) done()
      else if (status < 500) surprises.push(`${status} ${JSON.stringify(body)}`)
    }
    const changed = () => {
      ledger.changes += 1
    }
    for (let n = 0; ledger.changes < changes && surprises.length < 10; n++) {
      const key = await caller.call('POST', '/v1/keys', { name: `key ${randomBytes(6).toString('hex')}` })
      note(key.status, key.body, () => {
        changed()
        ledger.keys.add(key.body.id)
        ledger.versions.set(key.body.id, 1)
      })
      const name = `client ${randomBytes(6).toString('hex')}`
      const apiKey = await caller.call('POST', '/v1/api-keys', { name, permissions: ['encrypt'] })
      note(apiKey.status, apiKey.body, () => {
        changed()
        ledger.apiKeys.add(apiKey.body.id)
      })
      if (key.status === 201) {
        const rotated = await caller.call('POST', `/v1/keys/${key.body.id}/rotate`)
        note(rotated.status, rotated.body, () => {
          changed()
          ledger.versions.set(key.body.id, 2)
        })
        const dek = randomBytes(32).toString('base64')
        const wrapped = await caller.call('POST', `/v1/keys/${key.body.id}/wrap`, { dek })
        note(wrapped.status, wrapped.body, () => {
          ledger.wraps += 1
        })
      }
      if (apiKey.status === 201 && n % 2 === 0) {
        const revoked = await caller.call('DELETE', `/v1/api-keys/${apiKey.body.id}`)
        note(revoked.status, revoked.body, () => {
          changed()
          ledger.revoked.add(apiKey.body.id)
        })
      }
    }
  }
}

async function findMissing(service: Service, owners: readonly Caller[], ledgers: readonly Ledger[]): Promise<string[]> {
  const sql = connectTo(service.database)
  try {
    const missing: string[] = []
    for (const [at, { tenant }] of owners.entries()) {
      const ledger = ledgers[at]
      if (!ledger) throw new Error('a tenant without a ledger')
      const { tenant_id } = tenant
      const keys = await sql`select key_id, current_version from keys where tenant_id = ${tenant_id}`
      const versionOf = new Map(keys.map((row) => [row.key_id, row.current_version]))
      const apiKeys = await sql`select api_key_id, revoked_at from api_keys where tenant_id = ${tenant_id}`
      const apiKeyOf = new Map(apiKeys.map((row) => [row.api_key_id, row]))
      const entries =
        await sql`select action, count(*)::integer as n from audit_log where tenant_id = ${tenant_id} group by 1`
      const entriesOf = new Map(entries.map((row) => [row.action, row.n]))
      for (const [key_id, version] of ledger.versions)
        if ((versionOf.get(key_id) ?? 0) < version) missing.push(`key ${key_id} in version ${version}`)
      for (const id of ledger.apiKeys) if (!apiKeyOf.has(id)) missing.push(`API key ${id}`)
      for (const id of ledger.revoked) if (!apiKeyOf.get(id)?.revoked_at) missing.push(`revocation of API key ${id}`)
      for (const [action, n] of [
        ['key.wrap', ledger.wraps],
        ['key.create', ledger.keys.size],
      ] as const)
        if ((entriesOf.get(action) ?? 0) < n) missing.push(`${n} entries ${action}, got ${entriesOf.get(action)}`)
    }
    return missing
  } finally {
    await sql.end()
  }
}
