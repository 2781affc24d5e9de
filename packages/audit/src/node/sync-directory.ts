/** Makes the names in a directory survive a crash. */
import { open } from 'node:fs/promises'

/** Writes a directory to the disk: after a crash, a file that was made in it is there only then. */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path)
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}
