/** Asks the witnesses what they cosigned, for `eaas doctor`. */

import { readWitnessKey } from '@eaas/audit'
import { INSTALLATION_ID } from '@eaas/protocol'
import type { Config } from '../../core/config.js'
import type { StoreKeys } from '../../core/crypto/key-hierarchy.js'
import { findHead } from '../../core/store/audit.js'
import type { Sql } from '../../core/store/db.js'
import { compareWithWitnesses, WITNESS_TIMEOUT_MS, type WitnessOutcome } from '../../guard/jobs/ask-witnesses.js'
import { findOwnInstance, openInstallationKey, openSigningKey } from '../../installation-secrets.js'
import type { Result } from './finding.js'

/** Compares the installation's log with what each witness cosigned last, without asking any to cosign more. */
export async function examineWitnesses(
  sql: Sql,
  storeKeys: StoreKeys,
  addresses: Config['witnesses'],
): Promise<Result> {
  const witnesses = addresses.map(({ key, url }) => ({ key: readWitnessKey(key), url }))
  const instance = await findOwnInstance(sql)
  const head = await findHead(sql, INSTALLATION_ID)
  if (!instance || !head) return { detail: 'the database is new' }
  const signingKey = await openSigningKey(sql, storeKeys, instance)
  const options = { witnesses, timeoutMs: WITNESS_TIMEOUT_MS }
  const installationKey = await openInstallationKey(sql, storeKeys)
  const outcomes = await compareWithWitnesses({ sql, signingKey, installationKey }, head, options)
  const named = (...kinds: WitnessOutcome['kind'][]) =>
    outcomes.flatMap(({ witness, kind, detail }) => (kinds.includes(kind) ? [`${witness}: ${detail}`] : [])).join('; ')
  const contradicted = named('contradicted')
  if (contradicted !== '') {
    const remedy =
      'The database went back or was rewritten, or the witness is wrong: compare with a checkpoint that is kept elsewhere ' +
      '(eaas audit verify --all --checkpoint)'
    return { ok: false, detail: `${contradicted}. ${remedy}` }
  }
  const failed = named('failed')
  if (failed !== '') return { warning: true, detail: failed }
  return { detail: `agree with the installation's log, by what they cosigned last: ${named('cosigned', 'overtaken')}` }
}
