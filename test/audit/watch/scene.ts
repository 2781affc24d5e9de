// A tenant with an earlier head and a last one, and other processes on its database: each has witnessed the last head, and reads and writes
// alarms as a server does.

import { afterAll, beforeAll, beforeEach } from 'vitest'
import { openAuditKey } from '../../../packages/server/src/core/audit/audit-key.js'
import type { AuditKey } from '../../../packages/server/src/core/audit/formats/chain.js'
import { alarmMac, type Head } from '../../../packages/server/src/core/audit/formats/chain.js'
import { findHead } from '../../../packages/server/src/core/store/audit.js'
import { listAlarms, writeAlarm } from '../../../packages/server/src/guard/store/alarms.js'
import { Comparisons } from '../../../packages/server/src/guard/watch/comparisons.js'
import { HeadWatches } from '../../../packages/server/src/guard/watch/head-watch.js'
import { createSharedAlarms } from '../../../packages/server/src/guard/watch/shared-alarms.js'
import { type Caller, type Service, startService } from '../../support/service/service.js'

/** Makes the scene once for a file. Before each test the tenant's alarms are deleted. */
export function setWatchScene() {
  let service: Service
  let owner: Caller
  let auditKey: AuditKey
  let early: Head
  let late: Head

  beforeAll(async () => {
    service = await startService()
    owner = await service.createTenant()
    early = await readHead()
    await owner.call('POST', '/v1/keys', { name: 'k' })
    late = await readHead()
    const state = await service.services.states.find(owner.tenant.tenant_id)
    if (!state) throw new Error('no state')
    auditKey = state.auditKey
  })
  afterAll(() => service?.close())
  beforeEach(() => deleteRow())

  async function readHead(tenant_id = owner.tenant.tenant_id): Promise<Head> {
    const found = await findHead(service.services.sql, tenant_id)
    if (!found) throw new Error('no head')
    return found
  }

  /** The watch of another process on this database, which witnessed the last head. */
  function newWatch({
    findAuditKey = async (): Promise<AuditKey | undefined> => auditKey,
    isGone = async () => false,
    onGoneAccepted = (_: string): void => undefined,
    acceptedRows = [] as string[],
    comparisons = new Comparisons(),
    sql = service.services.sql,
  } = {}) {
    const { now, installationKey, storeKeys, states } = service.services
    const watches = new HeadWatches(() => undefined, comparisons)
    const watch = watches.get(owner.tenant.tenant_id)
    watch.witness(late)
    const isOwner = (tenant_id: string) => tenant_id === owner.tenant.tenant_id
    const alarms = createSharedAlarms({
      sql,
      watches,
      assertSessions: async () => undefined,
      installationKey,
      findAuditKey: async (id) => (isOwner(id) ? findAuditKey() : (await states.find(id))?.auditKey),
      openKey: (row) => openAuditKey(storeKeys, row),
      isGone: async (id) => isOwner(id) && isGone(),
      onGoneAccepted,
      onAcceptedRow: (id) => void acceptedRows.push(id),
      now,
    })
    return { watch, watches, acceptedRows, alarms, compare: () => alarms.compare({ findsUnseen: true }) }
  }

  /** Writes the alarm of a server that witnessed this head. */
  async function write({ last_id, hash, policy_version }: Head, { forged = false } = {}): Promise<void> {
    const { tenant_id } = owner.tenant
    const raised_at = new Date(service.services.now()).toISOString()
    const alarm = { tenant_id, reason: 'it went back', last_id, hash, policy_version, raised_at }
    const mac = forged ? new Uint8Array(32) : alarmMac(auditKey, alarm)
    await writeAlarm(service.services.sql, { ...alarm, mac })
  }

  async function deleteRow(): Promise<void> {
    await service.services.sql`delete from chain_alarms where tenant_id = ${owner.tenant.tenant_id}`
  }

  /** The rows of the tenant's alarms, each with whether its MAC is that of a key. */
  async function rowsBy(key: AuditKey): Promise<[last_id: number, isGenuine: boolean][]> {
    const rows = (await listAlarms(service.services.sql)).filter(
      ({ tenant_id }) => tenant_id === owner.tenant.tenant_id,
    )
    return rows.map((row) => [row.last_id, Buffer.from(alarmMac(key, row)).equals(Buffer.from(row.mac))])
  }

  /** A head that a process saw and the database has lost. */
  const lost = (): Head => ({ ...late, last_id: late.last_id + 1, hash: new Uint8Array(32) })

  /** Takes the head that the tenant has now as its last one. */
  async function readLate(): Promise<void> {
    late = await readHead()
  }

  return {
    get service() {
      return service
    },
    get services() {
      return service.services
    },
    get sql() {
      return service.services.sql
    },
    get owner() {
      return owner
    },
    get tenant_id() {
      return owner.tenant.tenant_id
    },
    get auditKey() {
      return auditKey
    },
    get early() {
      return early
    },
    get late() {
      return late
    },
    readHead,
    readLate,
    newWatch,
    write,
    deleteRow,
    rowsBy,
    lost,
  }
}

export const idOf = (witness: { last_id: number } | undefined) => witness?.last_id
