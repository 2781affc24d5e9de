// Loaded into an example (node --import): instead of creating a database in memory, the example loads the archive
// that this file's URL names.
import { readFileSync } from 'node:fs'
import { PGlite } from '@electric-sql/pglite'

const archive = decodeURIComponent(new URL(import.meta.url).search.slice(1))
const create = PGlite.create.bind(PGlite)
PGlite.create = (...options) =>
  options.length === 0 ? create({ loadDataDir: new Blob([readFileSync(archive)]) }) : create(...options)
