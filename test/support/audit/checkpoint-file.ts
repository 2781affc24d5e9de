// The file in which a server keeps checkpoints.
import { readFile } from 'node:fs/promises'
import { parseCheckpoint } from '../../../packages/audit/src/formats/checkpoint.js'

/** Reads of which entries of a log the file has lines. */
export async function keptEntries(file: string, tenant_id: string): Promise<number[]> {
  const lines = (await readFile(file, 'utf8')).split('\n').slice(0, -1)
  const statements = lines.map((line) => parseCheckpoint(JSON.parse(line).checkpoint))
  return statements.filter((statement) => statement.tenant_id === tenant_id).map(({ last_id }) => last_id)
}
