// Copies a folder of many small files, such as a database that is not in use.
import { copyFileSync, mkdirSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Copies the files and folders in `from` to the folder `to`, which need not exist, with the same permissions. Node's
 * own `cpSync` inspects each file and its target, which takes half as long again for the hundreds of files of a
 * database, and `cp` five times as long.
 */
export function copyFolder(from: string, to: string): void {
  mkdirSync(to, { recursive: true, mode: statSync(from).mode })
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)]
    if (entry.isDirectory()) copyFolder(source, target)
    else copyFileSync(source, target)
  }
}
