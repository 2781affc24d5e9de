// The files of the embedded database. The build makes one image of the files of a new database with its tables:
// creating these takes PGlite 3.8 s of CPU and 800 MB, unpacking them 0.1 s. A database gets its name only once all of
// its files are on the disk, because PGlite takes a directory with a PG_VERSION as complete.
//
// The image is compressed by Brotli. A line of JSON comes before the content of the files in its order: `[path, bytes]`
// for a file, `[path, null]` for a directory, and `[path, other]` for a file with the content of an earlier one.

import { existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { brotliCompressSync, brotliDecompress, constants } from 'node:zlib'
import { syncDirectory } from '@eaas/audit/node'
import type { PGlite } from '@electric-sql/pglite'
import { BUILT_DIRECTORY } from '../package-directory.js'

export const IMAGE_NAME = 'cluster.br'
const WRITERS = 4 // as many as Node's threads for files, each of which waits for the disk
const DECOMPRESSED_BYTES = 16 * 1024 * 1024 // more than a new database has; decompressed at once, beside this thread
const decompress = promisify(brotliDecompress)
const { BROTLI_PARAM_QUALITY, BROTLI_PARAM_LGWIN, BROTLI_MAX_WINDOW_BITS } = constants

/** Maps of free space and of visibility, a fifth of the files. PostgreSQL makes a missing one again. */
const MADE_AGAIN = /_(?:fsm|vm)$/

type Entry = [path: string, content: number | string | null]

/** Packs the files of a database that is not open, for the build. */
export function packCluster(directory: string): Uint8Array {
  const all = readdirSync(directory, { recursive: true, encoding: 'utf8' }).sort()
  const names = all.filter((name) => !MADE_AGAIN.test(name))
  const contents = new Map<string, Buffer>()
  const nameOf = new Map<string, string>()
  const index = names.map((name): Entry => {
    const path = join(directory, name)
    if (statSync(path).isDirectory()) return [name, null]
    const content = readFileSync(path)
    const other = nameOf.get(content.toString('latin1'))
    if (other !== undefined) return [name, other]
    nameOf.set(content.toString('latin1'), name)
    contents.set(name, content)
    return [name, content.length]
  })
  return brotliCompressSync(Buffer.concat([Buffer.from(`${JSON.stringify(index)}\n`), ...contents.values()]), {
    params: { [BROTLI_PARAM_QUALITY]: 6, [BROTLI_PARAM_LGWIN]: BROTLI_MAX_WINDOW_BITS },
  })
}

/** Creates a database if there is none; returns whether it did. The caller holds the lock of the data directory. */
export async function createClusterIfAbsent(directory: string): Promise<boolean> {
  if (isCluster(directory)) return false

  const draft = `${directory}.creating`
  rmSync(draft, { recursive: true, force: true })
  await unpack(await readImage(), draft)
  renameSync(draft, directory)
  await syncDirectory(dirname(directory))
  return true
}

/** Whether a database exists. Its directory gets that name only when it is complete. */
export function isCluster(directory: string): boolean {
  return existsSync(join(directory, 'PG_VERSION'))
}

async function readImage(): Promise<Buffer> {
  const path = fileURLToPath(new URL(IMAGE_NAME, BUILT_DIRECTORY))
  try {
    return await decompress(readFileSync(path), { chunkSize: DECOMPRESSED_BYTES })
  } catch (cause) {
    const text = `${path}, from which a new database is made, cannot be read (install @eaas/server again, or build it)`
    throw new Error(text, { cause })
  }
}

async function unpack(image: Buffer, directory: string): Promise<void> {
  const end = image.indexOf('\n')
  const index: Entry[] = JSON.parse(image.toString('utf8', 0, end))
  const directories = [directory]
  const files = new Map<string, Uint8Array>()
  let at = end + 1
  for (const [name, content] of index) {
    const path = join(directory, name)
    if (content === null) {
      directories.push(path)
      continue
    }
    const bytes = typeof content === 'number' ? image.subarray(at, at + content) : files.get(join(directory, content))
    if (!bytes) throw new Error(`the image has no ${content}`)
    files.set(path, bytes)
    if (typeof content === 'number') at += content
  }
  for (const path of directories) await mkdir(path, { mode: 0o700 })
  const left = files.entries()
  const write = async () => {
    for (const [path, content] of left) await writeFile(path, content, { mode: 0o600, flush: true })
  }
  const outcomes = await Promise.allSettled(Array.from({ length: WRITERS }, write)) // a later start must not write beside them
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
  for (const path of directories) await syncDirectory(path)
}

/** The number of a relation's file; then its fork, and its segment of 1 GB. */
const RELATION_FILE = /^(\d+)(?:_(?:fsm|vm|init))?(?:\.\d+)?$/

/**
 * Removes the files that belong to no table and no index, and returns their names. A process that was killed while
 * rewriting a table leaves such files, with sealed secrets of keys, and PostgreSQL never removes them. Call it before
 * clients are served, since an open transaction has files that only it knows.
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
