/** What a file of checkpoints says about where each tenant's log ended, to compare the database with. */
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import type { Witness } from './audit/chain.js'
import { CheckpointError, readCheckpoint } from './audit/checkpoint.js'
import { splitLines } from './audit/split-lines.js'

/** A line of the file: a checkpoint and the policy version beside it, which orders what was signed before and after a rollback. */
export interface KeptLine {
  tenant_id: string
  policy_version: number
  checkpoint: string
  public_key: string
}

/** The name of a file that is none. */
export const STANDARD_OUTPUT = '-'

/**
 * Reads the latest head of each tenant from a file of checkpoints. Lines that are no checkpoint, or that the key did not sign, are
 * skipped: a crash may have cut one short, and whoever can write to the file could have deleted them as well. A file that is not
 * there yet, or that is a pipe or a terminal, holds nothing.
 */
export async function readKeptWitnesses(file: string, publicKey: string): Promise<Map<string, Witness>> {
  const latest = await findLatest(file, () => true)
  const forged = new Set([...latest].filter(([, line]) => !readSignedHash(line, publicKey)).map(([id]) => id))
  // Only the latest line of a tenant has to be verified, unless that one is forged.
  const isSigned = (line: Parsed) => !forged.has(line.tenant_id) || readSignedHash(line, publicKey) !== undefined
  const signed = forged.size === 0 ? latest : await findLatest(file, isSigned)
  return new Map(
    [...signed].flatMap(([tenant_id, line]) => {
      const { last_id, policy_version } = line
      const hash = readSignedHash(line, publicKey)
      return hash ? [[tenant_id, { last_id, hash, policy_version }]] : []
    }),
  )
}

async function findLatest(file: string, isGood: (line: Parsed) => boolean): Promise<Map<string, Parsed>> {
  const latest = new Map<string, Parsed>()
  for await (const text of readLines(file)) {
    const line = parseLine(text)
    if (line && isLater(line, latest.get(line.tenant_id)) && isGood(line)) latest.set(line.tenant_id, line)
  }
  return latest
}

async function* readLines(file: string): AsyncGenerator<string> {
  if (file === STANDARD_OUTPUT) return
  const found = await stat(file).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
  })
  if (found?.isFile()) yield* splitLines(createReadStream(file))
}

function parseLine(line: string) {
  if (!line.startsWith('{')) return undefined
  try {
    const { tenant_id, policy_version = 0, checkpoint } = JSON.parse(line) as Partial<Record<keyof KeptLine, unknown>>
    if (typeof tenant_id !== 'string' || typeof checkpoint !== 'string') return undefined
    if (typeof policy_version !== 'number' || !Number.isSafeInteger(policy_version)) return undefined
    return { tenant_id, policy_version, checkpoint, last_id: Number(checkpoint.split('\n')[2]) }
  } catch {
    return undefined
  }
}

type Parsed = NonNullable<ReturnType<typeof parseLine>>

function isLater({ policy_version, last_id }: Parsed, than: Parsed | undefined): boolean {
  if (!than) return true
  return policy_version === than.policy_version ? last_id > than.last_id : policy_version > than.policy_version
}

function readSignedHash({ tenant_id, checkpoint }: Parsed, publicKey: string): Uint8Array | undefined {
  try {
    const statement = readCheckpoint(checkpoint, publicKey)
    return statement.tenant_id === tenant_id ? statement.hash : undefined
  } catch (error) {
    if (error instanceof CheckpointError) return undefined
    throw error
  }
}
