/** Entries of action `installation.schema_accepted`: an operator accepted how the tables differ from what the migrations make (anchor.md 2). */
import type { KeyObject } from 'node:crypto'
import { INSTALLATION_ID } from '@eaas/protocol'
import * as z from 'zod/mini'
import { listAcceptanceIds } from '../../store/alarms.js'
import type { Queryable } from '../../store/db.js'
import type { SchemaDifferences } from '../../store/schema.js'
import { readAuthenticEntry } from '../read-entry.js'

export const SCHEMA_ACCEPTED = 'installation.schema_accepted'

const metadataSchema = z.looseObject({ digest: z.string(), reason: z.string() })

/** Who accepted the differences, when and why. */
export interface AcceptedSchema {
  entry_id: number
  actor: string
  created_at: string
  reason: string
}

/**
 * Finds the acceptance of these very differences: the newest one, because what was accepted before it and undone is not accepted again.
 * Undefined without differences.
 */
export async function findAcceptedSchema(
  sql: Queryable,
  auditKey: KeyObject,
  { digest }: Pick<SchemaDifferences, 'digest'>,
): Promise<AcceptedSchema | undefined> {
  if (digest === '') return undefined
  for (const id of await listAcceptanceIds(sql, INSTALLATION_ID, SCHEMA_ACCEPTED)) {
    const entry = await readAuthenticEntry(sql, { tenant_id: INSTALLATION_ID, auditKey, id })
    // The column by which it was found proves nothing.
    if (entry?.action !== SCHEMA_ACCEPTED) continue
    const accepted = metadataSchema.safeParse(JSON.parse(entry.metadata ?? '{}')).data
    if (accepted?.digest !== digest) return undefined
    return { entry_id: id, actor: entry.actor, created_at: entry.created_at, reason: accepted.reason }
  }
  return undefined
}
