/** Finds tables that somebody changed outside the server: a trigger, a rule, a policy, a constraint that is gone. */
import { MIGRATIONS_DIRECTORY } from '../migrations-directory.js'
import type { Services } from '../runner/operation.js'
import { compareSchemas, NewerSchemaError } from '../store/migrations.js'
import { compareTables, type SchemaDifferences } from '../store/schema.js'

/** What differs in our tables. */
export type TableDifferences = Pick<SchemaDifferences, 'missing' | 'added'>

/** What one comparison found. */
export interface TableComparison extends TableDifferences {
  /** how much differs; the version counts as one, because what else differs is not known then */
  differences: number
  /** whether the comparison before found something else */
  isNews: boolean
  /** the database says that it has another version: a newer server has migrated meanwhile, or somebody wants no comparison */
  isOtherVersion: boolean
}

/**
 * Creates the comparison. Whatever a call finds, the server goes on to serve: an operator's own index would otherwise stop it, and what a
 * change does to the log is noticed by itself.
 */
export function createTableComparison({ sql }: Pick<Services, 'sql'>): () => Promise<TableComparison> {
  let before = JSON.stringify([[], []])
  return async () => {
    if (!(await isOwnVersion(sql)))
      return { differences: 1, missing: [], added: [], isNews: false, isOtherVersion: true }
    const { missing, added } = await compareTables(sql, MIGRATIONS_DIRECTORY)
    const found = JSON.stringify([missing, added])
    const isNews = found !== before
    before = found
    return { differences: missing.length + added.length, missing, added, isNews, isOtherVersion: false }
  }
}

async function isOwnVersion(sql: Services['sql']): Promise<boolean> {
  try {
    const { version, newest } = await compareSchemas(sql, MIGRATIONS_DIRECTORY)
    return version === newest
  } catch (error) {
    if (error instanceof NewerSchemaError) return false
    throw error
  }
}
