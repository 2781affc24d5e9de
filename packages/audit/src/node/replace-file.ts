/** Replaces a file as a whole, so that it survives a crash. */
import { open, rename } from 'node:fs/promises'
import { dirname } from 'node:path'
import { syncDirectory } from './sync-directory.js'

/**
 * Replaces a file (mode 0600), or creates it; it is on the disk when this resolves. A crash before the rename leaves
 * the old file, one after it the new file.
 */
export async function replaceFile(path: string, text: string): Promise<void> {
  const draft = `${path}.new`
  const file = await open(draft, 'w', 0o600)
  try {
    await file.writeFile(text)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(draft, path)
  await syncDirectory(dirname(path))
}
