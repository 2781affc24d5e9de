/** Drafts: made next to a file or folder, and given its name once they are whole. */
import { randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { beforeEnd } from './before-end.js'

/**
 * Calls `make` with a name next to the path. Whatever has that name afterwards is removed, also if this process ends,
 * except by SIGKILL. The name is random, since in two containers both processes have the id 1.
 */
export async function withDraft<Made>(path: string, make: (draft: string) => Promise<Made>): Promise<Made> {
  const draft = `${path}.${randomBytes(8).toString('hex')}.new`
  const release = beforeEnd(() => rmSync(draft, { recursive: true, force: true }))
  try {
    return await make(draft)
  } finally {
    await rm(draft, { recursive: true, force: true }).catch(() => undefined) // it would hide why `make` failed
    release()
  }
}
