/**
 * What the installation's log says of a server's configuration: a digest, from which nothing secret can be
 * guessed.
 */
import { hash } from 'node:crypto'
import type { Config } from './config.js'

/**
 * SHA-256, in hexadecimal, over the settings as JSON with sorted names. The root key and the database's URL,
 * which holds a password, stand in it only as where they come from; what `eaas witness` uses is left out.
 */
export function digestConfig(
  { rootKey, databaseUrl, unknownVariables: _, witness: __, ...settings }: Config,
  database: string,
): string {
  const root_key = rootKey.value === undefined ? (rootKey.file ?? 'data directory') : 'environment'
  const named = { ...settings, database, root_key, maxClockSkewMs: String(settings.maxClockSkewMs) }
  const sorted = Object.entries(named).sort(([a], [b]) => (a < b ? -1 : 1))
  return hash('sha256', JSON.stringify(sorted))
}
