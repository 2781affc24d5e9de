/** Refuses tables on which a trigger would change what is written, before the first write. */
import { assertUnchanged } from '@eaas/sdk/adapter'
import { clientOf, type Running } from './clients.js'
import type { Schema } from './schema.js'

const unchanged = new WeakSet<Schema>()

/** Asks PostgreSQL, once. @throws InvalidInputError */
export async function assertNoTriggers(schema: Schema, running: Running, operation: string): Promise<void> {
  if (unchanged.has(schema) || !/^(create|update|upsert)/.test(operation)) return
  for (const one of schema.ofPostgres) await assertUnchanged((sql) => clientOf(running).$queryRawUnsafe(sql), one)
  unchanged.add(schema)
}
