// Loaded into other processes (node --require) from the folder of a created database: the process in which the server would create
// one (packages/server/src/embedded/cluster.ts) copies that database and ends.
if (process.execArgv.some((argument) => argument.includes('PGlite.create(directory)'))) {
  const [, , directory] = process.argv
  require('node:fs').cpSync(require('node:path').join(__dirname, 'postgres'), directory, { recursive: true })
  process.exit(0)
}
