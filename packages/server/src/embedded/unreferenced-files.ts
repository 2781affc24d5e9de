// Removes what a killed process left of a table that it was rewriting: a file that no table refers to, with the rows of
// that time and so the sealed secrets of keys. PostgreSQL never removes such a file.

import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { PGlite } from '@electric-sql/pglite'

/** The number of a relation's file; then its fork, and its segment of 1 GB. */
const RELATION_FILE = /^(\d+)(?:_(?:fsm|vm|init))?(?:\.\d+)?$/

/**
 * Removes the files below `cluster` that belong to no table and no index of the database. To be called before
 * clients are served: a transaction that is open has files that only it knows.
 *
 * @returns the names of the removed files
 */
export async function removeUnreferencedFiles(cluster: string, database: PGlite): Promise<string[]> {
  const { rows: databases } = await database.query<{ oid: number }>(
    'select oid from pg_catalog.pg_database where datname = pg_catalog.current_database()',
  )
  const { rows: relations } = await database.query<{ node: number }>(
    'select pg_catalog.pg_relation_filenode(oid) as node from pg_catalog.pg_class where pg_catalog.pg_relation_filenode(oid) is not null',
  )
  const referenced = new Set(relations.map(({ node }) => String(node)))
  const folder = join(cluster, 'base', String(databases[0]?.oid))
  const unreferenced = readdirSync(folder).filter((name) => {
    const [, node] = RELATION_FILE.exec(name) ?? []
    return node !== undefined && !referenced.has(node)
  })
  for (const name of unreferenced) rmSync(join(folder, name))
  return unreferenced
}
