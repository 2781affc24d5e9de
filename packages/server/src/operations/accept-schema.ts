/** Accepts how the tables differ from what the migrations make. Called by the operator; has no route. */
import { findAcceptedSchema, SCHEMA_ACCEPTED } from '../audit/watch/acceptances.js'
import { MIGRATIONS_DIRECTORY } from '../migrations-directory.js'
import { recordAlone } from '../runner/installation-log.js'
import type { Services } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import { compareSchemas } from '../store/migrations.js'
import { compareTables, type SchemaDifferences } from '../store/schema.js'

/** What was accepted, and in which entry of the installation's log. */
export interface SchemaAcceptance extends Pick<SchemaDifferences, 'missing' | 'added' | 'refusing' | 'digest'> {
  entry_id: number
}

/**
 * Records that an operator accepts the differences as they are now: servers and `eaas doctor` raise no alarm
 * about them until one changes.
 *
 * @throws Refusal E_STATE if there is nothing to accept, or the installation's log is alarmed about;
 * SchemaVersionError
 */
export async function acceptSchema(services: Services, { reason }: { reason: string }): Promise<SchemaAcceptance> {
  const { sql, installationKey } = services
  await compareSchemas(sql, MIGRATIONS_DIRECTORY)
  const { missing, added, refusing, digest } = await compareTables(sql, MIGRATIONS_DIRECTORY)
  const differences = missing.length + added.length + refusing.length
  if (differences === 0) {
    throw new Refusal('E_STATE', 'the tables differ in nothing that needs to be accepted')
  }
  const known = await findAcceptedSchema(sql, installationKey, { digest })
  if (known) throw new Refusal('E_STATE', `entry ${known.entry_id} of the installation's log accepts these differences`)
  const metadata = { digest, differences, reason }
  const { last_id } = await recordAlone(services, [{ action: SCHEMA_ACCEPTED, metadata }])
  return { missing, added, refusing, digest, entry_id: last_id }
}
