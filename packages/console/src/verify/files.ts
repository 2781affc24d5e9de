/** Tells what the files are that were dropped, by their beginnings, and what an export is of. */
import { EXPORT_FORMAT } from '@eaas/audit'

export type Kind = 'export' | 'public key' | 'names' | 'checkpoints'

export interface Given {
  file: File
  kind: Kind
  /** of an export: the entry before its first one, by which exports are ordered */
  after_id: number
}

const EXPORT_START = `{"format":${JSON.stringify(EXPORT_FORMAT)}`
const KEY_START = 'eaas-audit+'
const BEGINNING_BYTES = 65_536
/** Ids of two dozen keys and more fit. */
const MOST_NAMES_BYTES = 4_194_304

export async function recognize(file: File): Promise<Given> {
  const text = await file.slice(0, BEGINNING_BYTES).text()
  if (text.startsWith(EXPORT_START)) {
    const after_id = Number(/"after_id":(\d+)/.exec(text.slice(0, 1_000))?.[1] ?? 0)
    return { file, kind: 'export', after_id }
  }
  if (text.startsWith(KEY_START)) return { file, kind: 'public key', after_id: 0 }
  if (Object.keys(await readNames(file)).length > 0) return { file, kind: 'names', after_id: 0 }
  return { file, kind: 'checkpoints', after_id: 0 }
}

/** Reads names by ids; empty if the file holds none. */
export async function readNames(file: File): Promise<Record<string, string>> {
  if (file.size > MOST_NAMES_BYTES) return {}
  try {
    const value: unknown = JSON.parse(await file.text())
    const pairs = typeof value === 'object' && value !== null ? Object.entries(value) : []
    const areNames = pairs.every(([id, name]) => /^[0-9a-f]{8}-[0-9a-f-]{27}$/.test(id) && typeof name === 'string')
    return areNames ? Object.fromEntries(pairs) : {}
  } catch {
    return {} // not JSON
  }
}

/** When the first entry of an export was written and when the last one was signed, as far as its ends tell. */
export async function readPeriod(
  first: File,
  last: File,
): Promise<{ from: string | undefined; to: string | undefined }> {
  const beginning = await first.slice(0, BEGINNING_BYTES).text()
  const end = await last.slice(-BEGINNING_BYTES).text()
  const times = [...end.matchAll(/\\n(\d{4}-\d\d-\d\dT[\d:.]+Z)\\n/g)]
  return { from: /"created_at":"([^"]+)"/.exec(beginning)?.[1], to: times.at(-1)?.[1] }
}
