// Creates the files of a new embedded database, in a process of its own and all or nothing.
//
// A process of its own, because creating takes PGlite some 800 MB that it does not release (160 MB when it opens an
// existing directory). All or nothing, because PGlite copies the files in, takes a directory with a PG_VERSION as
// complete, and does no fsync: we create it under another name, flush everything and rename, so a crash leaves either
// no database or a complete one.

import { spawn } from 'node:child_process'
import { closeSync, existsSync, fsyncSync, mkdtempSync, openSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'

/**
 * What the child runs; it gets PGlite's own path and the directory as arguments, and ends with its parent.
 */
const CREATE = `
const [pglite, directory] = process.argv.slice(1)
process.stdin.on('end', () => process.exit(1)).resume()
require(pglite).PGlite.create(directory).then((database) => database.close()).then(() => process.exit(0))
`

/**
 * A signal ended the process that creates the database: in a container this is how the kernel enforces the
 * limit of memory.
 */
export class CreationKilledError extends Error {
  override readonly name = 'CreationKilledError'

  constructor(signal: string) {
    super(
      `The process that creates the embedded database was killed (${signal}), probably for want of memory: the first start needs about 800 MB of ` +
        'memory, and later ones about 250 MB. Allow 1 GB for the first start, or use PostgreSQL (EAAS_DATABASE_URL_FILE).',
    )
  }
}

/**
 * Creates a database in `directory` unless there is one. The caller holds the lock of the data directory
 * around it.
 *
 * @returns whether it was created now.
 * @throws CreationKilledError when a signal ended the child process.
 * @throws Error with what the child process said.
 */
export async function createClusterIfAbsent(directory: string): Promise<boolean> {
  if (isCluster(directory)) return false

  const prefix = `${basename(directory)}.creating-`
  for (const name of readdirSync(dirname(directory))) {
    if (name.startsWith(prefix)) rmSync(join(dirname(directory), name), { recursive: true, force: true })
  }
  // A new name each time: the child of a killed server may still be writing into the last one.
  const draft = mkdtempSync(join(dirname(directory), prefix))
  await runInChild(draft)
  flush(draft)
  renameSync(draft, directory)
  flushOne(dirname(directory))
  return true
}

/** Whether a database exists: a directory gets that name only when it is complete. */
export function isCluster(directory: string): boolean {
  return existsSync(join(directory, 'PG_VERSION'))
}

function runInChild(directory: string): Promise<void> {
  const pglite = createRequire(import.meta.url).resolve('@electric-sql/pglite')
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ['-e', CREATE, pglite, directory], { stdio: ['pipe', 'ignore', 'pipe'] })
    let said = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      said += text
    })
    child.on('error', reject)
    child.on('close', (code, signal) => {
      if (code === 0 && isCluster(directory)) return resolve()
      if (signal !== null) return reject(new CreationKilledError(signal))
      reject(new Error(`Cannot create the embedded database (exit code ${code}): ${said.trim()}`))
    })
  })
}

function flush(directory: string): void {
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name)
    if (entry.isDirectory()) flush(path)
    else if (entry.isFile()) flushOne(path)
  }
  flushOne(directory)
}

function flushOne(path: string): void {
  const fd = openSync(path, 'r')
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}
