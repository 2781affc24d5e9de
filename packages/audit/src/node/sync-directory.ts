/** Makes the names in a directory survive a crash. */
import { open } from 'node:fs/promises'

/** Writes a directory to the disk; without this, a file that was made in it may be gone after a crash. */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path)
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}
