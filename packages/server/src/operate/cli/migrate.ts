/** `eaas migrate`: brings the database to this version's schema, without starting a server. */
import type { Command } from 'commander'
import type { Config } from '../../core/config.js'
import type { Services } from '../../core/runner/operation.js'
import { findSchemaVersion } from '../../core/store/migrations.js'
import { openStore } from '../../core/store/open-store.js'
import { distributeTables } from '../store/distribute.js'
import { type Granted, grantServing, RoleError } from '../store/grant-serving.js'
import { commandConfig, JSON_OPTION, SAME_ENVIRONMENT } from './command.js'
import { failWithoutDatabase } from './fail.js'
import { linesOf, print, printJson } from './output.js'
import { withServices } from './with-services.js'

export function addMigrate(program: Command): void {
  program
    .command('migrate')
    .description("Migrate the database to this version's schema. Starting a server does this too.")
    .option('--existing', 'fail if the database has no installation, instead of creating one', false)
    .option('--role <role>', 'then grant this PostgreSQL role the rights that a server needs, and no others')
    .option('--distribute', 'before that, spread the tables over the machines of Citus, while no server runs', false)
    .addOption(JSON_OPTION)
    .addHelpText('after', SAME_ENVIRONMENT)
    .action((options) => migrateDatabase(commandConfig(), options))
}

type MigrateOptions = { json: boolean; role?: string; existing: boolean; distribute: boolean }

/** Opening an installation migrates it, after checking its root key. @throws RoleError, NoCitusError */
async function migrateDatabase(config: Config, options: MigrateOptions): Promise<void> {
  const { json, role, existing, distribute } = options
  if (role !== undefined && config.databaseUrl === undefined) {
    throw new RoleError('The embedded database has no roles: --role needs EAAS_DATABASE_URL.')
  }
  const mayCreate = !existing
  const store = await openStore(config, { beside: true, mayCreate, onFailure: failWithoutDatabase })
  const before = await findSchemaVersion(store.sql).finally(() => store.close())
  const grantAndPrint = async ({ sql }: Services) => {
    const after = await findSchemaVersion(sql)
    const spread = distribute ? await distributeTables(sql) : undefined
    const mayPurge = config.auditRetentionMonths > 0
    const granted =
      role === undefined ? undefined : { role, ...(await grantServing(sql, role, { mayPurge })), mayPurge }
    if (json) {
      const { may_create, set_path } = granted ?? {}
      const ofRole = granted && { role, may_purge: mayPurge, may_create, set_path }
      return printJson({ schema_before: before, schema: after, ...(spread && { distributed: spread }), ...ofRole })
    }
    const migrated = before === after ? `is up to date (${after})` : `was migrated from ${before} to ${after}`
    print(`The schema ${migrated}.`)
    if (spread?.length === 0) print('All tables are spread over the machines.')
    else if (spread) print(`These tables were spread over the machines: ${spread.join(', ')}.`)
    if (granted) print(...describe(granted))
  }
  await withServices(config, grantAndPrint, { mayCreate })
}

function describe({ role, mayPurge, schema, may_create, set_path }: Granted & { role: string; mayPurge: boolean }) {
  const purge = mayPurge
    ? 'It may delete audit entries, as purges do (EAAS_AUDIT_RETENTION_MONTHS), but not change them.'
    : 'It may neither delete nor change audit entries.'
  const rights = `it may read and write rows, and owns no table. ${purge}`
  const can = set_path === null ? 'can run a server' : 'has the rights that a server needs'
  return linesOf(
    `The role ${role} ${can}: ${rights}`,
    set_path !== null &&
      `Its search_path does not lead to the schema ${schema}, so a server would find no tables. As an administrator run: ${set_path}`,
    may_create &&
      `It may still create tables of its own in this schema. To prevent that: revoke create on schema ${schema} from public`,
  )
}
