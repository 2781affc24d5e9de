import { open } from 'node:fs/promises'

/** Has a directory written to the disk: the name of a file that was made in it is there only then. */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path)
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}
