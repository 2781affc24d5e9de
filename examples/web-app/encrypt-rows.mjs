// Encrypts the rows from before the application encrypted, while it runs. May be killed, and run as often as you like.
import { backfill, inspectTable, postgresTable } from '@eaas/cli/backfill'

/** @import { Database } from './database.mjs' */
/** @import { defineUsers } from './schema.mjs' */

/**
 * The table of the users, for what works through all of it.
 *
 * @param {Pick<Database, 'query'>} database
 */
export function usersTable({ query }) {
  return postgresTable(query, 'users', { columns: { emailIndex: 'email_index' } })
}

/**
 * @param {Pick<Database, 'query'>} database
 * @param {{ migrating: ReturnType<typeof defineUsers>, strict: ReturnType<typeof defineUsers> }} models the model with `acceptPlaintext`, and without
 * @param {AbortSignal} signal
 * @returns {Promise<{ encrypted: number, left: number }>} `left` must be 0 before the application runs without `acceptPlaintext`
 */
export async function encryptRows(database, { migrating, strict }, signal) {
  const { changed, failures } = await backfill(migrating, usersTable(database), {
    signal,
    rowsPerSecond: 2_000, // what the database can spare
    onProgress: ({ rows, total, secondsLeft }) => {
      if (secondsLeft) console.error(`${rows} of ${total} rows, ${secondsLeft} s left`)
    },
  })
  // Such as two users with one address: they stay as they were until the operator decides. A failure holds no value.
  for (const { key, field, message } of failures) console.error(`row ${key}, ${field}: ${message}`)
  // Opens every row, and compares its index.
  const { found, failed } = await inspectTable(strict, usersTable(database), { open: true, signal })
  return { encrypted: changed, left: found.left + failed }
}
