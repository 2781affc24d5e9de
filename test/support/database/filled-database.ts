// Databases that a run fills once: tests that start from their content get copies, which take a tenth of the CPU time
// of filling.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { inject } from 'vitest'
import type { NewTenant } from '../../../packages/server/src/operators/tenants.js'
import { madeOnce } from '../run/made-once.js'
import { ROOT_KEY } from '../service/eaas-process.js'
import { type Service, type ServiceOptions, startService } from '../service/service.js'
import { backend, databaseOfRun, freshDatabase, isPooled, originalOf, type TestDatabase } from './database.js'

const FILLED = 'filled.json'

/**
 * Returns a copy of a database that the run fills once, and what `fill` returned.
 * @param name the database's name among those of the run; letters, digits and `_`
 * @param fill fills it through a service that is closed afterwards; its result is kept as JSON
 */
export async function copyOfFilled<Filled>(
  name: string,
  fill: (service: Service) => Promise<Filled>,
  options: Pick<ServiceOptions, 'now' | 'environment'> = {},
): Promise<{ database: TestDatabase; filled: Filled }> {
  const project = isPooled() ? 'pooled' : backend()
  const folder = await madeOnce(inject('runDir'), `${name}-${project}`, async (draft) => {
    const made = await databaseOfRun(name, { migrated: true })
    // A pooler keeps sessions, and PostgreSQL copies no database that has one.
    const database = made.backend === 'postgres' ? { ...made, url: made.directUrl } : made
    const service = await startService({ ...options, database })
    try {
      const written = { original: originalOf(database), filled: await fill(service) }
      writeFileSync(join(draft, FILLED), JSON.stringify(written), { mode: 0o600 })
    } finally {
      await service.close()
    }
  })
  const { original, filled }: { original: string; filled: Filled } = JSON.parse(
    readFileSync(join(folder, FILLED), 'utf8'),
  )
  return { database: await freshDatabase(name, { copyOf: original }), filled }
}

/** Returns a database with an installation of the root key of processes, and its only tenant: acme, for envelopes only. */
export async function databaseWithTenant(): Promise<NewTenant & { database: TestDatabase }> {
  const { database, filled } = await copyOfFilled(
    'acme',
    async (service) => (await service.createTenant({ name: 'acme' })).tenant,
    { environment: { EAAS_ROOT_KEY: ROOT_KEY } },
  )
  return { ...filled, database }
}
