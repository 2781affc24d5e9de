// The files of a new embedded database: one image, made by the build, that a first start unpacks all or nothing.
//
// Creating them takes PGlite 3.6 s of CPU and 800 MB, unpacking them 0.5 s. A database has its name only once all of its files are on
// the disk, because PGlite takes a directory with a PG_VERSION as complete.
//
// The image is compressed by Brotli. A line of JSON, `[path, bytes or null for a directory][]`, comes before the content of the files in
// that order.

import { existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib'
import { syncDirectory } from '@eaas/audit/node'
import { BUILT_DIRECTORY } from '../package-directory.js'

/** The image's name in the build. */
export const IMAGE_NAME = 'cluster.br'
/** As many as Node's threads for files: each waits for the disk. */
const WRITERS = 4
const { BROTLI_PARAM_QUALITY, BROTLI_PARAM_LGWIN, BROTLI_MAX_WINDOW_BITS } = constants

/** Packs the files of a database that is not open, for the build. */
export function packCluster(directory: string): Uint8Array {
  const names = readdirSync(directory, { recursive: true, encoding: 'utf8' }).sort()
  const contents = names.map((name) =>
    statSync(join(directory, name)).isDirectory() ? null : readFileSync(join(directory, name)),
  )
  const index = JSON.stringify(names.map((name, at) => [name, contents[at]?.length ?? null]))
  return brotliCompressSync(
    Buffer.concat([Buffer.from(`${index}\n`), ...contents.filter((content) => content !== null)]),
    {
      params: { [BROTLI_PARAM_QUALITY]: 6, [BROTLI_PARAM_LGWIN]: BROTLI_MAX_WINDOW_BITS },
    },
  )
}

/**
 * Creates a database in `directory` unless there is one. The caller holds the lock of the data directory around it.
 *
 * @returns whether it was created now.
 * @throws the error of the system when the files cannot be written, or an Error that says that the image cannot be read.
 */
export async function createClusterIfAbsent(directory: string): Promise<boolean> {
  if (isCluster(directory)) return false

  const draft = `${directory}.creating`
  rmSync(draft, { recursive: true, force: true })
  await unpack(readImage(), draft)
  renameSync(draft, directory)
  await syncDirectory(dirname(directory))
  return true
}

/** Whether a database exists: a directory gets that name only when it is complete. */
export function isCluster(directory: string): boolean {
  return existsSync(join(directory, 'PG_VERSION'))
}

function readImage(): Buffer {
  const path = fileURLToPath(new URL(IMAGE_NAME, BUILT_DIRECTORY))
  try {
    return brotliDecompressSync(readFileSync(path))
  } catch (cause) {
    throw new Error(
      `${path}, from which a new database is made, cannot be read (install @eaas/server again, or build it)`,
      { cause },
    )
  }
}

async function unpack(image: Buffer, directory: string): Promise<void> {
  const end = image.indexOf('\n')
  const index: [path: string, bytes: number | null][] = JSON.parse(image.toString('utf8', 0, end))
  const directories = [directory]
  const files: [path: string, content: Uint8Array][] = []
  let at = end + 1
  for (const [name, bytes] of index) {
    const path = join(directory, name)
    if (bytes === null) directories.push(path)
    else files.push([path, image.subarray(at, at + bytes)])
    at += bytes ?? 0
  }
  for (const path of directories) await mkdir(path, { mode: 0o700 })
  const left = files.values()
  const write = async () => {
    for (const [path, content] of left) await writeFile(path, content, { mode: 0o600, flush: true })
  }
  const outcomes = await Promise.allSettled(Array.from({ length: WRITERS }, write)) // a start that follows must not write beside them
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
  for (const path of directories) await syncDirectory(path)
}
