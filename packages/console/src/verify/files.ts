/** Detects the kinds of dropped files by their beginnings, and what an export is about. */
import { EXPORT_FORMAT } from '@eaas/audit'
import { readJson, visible } from '@eaas/protocol'

export type Kind = 'export' | 'public key' | 'names' | 'checkpoints'

export interface Given {
  file: File
  kind: Kind
  after_id: number // for an export: the entry before its first one, which puts exports in order
  key?: string // for a public key: the key itself
  /** for an export: when its first entry was written, and when it was signed, if its ends say so */
  from?: string | undefined
  to?: string | undefined
}

const EXPORT_START = `{"format":${JSON.stringify(EXPORT_FORMAT)}`
const KEY_START = 'eaas-audit+'
const BEGINNING_BYTES = 65_536
const BEFORE_ENTRIES_BYTES = 20_971_520 // the line of links has up to 16 MiB
const MOST_NAMES_BYTES = 4_194_304 // enough for the ids of two dozen keys and more

export async function recognize(file: File): Promise<Given> {
  const text = await file.slice(0, BEGINNING_BYTES).text()
  if (text.startsWith(EXPORT_START)) {
    const after_id = Number(/"after_id":(\d+)/.exec(text.slice(0, 1_000))?.[1] ?? 0)
    return { file, kind: 'export', after_id, ...(await readPeriod(file)) }
  }
  if (text.startsWith(KEY_START)) return { file, kind: 'public key', after_id: 0, key: text.trim() }
  if (Object.keys(await readNames(file)).length > 0) return { file, kind: 'names', after_id: 0 }
  return { file, kind: 'checkpoints', after_id: 0 }
}

/** Reports that a file has another public key than the field; undefined if none has. */
export function findOtherKey(given: readonly Given[], publicKey: string): string | undefined {
  const other = given.find(({ key }) => key !== undefined && key !== publicKey.trim())
  return (
    other &&
    `The public key in ${visible(other.file.name)} is not the one in the field. Nothing is verified until you choose: remove the file, or empty the field and give the file again.`
  )
}

export async function readNames(file: File): Promise<Record<string, string>> {
  if (file.size > MOST_NAMES_BYTES) return {}
  const value = readJson(await file.text().catch(() => ''))
  const pairs = typeof value === 'object' && value !== null ? Object.entries(value) : []
  const areNames = pairs.every(([id, name]) => /^[0-9a-f]{8}-[0-9a-f-]{27}$/.test(id) && typeof name === 'string')
  return areNames ? Object.fromEntries(pairs) : {}
}

/** The period of all exports together, which are in order: from the first to the last; '' where an end does not say it. */
export function findPeriod(given: readonly Given[]): [from: string, to: string] {
  return [given.find(({ from }) => from)?.from ?? '', given.findLast(({ to }) => to)?.to ?? '']
}

async function readPeriod(file: File): Promise<Pick<Given, 'from' | 'to'>> {
  // An anchor and its links precede the first entry, and have times of their own.
  const [entry] = /^\{"id":.*\n/m.exec(await file.slice(0, BEFORE_ENTRIES_BYTES).text()) ?? []
  // The statement of a tree follows the checkpoint, and is signed a moment later.
  const [, to] =
    /^\{"(?:checkpoint|stretch)".*?\\n(\d{4}-\d\d-\d\dT[\d:.]+Z)\\n/m.exec(await file.slice(-BEGINNING_BYTES).text()) ??
    []
  return { from: /"created_at":"([^"]+)","hash":"[0-9a-f]+"\}\n$/.exec(entry ?? '')?.[1], to }
}
