// An installation whose whole database went back: what was lost, the checkpoints that know of it, and the exports that have it.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { anchorNow } from '../../../packages/server/src/guard/anchor-heads.js'
import { createCheckpointEmitter } from '../../../packages/server/src/guard/jobs/emit-checkpoints.js'
import { copyTables, restoreTables, type Scene } from '../../support/audit/audit-scene.js'
import { runCommand } from '../../support/service/command-host.js'
import { type Caller, ROOT_KEY, type Service, startService } from '../../support/service/service.js'

export interface RolledBack {
  service: Service
  tenants: { caller: Caller; tenant_id: string }[]
  /** the checkpoint file of a server that saw everything */
  checkpoints: string
  /** the export of each tenant's log from before the rollback, by its name */
  exportOf(name: string): string
  /** Runs a command with that file. */
  eaas: (...args: string[]) => ReturnType<typeof runCommand>
}

/**
 * Makes tenants of these names, and takes the database back to before the changes.
 * @param change what each tenant loses
 */
export async function rolledBack(
  folder: string,
  names: readonly string[],
  {
    prepare = async () => undefined,
    change,
  }: {
    prepare?: (caller: Caller, name: string) => Promise<unknown>
    change: (caller: Caller, name: string) => Promise<unknown>
  },
): Promise<RolledBack> {
  const service = await startService()
  const sql = service.services.sql as unknown as Scene['sql']
  const checkpoints = join(folder, 'checkpoints')
  const exportOf = (name: string) => join(folder, `${name}.ndjson`)
  const tenants: RolledBack['tenants'] = []
  for (const name of names) {
    const caller = await service.createTenant({ name })
    tenants.push({ caller, tenant_id: caller.tenant.tenant_id })
    await prepare(caller, name)
  }
  await copyTables(sql, 'early')
  for (const [at, { caller }] of tenants.entries()) await change(caller, names[at] ?? '')
  for (const [at, { caller }] of tenants.entries()) {
    await writeFile(exportOf(names[at] ?? ''), (await caller.call('GET', '/v1/audit/export')).body)
  }
  await anchorNow(service.services)
  await createCheckpointEmitter(service.services, checkpoints, (error) => {
    throw error
  })()
  await copyTables(sql, 'late')
  await restoreTables(sql, 'early')
  const options = {
    database: service.database,
    rootKey: ROOT_KEY,
    environment: { EAAS_CHECKPOINT_FILE: checkpoints },
  }
  return { service, tenants, checkpoints, exportOf, eaas: (...args) => runCommand(args, options) }
}
