/** Verifies the tenant's audit chain in the database. Writes no entry. */

import {
  type Checkpoint,
  CheckpointError,
  OtherSignerError,
  type PublicKeys,
  readCheckpoint,
} from '@eaas/audit/formats'
import type { wire } from '@eaas/protocol'
import { findNamedEnd } from '../../guard/recorded-tenants.js'
import { AnchorFault, readAnchor } from '../../guard/watch/newest-anchor.js'
import type { AuditKey } from '../audit/formats/chain.js'
import { isHeadAuthentic, type Witness } from '../audit/formats/chain.js'
import { LATER_KEY } from '../recovery-page.js'
import type { Operation, Services } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import { findHead } from '../store/audit.js'
import type { Sql } from '../store/db.js'

export interface VerifyScope {
  /** only the entries after this id */
  after_id?: number | undefined
  /** only the entries up to this id */
  through_id?: number | undefined
  /** a signed checkpoint that was kept from earlier */
  checkpoint?: string | undefined
  /** the keys that may have signed it; by default those of the installation */
  signers?: PublicKeys | undefined
  onProgress?: ((entries: number) => void) | undefined
  /** aborted when no caller waits for the answer any more */
  signal?: AbortSignal | undefined
}

/**
 * Verifies the tenant's chain. @throws Refusal E_VALIDATION, E_UNAVAILABLE when too many verifications run
 */
export function verifyAudit({ checkpoint, signers, signal, ...scope }: VerifyScope): Operation<wire.Verification> {
  return async ({ state, services }) => {
    const { auditKey } = state
    const { tenant_id } = state.tenant
    const keys = signers ?? services.signingKey.publicKeys
    const kept = checkpoint === undefined ? undefined : readKeptCheckpoint(checkpoint, tenant_id, keys)
    const { after_id, through_id } = scope
    return {
      entries: [],
      freshness: 'as_found',
      async release() {
        await assertStretch(services.sql, { tenant_id, auditKey, ...scope })
        const alarmed = services.committer.watches.get(tenant_id).alarm?.witness
        const shared = JSON.stringify([
          after_id ?? null,
          through_id ?? null,
          checkpoint ?? null,
          alarmed?.last_id ?? null,
        ])
        return services.shareVerification({ tenant_id, scope: shared, signal }, async (gone) => {
          const witnessed = alarmed ?? (await findAnchored(services, tenant_id))
          const named = await findNamedEnd(services.sql, tenant_id)
          const options = { tenant_id, auditKey, checkpoint: kept, witnessed, named, ...scope, signal: gone }
          return services.verifyLog(options)
        })
      },
    }
  }
}

// A newest anchor that is not as the server wrote it raises an alarm elsewhere; here it says nothing about the tenant.
async function findAnchored({ sql, installationKey }: Services, tenant_id: string): Promise<Witness | undefined> {
  try {
    const anchor = await readAnchor(sql, installationKey)
    return anchor?.heads.find((head) => head.tenant_id === tenant_id)
  } catch (error) {
    if (error instanceof AnchorFault) return undefined
    throw error
  }
}

// Does not trust a forged head about the end of the log; the verification reports the forgery.
async function assertStretch(
  sql: Sql,
  { tenant_id, auditKey, after_id = 0, through_id }: { tenant_id: string; auditKey: AuditKey } & VerifyScope,
): Promise<void> {
  if (through_id !== undefined && after_id >= through_id) {
    throw new Refusal('E_VALIDATION', 'through_id must be greater than after_id')
  }
  const head = await findHead(sql, tenant_id)
  if (head && isHeadAuthentic(auditKey, head) && after_id > head.last_id) {
    throw new Refusal('E_VALIDATION', `after_id: the log ends at ${head.last_id}`)
  }
}

/** Reads a checkpoint of a log that was kept from earlier. @throws Refusal E_VALIDATION */
export function readKeptCheckpoint(note: string, tenant_id: string, signers: PublicKeys): Checkpoint {
  try {
    const kept = readCheckpoint(note, signers)
    if (kept.tenant_id !== tenant_id) throw new CheckpointError('the checkpoint belongs to another tenant')
    return kept
  } catch (error) {
    if (!(error instanceof CheckpointError)) throw error
    const advice = error instanceof OtherSignerError ? `. ${LATER_KEY}` : ''
    throw new Refusal('E_VALIDATION', `checkpoint: ${error.message}${advice}`)
  }
}
