// Rotates the key and rewraps the stored rows under its new version. Run it as often as you like while the application
// runs: current rows cost nothing.
import { backfill } from '@eaas/cli/backfill'
import { usersTable } from './encrypt-rows.mjs'

/** @import { Client } from '@eaas/sdk' */
/** @import { Database } from './database.mjs' */
/** @import { defineUsers } from './schema.mjs' */

/**
 * @param {Pick<Database, 'query'>} database
 * @param {{ eaas: Client, keyId: string, model: ReturnType<typeof defineUsers> }} encryption
 * @param {AbortSignal} signal
 * @returns {Promise<{ version: number, rewrapped: number, left: number }>} `left`: rows that failed, or that others changed each time; run it again
 */
export async function rotate(database, { eaas, keyId, model }, signal) {
  const { current_version } = await eaas.keys.rotate(keyId, { signal })
  // Changes only wrapped keys: no value is decrypted or encrypted anew. A row that changes meanwhile is read again.
  const { changed, failed, contended } = await backfill(model, usersTable(database), { work: 'rewrap', signal })
  return { version: current_version, rewrapped: changed, left: failed + contended }
}
