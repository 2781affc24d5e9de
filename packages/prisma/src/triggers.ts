/** Refuses tables on which a trigger would change what is written, before the first write. */
import { assertUnchanged } from '@eaas/sdk/adapter'
import { clientOf, type Running } from './clients.js'
import type { Schema } from './schema.js'

/** What was asked, which operations at once wait for. */
const asked = new WeakMap<Schema, Promise<void>>()

/** Asks PostgreSQL, once. @throws InvalidInputError */
export async function assertNoTriggers(schema: Schema, running: Running, operation: string): Promise<void> {
  if (!/^(create|update|upsert)/.test(operation)) return
  const asking = asked.get(schema) ?? ask(schema, running)
  asked.set(schema, asking)
  await asking.catch((error: unknown) => {
    asked.delete(schema)
    throw error
  })
}

async function ask({ ofPostgres }: Schema, running: Running): Promise<void> {
  for (const one of ofPostgres) await assertUnchanged((sql) => clientOf(running).$queryRawUnsafe(sql), one)
}
