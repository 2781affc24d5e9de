/**
 * Finds changes of our tables from outside the server: a trigger, a rule, a policy, a constraint that is gone.
 */

import type { Services } from '../../core/runner/operation.js'
import { compareSchemas, SchemaVersionError } from '../../core/store/migrations.js'
import { MIGRATIONS_DIRECTORY } from '../../migrations-directory.js'
import { type AcceptedSchema, findAcceptedSchema } from '../operations/accept-schema.js'
import { compareTables, type SchemaDifferences } from '../store/schema.js'

/** What differs in our tables. */
type TableDifferences = Pick<SchemaDifferences, 'missing' | 'added' | 'refusing' | 'harmless' | 'settings'>

/** What one comparison found. */
interface TableComparison extends TableDifferences {
  /**
   * how many differences were not accepted; another version counts as one, because what else differs is not
   * known then
   */
  differences: number
  /** whether this differs from the previous comparison, `harmless` apart */
  isNews: boolean
  /** whether `harmless` differs from the previous comparison */
  hasNewHarmless: boolean
  /** how an operator accepted what differs in `missing`, `added` and `refusing` */
  accepted: AcceptedSchema | undefined
  /**
   * the database says that it has another version: a newer server has migrated it meanwhile, or an attacker
   * prevents the comparison
   */
  isOtherVersion: boolean
}

/**
 * Creates the comparison. Whatever a call finds, the server continues to serve: the watch of the logs notices
 * what a change does to them, and stopping would let the owner of the tables stop every server.
 */
export function createTableComparison({
  sql,
  installationKey,
}: Pick<Services, 'sql' | 'installationKey'>): () => Promise<TableComparison> {
  const none = { missing: [], added: [], refusing: [], harmless: [], settings: [] }
  let before = { alarming: JSON.stringify([[], [], [], [], undefined]), harmless: '[]' }
  return async () => {
    if (!(await isOwnVersion(sql))) {
      return {
        ...none,
        differences: 1,
        isNews: false,
        hasNewHarmless: false,
        accepted: undefined,
        isOtherVersion: true,
      }
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
