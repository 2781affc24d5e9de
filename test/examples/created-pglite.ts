// PGlite for the programs of pages: one in each worker, on a copy of the database that this run of the tests created, where a page would
// have a new one in memory. Opening one takes longer than what a page does with it.
import type { PGlite as Original } from '@electric-sql/pglite'
import { inject } from 'vitest'
import { openCreatedCluster } from '../support/database/created-cluster.js'

const postgres = await openCreatedCluster(inject('runDir'))

/** Returns it empty: it runs one statement after another. */
export const PGlite = function open(): Original {
  void postgres.exec('drop schema public cascade; create schema public')
  return postgres
}
