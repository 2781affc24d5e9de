// Services that follow one another on one database, and a tenant of it whose rows are removed or put back.

import { INSTALLATION_ID } from '@eaas/protocol'
import { afterEach } from 'vitest'
import { listAudit, verifyAudit } from '../../../packages/server/src/core/api/audit.js'
import { openAuditKey } from '../../../packages/server/src/core/audit/audit-key.js'
import { performAsSystem } from '../../../packages/server/src/core/runner/perform.js'
import { type AnchorOptions, anchorNow } from '../../../packages/server/src/guard/anchor-heads.js'
import { compareWithAnchor } from '../../../packages/server/src/guard/watch/anchor-watch.js'
import { watchesOf } from '../../../packages/server/src/guard/watch/head-watch.js'
import { readAnchor } from '../../../packages/server/src/guard/watch/newest-anchor.js'
import { verifyAll } from '../../../packages/server/src/operate/jobs/verify-all.js'
import type { NewTenant } from '../../../packages/server/src/operators/tenants.js'
import type { TestDatabase } from '../../support/database/database.js'
import { copyOfFilled } from '../../support/database/filled-database.js'
import { columnsOf, insertFrom } from '../../support/database/migrations.js'
import { type Caller, type Service, type ServiceOptions, startService } from '../../support/service/service.js'

const TABLES = ['tenants', 'heads', 'audit_log', 'audit_counts', 'purge_marks', 'keys', 'key_versions', 'api_keys']

export interface InstallationScene {
  /** Starts the first service, or another one on the same database after closing the first, which has then witnessed nothing. */
  start(options?: Pick<ServiceOptions, 'migrations'>): Promise<Service>
  /** The service that runs. */
  current(): Service
  /** Starts a service on a new database with two tenants that have keys; `putBack` restores everything that the first one had before its last key. */
  twoTenants(): Promise<{ victim: Caller; other: Caller; putBack: () => Promise<void> }>
}

/** Makes a scene for each test of a file, and closes its service after the test. */
export function setInstallationScene(): InstallationScene {
  let service: Service | undefined
  let database: TestDatabase | undefined
  afterEach(async () => {
    await service?.close()
    service = undefined
    database = undefined
  })

  async function start(options: Pick<ServiceOptions, 'migrations'> = {}): Promise<Service> {
    await service?.close()
    service = undefined
    service = await startService({ ...options, ...(database && { database }) })
    database = service.database
    return service
  }

  function current(): Service {
    if (!service) throw new Error('there is no service')
    return service
  }

  async function twoTenants() {
    const { database: copied, filled } = await copyOfFilled('two_tenants', fillWithTwo)
    database = copied
    const running = await start()
    const [victim, other] = filled.map((tenant) => ({ ...running.caller(tenant.api_key.secret), tenant })) as [
      Caller,
      Caller,
    ]
    const putBack = async () => {
      const { sql } = current().services
      await removeAll(current(), victim.tenant.tenant_id)
      for (const table of TABLES) await sql.unsafe(insertFrom(table, `before.${table}`))
    }
    return { victim, other, putBack }
  }

  return { start, current, twoTenants }
}

/** Makes two tenants with keys; copies everything that the first one has; and both go on. */
async function fillWithTwo(service: Service): Promise<NewTenant[]> {
  const { sql } = service.services
  const tenants = [await service.createTenant({ name: 'victim' }), await service.createTenant({ name: 'other' })]
  const [victim] = tenants
  for (const { call } of tenants) await call('POST', '/v1/keys', { name: 'before' })
  await sql`create schema before`
  for (const table of TABLES)
    await sql`
      create table before.${sql(table)} as select * from ${sql(table)} where tenant_id = ${victim?.tenant.tenant_id ?? ''}`
  for (const { call } of tenants) await call('POST', '/v1/keys', { name: 'after' })
  return tenants.map(({ tenant }) => tenant)
}

/** A service, or a server beside it that has witnessed nothing. */
type Process = Pick<Service, 'services'>

export const anchor = ({ services }: Service, options?: AnchorOptions) => anchorNow(services, options)

/** Reads the first hundred entries of the installation's log. */
export async function entries({ services }: Service) {
  const page = { limit: 100, offset: 0, order: 'asc' as const }
  return (await performAsSystem(services, INSTALLATION_ID, listAudit({}, page))).logs as unknown as {
    id: number
    action: string
    actor: string
    metadata: Record<string, unknown>
  }[]
}

/** Reads the actions of the installation's log, without their prefix. */
export async function actions(of: Service): Promise<string[]> {
  return (await entries(of)).map(({ action }) => action.replace('installation.', ''))
}

export const verify = ({ services }: Service, tenant_id: string) =>
  performAsSystem(services, tenant_id, verifyAudit({}))

/** Verifies every log; returns the verdicts of those that are not valid. */
export const invalid = async ({ services }: Process) =>
  (await verifyAll(services)).verdicts.filter(({ valid }) => !valid)

/** Compares as a server does before each anchor; `meanwhile` happens once the anchored heads were read. */
export function compare({ services }: Process, meanwhile: () => Promise<unknown> = async () => undefined) {
  const { states, committer, storeKeys } = services
  return compareWithAnchor({
    ...services,
    watches: watchesOf(committer),
    findAuditKey: async (tenant_id) => {
      await meanwhile()
      return (await states.find(tenant_id))?.auditKey
    },
    openKey: (row) => openAuditKey(storeKeys, row),
  })
}

/** The head of a tenant that the newest anchor covers. */
export const coveredHead = async ({ services: { sql, installationKey } }: Process, tenant_id: string) =>
  (await readAnchor(sql, installationKey))?.heads.find((head) => head.tenant_id === tenant_id)

/** Copies all rows of a tenant; returns what inserts them again, by a service that runs then. */
export async function copyAll({ services: { sql } }: Service, tenant_id: string) {
  const copies: (readonly [string, Record<string, unknown>[]])[] = []
  for (const table of TABLES) {
    copies.push([table, await sql`select ${sql(columnsOf(table))} from ${sql(table)} where tenant_id = ${tenant_id}`])
  }
  return async ({ services: { sql } }: Service) => {
    for (const [table, rows] of copies) if (rows.length > 0) await sql`insert into ${sql(table)} ${sql(rows)}`
  }
}

/** Deletes all rows of a tenant, as someone who has the database can. */
export const removeAll = ({ services: { sql } }: Service, tenant_id: string) =>
  sql.begin(async (transaction) => {
    for (const table of TABLES) await transaction`delete from ${sql(table)} where tenant_id = ${tenant_id}`
  })
