/** The limits of an API key apart from its permissions: keys, budgets and addresses. Pure. */
import { encodeUtf8 } from './bytes.js'
import type { LogAction } from './entry-names.js'
import { MAX_LISTED_KEYS_BYTES } from './limits.js'

/** null if an API key is not limited, empty if it may use no key */
export type KeyList = readonly string[] | null

export interface ListedKey {
  key_id: string
  /** undefined if unknown, as for a key whose creation was not read */
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

// Parses a list once while its API key is in memory.
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

/** Whether a key is on the list. A key with an unknown folder is on it if the list has folders. */
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

/** Reads the list that an entry states: null if it states none, undefined if the text is not a list. */
export function readKeyList(text: unknown): KeyList | undefined {
  if (text === undefined) return null
  try {
    const list: unknown = JSON.parse(String(text))
    return Array.isArray(list) && list.every((item) => typeof item === 'string') ? list : undefined
  } catch {
    return undefined // not JSON
  }
}

/** Whether an entry of the log can hold the list twice, before a change and after it. */
export function isRecordable(list: readonly string[]): boolean {
  return encodeUtf8(JSON.stringify(writeKeyList(list))).length <= MAX_LISTED_KEYS_BYTES
}

/** Unwraps include index secrets, and values that server mode decrypts. */
export const BUDGET_KINDS = ['unwrap', 'hash'] as const
export type BudgetKind = (typeof BUDGET_KINDS)[number]
/** The actions that count as an unwrap: each hands out a secret or a value. */
export const COUNTED_AS_UNWRAP: readonly LogAction[] = ['key.unwrap', 'decrypt', 'key.index_secret']
export const BUDGET_WINDOWS = ['minute', 'day'] as const
export type BudgetWindow = (typeof BUDGET_WINDOWS)[number]

/** How many uses each window allows; an absent member means no limit. */
export interface Budget {
  per_minute?: number | undefined
  per_day?: number | undefined
}

export interface Budgets {
  unwrap?: Budget | undefined
  hash?: Budget | undefined
  /** refuses by default, until the window ends */
  when_over?: 'refuse' | 'expire' | undefined
}

export function limitsSomething(budgets: Budgets): boolean {
  return BUDGET_KINDS.some((kind) => Object.values(budgets[kind] ?? {}).some((limit) => limit !== undefined))
}

/** The form in rows and entries (row-mac.md 1): JSON with sorted members. */
export function writeBudgets({ unwrap, hash, when_over }: Budgets): string {
  const sorted = (budget: Budget | undefined) => budget && { per_day: budget.per_day, per_minute: budget.per_minute }
  return JSON.stringify({ hash: sorted(hash), unwrap: sorted(unwrap), when_over })
}

// Reads a row's budgets once while its API key is in memory; few different texts exist.
const read = new Map<string, Budgets>()
const MOST_READ = 1_000

/** Reads the budgets of a row or an entry that the server wrote. @throws SyntaxError */
export function readBudgets(text: string): Budgets {
  const known = read.get(text)
  if (known) return known
  const budgets: Budgets = JSON.parse(text)
  if (read.size >= MOST_READ) read.clear()
  read.set(text, budgets)
  return budgets
}

/** The limits of an API key's use apart from its permissions and keys; null and an empty list mean no limit. */
export interface UseLimits {
  readonly expires_at: string | null
  readonly allowed_ips: readonly string[]
  readonly budgets: string | null
}

/** Whether new limits allow wider use of an API key: a caller who loosens them grants the API key's rights. */
export function loosens(before: UseLimits, after: UseLimits): boolean {
  const { expires_at, allowed_ips, budgets } = before
  const lasts = expires_at !== null && (after.expires_at === null || after.expires_at > expires_at)
  const isOpen = after.allowed_ips.length === 0 || after.allowed_ips.some((range) => !allowed_ips.includes(range))
  return lasts || (allowed_ips.length > 0 && isOpen) || (budgets !== null && after.budgets !== budgets)
}
