/** Finds changes of our tables from outside the server, such as a trigger, a rule, a policy, a dropped constraint. */
import type { Log } from '../../core/jobs/periodic.js'
import type { Services } from '../../core/runner/operation.js'
import { compareSchemas, SchemaVersionError } from '../../core/store/migrations.js'
import { MIGRATIONS_DIRECTORY } from '../../package-directory.js'
import { type AcceptedSchema, findAcceptedSchema } from '../operations/accept.js'
import { compareTables, MISSING_INDEX, type SchemaDifferences } from '../store/schema.js'

const OTHER_VERSION =
  'the tables are not compared with what the migrations make: the database has the schema of another version. Unless a newer server ' +
  'has migrated it, somebody changed schema_version'
const AS_MADE = 'the tables are as the migrations make them again'
const HARMLESS_TABLES = 'how the tables differ from what the migrations make changes no answer and no entry'
const ACCEPTED_TABLES = 'the tables differ from what the migrations make, as an operator accepted on record'
const REFUSING_TABLES =
  'the owner of the tables added something that can refuse writes, but changes no answer and no entry: drop it, or accept it on record (eaas accept schema)'
const CHANGED_TABLES =
  'the owner of the tables changed them outside eaas. Verify every log (eaas audit verify --all); eaas doctor says what to undo'

interface TableComparison extends Omit<SchemaDifferences, 'beside' | 'digest'> {
  /** the number that is not accepted; another version counts as one, since its further differences are unknown */
  differences: number
  isNews: boolean // whether this differs from the previous comparison, `harmless` apart
  hasNewHarmless: boolean // whether `harmless` differs from the previous comparison
  accepted: AcceptedSchema | undefined // how an operator accepted what differs in `missing`, `added` and `refusing`
  isOtherVersion: boolean // a newer server has migrated it meanwhile, or an attacker prevents the comparison
}

/** Whatever differs, the server continues: otherwise the owner of the tables could stop every server. */
export function createTableComparison({
  sql,
  installationKey,
}: Pick<Services, 'sql' | 'installationKey'>): () => Promise<TableComparison> {
  const none = { missing: [], added: [], refusing: [], harmless: [], settings: [] }
  let before = { alarming: JSON.stringify([[], [], [], [], undefined]), harmless: '[]' }
  return async () => {
    if (!(await isOwnVersion(sql))) {
      const nothing = { isNews: false, hasNewHarmless: false, accepted: undefined }
      return { ...none, ...nothing, differences: 1, isOtherVersion: true }
    }
    const { digest, beside, ...found } = await compareTables(sql, MIGRATIONS_DIRECTORY)
    const { missing, added, refusing, settings } = found
    const accepted = await findAcceptedSchema(sql, installationKey, { digest })
    const now = {
      alarming: JSON.stringify([missing, added, refusing, settings, accepted]),
      harmless: JSON.stringify(found.harmless),
    }
    const isNews = now.alarming !== before.alarming
    const hasNewHarmless = now.harmless !== before.harmless
    before = now
    const differences = settings.length + (accepted ? 0 : missing.length + added.length + refusing.length)
    return { ...found, differences, isNews, hasNewHarmless, accepted, isOtherVersion: false }
  }
}

async function isOwnVersion(sql: Services['sql']): Promise<boolean> {
  try {
    const { version, newest } = await compareSchemas(sql, MIGRATIONS_DIRECTORY)
    return version === newest
  } catch (error) {
    if (error instanceof SchemaVersionError) return false
    throw error
  }
}

export function logTables(log: Log, found: TableComparison): void {
  const { missing, refusing, harmless, accepted } = found
  if (found.isOtherVersion) log.error(OTHER_VERSION)
  const isSlow = harmless.some((line) => line.startsWith(MISSING_INDEX))
  if (found.hasNewHarmless) log[isSlow ? 'warn' : 'info']({ harmless }, HARMLESS_TABLES)
  if (!found.isNews) return
  const added = [...found.added, ...found.settings]
  const changed = { missing, added, refusing }
  if (found.differences === 0) log.info({ ...changed, accepted }, accepted ? ACCEPTED_TABLES : AS_MADE)
  else if (missing.length + added.length > 0) log.fatal(changed, CHANGED_TABLES)
  else log.error(changed, REFUSING_TABLES)
}
