// Finds a folder in memory for the temporary files of a run. Its databases create and delete many thousands of small files, for which a
// file system on a disk takes a tenth of the CPU time of `npm test`. Tests of crashes kill processes and not the machine, and what a
// killed process wrote also survives in memory. The durability settings stay, so fsync is called as before.
import { readFileSync, statfsSync } from 'node:fs'

/** Where Linux has a file system in memory. */
const FOLDER = '/dev/shm'
/**
 * Ample, in bytes: databases held 1.3 GB in a run of half of the suites, and each of two clusters may keep another GB
 * of WAL.
 */
const NEEDED_BYTES = 6 * 1024 ** 3

/**
 * Returns the folder; undefined if there is none, if programs may not run from it, as in many containers, or if
 * memory could become scarce.
 */
export function findMemoryFolder(): string | undefined {
  const [, , type, options = ''] = findMount(FOLDER) ?? []
  if (type !== 'tmpfs' || /(^|,)(ro|noexec)(,|$)/.test(options)) return undefined
  const { bavail, bsize } = statfsSync(FOLDER)
  return Math.min(bavail * bsize, process.availableMemory() / 2) < NEEDED_BYTES ? undefined : FOLDER
}

/** The fields of a mounted file system: device, folder, type, options. */
function findMount(folder: string): string[] | undefined {
  try {
    const mounts = readFileSync('/proc/self/mounts', 'utf8').split('\n')
    return mounts.map((line) => line.split(' ')).findLast(([, path]) => path === folder)
  } catch {
    return undefined // not Linux
  }
}
