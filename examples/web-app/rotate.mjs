// Rotates the key and brings the stored rows to its new version. Run it as often as you like, beside the application: rows that are current cost nothing.
import { and, asc, eq, gt, isNull } from 'drizzle-orm'
import { users } from './schema.mjs'

/** @import { Client } from '@eaas/sdk' */
/** @import { Database } from './database.mjs' */
/** @import { defineUsers } from './schema.mjs' */

const PAGE_ROWS = 100

/**
 * @param {Pick<Database, 'stored'>} database
 * @param {{ eaas: Client, keyId: string, model: ReturnType<typeof defineUsers> }} encryption
 * @param {AbortSignal} signal
 * @returns {Promise<{ version: number, rewrapped: number }>}
 */
export async function rotate({ stored }, { eaas, keyId, model }, signal) {
  const { current_version } = await eaas.keys.rotate(keyId, { signal })
  let rewrapped = 0
  /** @type {string | undefined} */
  let last
  for (;;) {
    const rows = await stored
      .select()
      .from(users)
      .where(last === undefined ? undefined : gt(users.id, last))
      .orderBy(asc(users.id))
      .limit(PAGE_ROWS)
    for await (const { items } of model.rewrap(rows, { signal })) {
      for (const item of items) {
        if (item.status === 'failed') throw item.error
        const before = rows[item.index]
        if (item.status !== 'changed' || !before) continue
        const { name, email, phone } = item.row
        // Not where somebody encrypted a value anew meanwhile: the wrapped key is that of the former one.
        const isUnchanged = and(
          eq(users.id, before.id),
          eq(users.name, before.name),
          eq(users.email, before.email),
          before.phone === null ? isNull(users.phone) : eq(users.phone, before.phone),
        )
        await stored.update(users).set({ name, email, phone }).where(isUnchanged)
        rewrapped++
      }
    }
    if (rows.length < PAGE_ROWS) return { version: current_version, rewrapped }
    last = rows.at(-1)?.id
  }
}
