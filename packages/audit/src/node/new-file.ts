/** Makes files and folders that exist completely or not at all: a draft gets the final name once it is complete. */
import { randomBytes } from 'node:crypto'
import { constants, existsSync, rmSync } from 'node:fs'
import { copyFile, type FileHandle, link, mkdir, open, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { beforeEnd } from './before-end.js'
import { syncDirectory } from './create-directory.js'

const PRIVATE_FILE = 0o600
const PRIVATE_FOLDER = 0o700

/**
 * Calls `make` with a name next to the path. A file left under that name is removed, even if the process ends (but not
 * by SIGKILL). The name is random, since in two containers both processes have the id 1.
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

/** Creates a file (mode 0600) durably; `makeText` runs once its path is known to be writable. False if the path exists. */
export async function createFile(path: string, makeText: () => string | Promise<string>): Promise<boolean> {
  return createFileBy(path, async (file) => file.writeFile(await makeText()))
}

/** Like `createFile`, but `write` writes into the file, for content that is larger than memory. */
export async function createFileBy(path: string, write: (file: FileHandle) => Promise<void>): Promise<boolean> {
  return withDraft(path, async (draft) => {
    const file = await open(draft, 'wx', PRIVATE_FILE)
    try {
      const exists = existsSync(path)
      if (!exists) {
        await write(file)
        await file.sync()
      }
      const isCreated = !exists && (await giveName(draft, path).then(() => true, refuseUnlessExists))
      await syncDirectory(dirname(path)) // even if another process made it: what is sealed later needs the file
      return isCreated
    } finally {
      await file.close()
    }
  })
}

/** Creates a folder (mode 0700) with its files (0600), durably. False if the path exists; replaces an empty folder. */
export async function createFolder(path: string, texts: ReadonlyMap<string, string>): Promise<boolean> {
  return withDraft(path, async (draft) => {
    await mkdir(draft, { mode: PRIVATE_FOLDER })
    for (const [name, text] of texts)
      await writeFile(join(draft, name), text, { mode: PRIVATE_FILE, flag: 'wx', flush: true })
    await syncDirectory(draft)
    // The whole folder is renamed: a crash between two files leaves none of them under its name.
    const isCreated = await rename(draft, path).then(() => true, refuseUnlessExists)
    await syncDirectory(dirname(path))
    return isCreated
  })
}

/** Replaces or creates a file (mode 0600) durably: a crash before the rename leaves the old file, a crash after it the new one. */
export async function replaceFile(path: string, content: string | Uint8Array): Promise<void> {
  await withDraft(path, async (draft) => {
    await writeFile(draft, content, { mode: PRIVATE_FILE, flag: 'wx', flush: true })
    await rename(draft, path)
  })
  await syncDirectory(dirname(path))
}

/** Error codes of `link` on a file system without links, such as a memory stick's. */
const NO_LINKS = ['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS']

/** Gives a draft its name. After a crash a link is complete or absent; a copy may be partial. */
async function giveName(draft: string, path: string): Promise<void> {
  try {
    await link(draft, path)
  } catch (error) {
    if (!NO_LINKS.includes((error as NodeJS.ErrnoException).code ?? '')) throw error
    await copyFile(draft, path, constants.COPYFILE_EXCL)
    const copy = await open(path, 'r+')
    await copy.sync().finally(() => copy.close())
  }
}

/** Error codes for an existing path; a folder replaces neither a file nor a folder with content. */
const EXISTS = ['EEXIST', 'ENOTEMPTY', 'ENOTDIR']

function refuseUnlessExists(error: NodeJS.ErrnoException): false {
  if (!EXISTS.includes(error.code ?? '')) throw error
  return false
}
