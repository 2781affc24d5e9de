// When a new database counts as created. A file of its own: it mocks what writes files and what flushes folders.
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { BUILT_DIRECTORY } from '../package-directory.js'
import { createClusterIfAbsent, IMAGE_NAME, isCluster } from './cluster.js'
import { openEmbedded } from './database.js'

let folder: string
let directory: string
/** what reached the disk, in this order, and whether the database had its name by then */
let onDisk: { path: string; isNamed: boolean }[]
/** the file that the disk has no room for */
let unwritable: string | undefined
let writing: number
/** where the image is looked for, unless in the build */
let built: URL | undefined

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'eaas-cluster-'))
  directory = join(folder, 'postgres')
  onDisk = []
  unwritable = undefined
  writing = 0
  built = undefined
})
afterEach(() => rmSync(folder, { recursive: true }))

const note = (path: string) => onDisk.push({ path, isNamed: existsSync(directory) })

vi.mock(import('node:fs/promises'), async (original) => {
  const real = await original()
  const writeFile: typeof real.writeFile = async (path, ...written) => {
    if (unwritable !== undefined && String(path).endsWith(unwritable))
      throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
    writing += 1
    await real.writeFile(path, ...written)
    writing -= 1
    if (Object(written[1]).flush) note(String(path))
  }
  return { ...real, writeFile }
})

vi.mock(import('../package-directory.js'), async (original) => {
  const real = await original()
  return {
    get BUILT_DIRECTORY() {
      return built ?? real.BUILT_DIRECTORY
    },
  }
})

vi.mock(import('@eaas/audit/node'), async (original) => {
  const real = await original()
  const syncDirectory = async (path: string) => {
    await real.syncDirectory(path)
    note(path)
  }
  return { ...real, syncDirectory }
})

it('has its name only once all of its files are on the disk, and then for good; only its owner may read it', async () => {
  expect(await createClusterIfAbsent(directory)).toBe(true)
  const draft = `${directory}.creating`
  const inside = readdirSync(directory, { recursive: true, encoding: 'utf8' })
  const paths = [draft, ...inside.map((name) => join(draft, name))]
  const byPath = (a: { path: string }, b: { path: string }) => (a.path < b.path ? -1 : 1)
  expect(onDisk.slice(0, -1).sort(byPath)).toEqual(paths.map((path) => ({ path, isNamed: false })).sort(byPath))
  expect(onDisk.at(-1)).toEqual({ path: folder, isNamed: true })
  const modes = new Set([directory, ...inside.map((name) => join(directory, name))].map((path) => statSync(path).mode))
  expect(modes).toEqual(new Set([0o040700, 0o100600]))
})

it('is none while a file cannot be written, which it says once it writes no more, and is created by the next start', async () => {
  unwritable = 'pg_control'
  await expect(createClusterIfAbsent(directory)).rejects.toMatchObject({ code: 'ENOSPC' })
  expect(writing).toBe(0)
  expect(isCluster(directory)).toBe(false)
  unwritable = undefined
  expect(await createClusterIfAbsent(directory)).toBe(true)
  expect(readdirSync(folder)).toEqual(['postgres'])
  expect(await createClusterIfAbsent(directory)).toBe(false)
})

it.each([
  ['missing', undefined, 'ENOENT'],
  ['cut short', -1, 'unexpected end of file'],
])('blames the image that is %s, not the directory that it was to be unpacked into', async (_, end, reason) => {
  const image = join(folder, IMAGE_NAME)
  if (end !== undefined) writeFileSync(image, readFileSync(new URL(IMAGE_NAME, BUILT_DIRECTORY)).subarray(0, end))
  built = pathToFileURL(`${folder}/`)
  await expect(openEmbedded({ dataDir: join(folder, 'data') })).rejects.toMatchObject({
    message: `${image}, from which a new database is made, cannot be read (install @eaas/server again, or build it)`,
    cause: { message: expect.stringContaining(reason) },
  })
})
