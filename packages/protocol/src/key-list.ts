/** The keys that an API key is limited to (chain.md 13): ids, and folders of names such as `customers/*`. Pure. */
import { encodeUtf8 } from './bytes.js'
import { MAX_LISTED_KEYS_BYTES } from './limits.js'

/** null if an API key is not limited, empty if it may use no key */
export type KeyList = readonly string[] | null

export interface ListedKey {
  key_id: string
  /** undefined if it is not known, as for a key whose creation was not read */
  folder: string | undefined
}

const FOLDER_END = '/*'

export function folderOf(name: string): string {
  return name.slice(0, name.lastIndexOf('/') + 1)
}

export interface KeyListParts {
  ids: ReadonlySet<string>
  folders: readonly string[]
}

// A list is parsed once while its API key is in memory.
const parts = new WeakMap<readonly string[], KeyListParts>()

export function partsOf(list: readonly string[]): KeyListParts {
  const known = parts.get(list)
  if (known) return known
  const isFolder = (item: string) => item.endsWith(FOLDER_END)
  const made = {
    ids: new Set(list.filter((item) => !isFolder(item))),
    folders: list.filter(isFolder).map((item) => item.slice(0, -1)),
  }
  parts.set(list, made)
  return made
}

/** Whether a key is on the list. A key whose folder is not known is on it if the list has folders. */
export function isListed(list: KeyList, { key_id, folder }: ListedKey): boolean {
  if (list === null) return true
  const { ids, folders } = partsOf(list)
  if (ids.has(key_id) || folders.length === 0) return ids.has(key_id)
  return folder === undefined || folders.some((one) => folder.startsWith(one))
}

export function findFolderOutside(held: KeyList, list: readonly string[]): string | undefined {
  if (held === null) return undefined
  const { folders } = partsOf(held)
  return partsOf(list).folders.find((folder) => !folders.some((one) => folder.startsWith(one)))
}

export function isWithin(held: KeyList, list: KeyList, findFolder: (key_id: string) => string | undefined): boolean {
  if (held === null) return true
  if (list === null || findFolderOutside(held, list) !== undefined) return false
  return [...partsOf(list).ids].every((key_id) => isListed(held, { key_id, folder: findFolder(key_id) }))
}

/** Writes a list as the entries of the log record it (chain.md 12): sorted, as JSON. */
export function writeKeyList(list: readonly string[]): string {
  return JSON.stringify([...list].sort())
}

/** Reads the list that an entry states, which is null if it states none; undefined if the text is not a list. */
export function readKeyList(text: unknown): KeyList | undefined {
  if (text === undefined) return null
  try {
    const list: unknown = JSON.parse(String(text))
    return Array.isArray(list) && list.every((item) => typeof item === 'string') ? list : undefined
  } catch {
    return undefined // not JSON
  }
}

/** Whether a list is short enough for an entry of the log to hold it twice: before a change and after it. */
export function isRecordable(list: readonly string[]): boolean {
  return encodeUtf8(JSON.stringify(writeKeyList(list))).length <= MAX_LISTED_KEYS_BYTES
}
