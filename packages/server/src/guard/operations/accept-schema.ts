/** Accepts how the tables differ from what the migrations make. Called by the operator; has no route. */
import { INSTALLATION_ID } from '@eaas/protocol'
import * as z from 'zod/mini'
import type { AuditKey } from '../../core/audit/formats/chain.js'
import { readAuthenticEntry } from '../../core/audit/read-entry.js'
import type { Services } from '../../core/runner/operation.js'
import { Refusal } from '../../core/runner/refusal.js'
import type { Queryable } from '../../core/store/db.js'
import { compareSchemas } from '../../core/store/migrations.js'
import { MIGRATIONS_DIRECTORY } from '../../migrations-directory.js'
import { recordAlone } from '../installation-log.js'
import { listAcceptanceIds } from '../store/alarms.js'
import { compareTables, type SchemaDifferences } from '../store/schema.js'

const SCHEMA_ACCEPTED = 'installation.schema_accepted'

/** What was accepted, and in which entry of the installation's log. */
export interface SchemaAcceptance extends Pick<SchemaDifferences, 'missing' | 'added' | 'refusing' | 'digest'> {
  entry_id: number
}

/**
 * Records that an operator accepts the differences as they are now: servers and `eaas doctor` raise no alarm about them
 * until one changes.
 *
 * @throws Refusal E_STATE if there is nothing to accept, or if there is an alarm about the installation's log;
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

const schemaMetadata = z.looseObject({ digest: z.string(), reason: z.string() })

/** Who accepted the differences, when and why. */
export interface AcceptedSchema {
  entry_id: number
  actor: string
  created_at: string
  reason: string
}

/**
 * Finds the acceptance of exactly these differences. Only the newest acceptance counts: differences that an earlier one
 * accepted and that were undone are not accepted again. Undefined without differences.
 */
export async function findAcceptedSchema(
  sql: Queryable,
  auditKey: AuditKey,
  { digest }: Pick<SchemaDifferences, 'digest'>,
): Promise<AcceptedSchema | undefined> {
  if (digest === '') return undefined
  for (const id of await listAcceptanceIds(sql, INSTALLATION_ID, SCHEMA_ACCEPTED)) {
    const entry = await readAuthenticEntry(sql, { tenant_id: INSTALLATION_ID, auditKey, id })
    // The column by which it was found proves nothing.
    if (entry?.action !== SCHEMA_ACCEPTED) continue
    const accepted = schemaMetadata.safeParse(JSON.parse(entry.metadata ?? '{}')).data
    if (accepted?.digest !== digest) return undefined
    return { entry_id: id, actor: entry.actor, created_at: entry.created_at, reason: accepted.reason }
  }
  return undefined
}
