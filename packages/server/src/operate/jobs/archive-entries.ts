/** Archives entries in a directory before a purge deletes them, as a complete and verified export on disk. */
import { randomUUID } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { link, rename, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createDirectory, syncDirectory } from '@eaas/audit/node'
import { explainUnwritten } from '@eaas/protocol'
import { exportAudit } from '../../core/api/audit-export.js'
import { equalBytes } from '../../core/audit/formats/chain.js'
import type { Services } from '../../core/runner/operation.js'
import { performAsSystem } from '../../core/runner/perform.js'
import { Refusal } from '../../core/runner/refusal.js'

export interface Stretch {
  tenant_id: string
  after_id: number
  through_id: number
  /** the hash of the last entry from a verification of the log, which proves that the archive has the verified entries */
  hash: Uint8Array
}

/**
 * A file with an archive's name has all of the entries and verifies. An existing file is never overwritten: it is used
 * if it is such an archive; otherwise the call fails. Returns the path. @throws Refusal E_STATE if the entries or an
 * existing file do not verify, E_VALIDATION, or an error that says why the file cannot be written
 */
export async function archiveEntries(services: Services, stretch: Stretch, directory: string): Promise<string> {
  const { tenant_id, through_id } = stretch
  const folder = resolve(directory)
  const path = join(folder, `${tenant_id}-through-${through_id}.ndjson`)
  await makeDirectory(folder).catch((error: NodeJS.ErrnoException) => explain(path, error))
  if (!(await isArchived(services, stretch, path))) {
    // A unique name, since several processes may archive the same entries at once. A crash leaves the draft.
    const draft = `${path}.${randomUUID()}.part`
    try {
      const lines = await performAsSystem(services, tenant_id, exportAudit({ through_id }))
      await pipeline(lines, createWriteStream(draft, { flags: 'wx', mode: 0o600, flush: true }))
      await assertArchive(services, stretch, draft)
      await link(draft, path)
    } catch (error) {
      // Another process may have archived and purged the entries during this export.
      if (!(await isArchived(services, stretch, path))) explain(path, error as NodeJS.ErrnoException)
    } finally {
      await rm(draft, { force: true })
    }
  }
  await syncDirectory(folder) // another process that wrote the file may not have done this yet
  return path
}

/** Not a Refusal, because a full disk says nothing about the log, and the purge is tried again. */
function explain(path: string, error: NodeJS.ErrnoException): never {
  throw new Error(`nothing is purged: ${explainUnwritten(path, error)}`)
}

/** Renames an archive with other entries than the log's. After a crash before this, the next purge refuses the file. */
export async function setAside(path: string): Promise<string> {
  const aside = `${path}.${randomUUID()}.refused`
  await rename(path, aside)
  return aside
}

async function isArchived(services: Services, stretch: Stretch, path: string): Promise<boolean> {
  try {
    await assertArchive(services, stretch, path)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return false
  }
}

/** @throws Refusal E_STATE if the file is not an export with all of the entries */
async function assertArchive(services: Services, { tenant_id, after_id, through_id, hash }: Stretch, path: string) {
  const publicKey = services.signingKey.publicKeys
  let last: Uint8Array | undefined
  const onEntry = (entry: { hash: Uint8Array }) => {
    last = entry.hash
  }
  const { splitLines, verifyExport } = await import('@eaas/audit') // needed nowhere else in a server
  const verdict = await verifyExport(splitLines(createReadStream(path)), { publicKey, onEntry })
  const isComplete = verdict.tenant_id === tenant_id && (verdict.after_id ?? Infinity) <= after_id
  const isOfRange = verdict.valid && isComplete && verdict.last_id === through_id
  // The export's signature does not prove that these are the entries that the purge deletes.
  if (isOfRange && last && equalBytes(last, hash)) return
  const reason = isOfRange ? 'its entries are not those that were verified' : verdict.reason
  throw new Refusal(
    'E_STATE',
    `nothing is purged: ${path} is not an archive of the entries ${after_id + 1} to ${through_id}` +
      `${reason === undefined ? '' : ` (${reason})`}. Verify the log; if another file has this name, move it away`,
  )
}

async function makeDirectory(folder: string): Promise<void> {
  const made = createDirectory(folder)
  if (made === undefined) return
  for (let parent = dirname(folder); ; parent = dirname(parent)) {
    await syncDirectory(parent)
    if (parent === dirname(made)) return
  }
}
