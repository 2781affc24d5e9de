/** `eaas migrate`: brings the database to this version's schema, without starting a server. */
import type { Config } from '../config.js'
import { openInstallation } from '../installation.js'
import { findSchemaVersion } from '../store/migrations.js'
import { openStore } from '../store/open-store.js'
import { print, printJson } from './output.js'

/** Migrates and prints the schema's version before and after. Opening an installation migrates, once its root key is right. */
export async function migrateDatabase(config: Config, { json }: { json: boolean }): Promise<void> {
  const store = await openStore(config, { beside: true, mayCreate: true })
  const before = await findSchemaVersion(store.sql).finally(() => store.close())
  const installation = await openInstallation({
    config,
    beside: true,
    onAlarm: (message, details) => process.stderr.write(`eaas: ${message} ${JSON.stringify(details)}\n`),
  })
  const after = await findSchemaVersion(installation.services.sql).finally(() => installation.close())
  if (json) printJson({ schema_before: before, schema: after })
  else print(before === after ? `The schema is up to date (${after}).` : `The schema went from ${before} to ${after}.`)
}
