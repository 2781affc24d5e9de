/** Finds tables that somebody changed outside the server: a trigger, a rule, a policy, a constraint that is gone. */
import { MIGRATIONS_DIRECTORY } from '../migrations-directory.js'
import type { Services } from '../runner/operation.js'
import { compareSchemas, NewerSchemaError } from '../store/migrations.js'
import { compareTables, type SchemaDifferences } from '../store/schema.js'

/** What differs in our tables. */
export type TableDifferences = Pick<SchemaDifferences, 'missing' | 'added'>

/**
 * Creates the comparison; each call returns what differs, and whether the call before found something else. Undefined if the database says
 * that it has another version: a newer server has migrated meanwhile, or somebody wants no comparison. The server goes on to serve: an
 * operator's own index would otherwise stop it, and what a change does to the log is noticed by itself.
 */
export function createTableComparison({
  sql,
}: Pick<Services, 'sql'>): () => Promise<(TableDifferences & { isNews: boolean }) | undefined> {
  let before = JSON.stringify([[], []])
  return async () => {
    if (!(await isOwnVersion(sql))) return undefined
    const { missing, added } = await compareTables(sql, MIGRATIONS_DIRECTORY)
    const found = JSON.stringify([missing, added])
    const isNews = found !== before
    before = found
    return { missing, added, isNews }
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
