/** The names of keys and API keys as entries state them (chain.md 12). Pure. */
import { type AuditEntry, readMetadata } from '../formats/chain.js'

const NAMING: readonly string[] = ['key.create', 'key.restate', 'api_key.create', 'api_key.update', 'api_key.restate']

/** Finds the name that an entry gives a key or an API key, and the id of that; undefined if it gives none. */
export function findRecordedName({
  action,
  key_id,
  metadata,
}: Pick<AuditEntry, 'key_id' | 'metadata'> & { action: string }): [id: string, name: string] | undefined {
  if (!NAMING.includes(action)) return undefined
  const { name, api_key_id } = readMetadata({ metadata })
  return typeof name === 'string' ? [key_id ?? String(api_key_id), name] : undefined
}
