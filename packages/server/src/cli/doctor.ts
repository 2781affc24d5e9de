/** `eaas doctor`: looks at everything that a start needs and an auditor will ask for, changes nothing, says what to do. */
import type { KeyObject } from 'node:crypto'
import { existsSync } from 'node:fs'
import { equalBytes, isHeadAuthentic } from '../audit/chain.js'
import { authentic, tenantMac } from '../audit/row-mac.js'
import type { Config } from '../config.js'
import { deriveRowKey, openSecret } from '../crypto/key-hierarchy.js'
import { readRootKey } from '../crypto/root-key.js'
import { findRootKey, openSecrets } from '../installation.js'
import { findEntryHash, findHead } from '../store/audit.js'
import type { Sql } from '../store/db.js'
import { findInstance } from '../store/instance.js'
import { findSchemaVersion } from '../store/migrations.js'
import { openStore, type Store } from '../store/open-store.js'
import { findClock } from '../store/settings.js'
import { listTenants, type TenantRow } from '../store/tenants.js'
import { print, printJson } from './output.js'

/** A clock this far from the database's or behind the log makes expiries and policies wrong, in milliseconds. */
const CLOCK_TOLERANCE_MS = 60_000

interface Finding {
  check: string
  ok: boolean
  /** what was seen, and what to do where it is not well */
  detail: string
}

/** Prints the findings; returns whether all is well. */
export async function doctor(config: Config, { json }: { json: boolean }): Promise<boolean> {
  const findings = await examine(config)
  const isWell = findings.every(({ ok }) => ok)
  if (json) printJson({ ok: isWell, findings })
  else {
    print(...findings.map(({ check, ok, detail }) => `${ok ? 'ok   ' : 'WRONG'}  ${check.padEnd(12)}  ${detail}`))
    print('', isWell ? 'All is well.' : 'Something is wrong: see above.')
  }
  return isWell
}

async function examine(config: Config): Promise<Finding[]> {
  const findings: Finding[] = []
  const look = async <T>(check: string, work: () => Promise<{ detail: string; found?: T; ok?: boolean }>) => {
    try {
      const { detail, found, ok = true } = await work()
      findings.push({ check, ok, detail })
      return found
    } catch (error) {
      findings.push({ check, ok: false, detail: error instanceof Error ? error.message : String(error) })
      return undefined
    }
  }

  if (config.databaseUrl === undefined && !existsSync(config.dataDir)) {
    return [{ check: 'database', ok: true, detail: `there is none in ${config.dataDir} yet; eaas start makes one` }]
  }
  const store = await look('database', async () => {
    const opened = await openStore(config, { beside: true })
    return { found: opened, detail: `${opened.description}, schema ${await findSchemaVersion(opened.sql)}` }
  })
  if (!store) return findings
  try {
    await look('durability', async () => examineDurability(store))
    await look('clock', () => examineClock(store.sql))
    const rootKey = await look('root key', () => examineRootKey(store, config))
    if (rootKey) await look('audit chains', () => examineChains(store.sql, rootKey))
  } finally {
    await store.close()
  }
  return findings
}

function examineDurability({ durability, isEmbedded }: Store) {
  if (durability === 'synchronous') return { detail: 'a commit is on disk when it is acknowledged' }
  const remedy = isEmbedded
    ? 'use PostgreSQL where a power cut must lose nothing'
    : 'set fsync, full_page_writes and synchronous_commit to on'
  return { ok: false, detail: `a power cut can lose acknowledged audit entries: ${remedy}` }
}

async function examineClock(sql: Sql) {
  const { database_now, newest_entry } = await findClock(sql)
  const apart = Date.now() - Date.parse(database_now)
  if (Math.abs(apart) > CLOCK_TOLERANCE_MS) {
    return {
      ok: false,
      detail: `this clock and the database's are ${Math.round(apart / 1_000)} s apart: run NTP on both`,
    }
  }
  if (newest_entry !== null && Date.parse(newest_entry) - Date.now() > CLOCK_TOLERANCE_MS) {
    return { ok: false, detail: `the newest audit entry is of ${newest_entry}, in the future: set this clock` }
  }
  return { detail: `agrees with the database's, newest audit entry ${newest_entry ?? 'none'}` }
}

async function examineRootKey(store: Store, config: Config) {
  const instance = await findInstance(store.sql)
  if (!instance) return { detail: 'the database is new: the first start makes what it needs' }
  const rootKey = await findRootKey(store, config, await readRootKey(config.rootKey))
  openSecrets(rootKey, instance)
  return { found: rootKey, detail: 'opens this database' }
}

async function examineChains(sql: Sql, rootKey: KeyObject) {
  const tenants = await listTenants(sql)
  const broken: string[] = []
  for (const tenant of tenants) {
    const fault = await findChainFault(sql, rootKey, tenant)
    if (fault) broken.push(`${tenant.name}: ${fault}`)
  }
  if (broken.length === 0) return { detail: `${tenants.length} heads are as the server wrote them` }
  return { ok: false, detail: `${broken.join('; ')}. Verify the log (GET /v1/audit/verify) and restore a backup` }
}

async function findChainFault(sql: Sql, rootKey: KeyObject, tenant: TenantRow): Promise<string | undefined> {
  const { tenant_id } = tenant
  const auditKey = openSecret(rootKey, { purpose: 'audit-key', tenant_id }, tenant.wrapped_audit_key)
  authentic(tenant, tenantMac, deriveRowKey(auditKey))
  const head = await findHead(sql, tenant_id)
  if (!head) return 'the head is missing'
  if (!isHeadAuthentic(auditKey, head)) return 'the head is forged'
  const last = await findEntryHash(sql, tenant_id, head.last_id)
  return last && equalBytes(last, head.hash) ? undefined : 'the head is not that of the last entry'
}
