/** Replaces a file as a whole, so that it survives a crash. */
import { rename, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { withDraft } from './draft.js'
import { syncDirectory } from './sync-directory.js'

/**
 * Replaces a file, or creates it; it is on the disk when this resolves. A crash leaves the old file before the rename,
 * and the new file after it.
 */
export async function replaceFile(path: string, content: string | Uint8Array, { mode = 0o600 } = {}): Promise<void> {
  await withDraft(path, async (draft) => {
    await writeFile(draft, content, { mode, flag: 'wx', flush: true })
    await rename(draft, path)
  })
  await syncDirectory(dirname(path))
}
