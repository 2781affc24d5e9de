// Drops the databases of a test file when it ends.
import { afterAll } from 'vitest'
import { dropDatabases } from './database.js'

// A worker loads this for each of its files, before the file, so this runs after the file's own hooks.
afterAll(dropDatabases)
