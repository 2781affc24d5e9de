/** Keeps the last tree of each log that a witness cosigned, in a file that survives crashes, see cosignature.md 5. */
import { readFile } from 'node:fs/promises'
import { encodeBase64, explainUnwritten, readJson } from '@eaas/protocol'
import * as z from 'zod/mini'
import { findBase64 } from '../formats/signed-note.js'
import { replaceFile } from '../node/new-file.js'
import type { Seen } from './judge.js'

const HASH_BYTES = 32
const stateSchema = z.strictObject({
  format: z.literal('eaas/witness/state/v1'),
  witness: z.string(),
  logs: z.array(
    z.strictObject({ origin: z.string().check(z.minLength(1)), size: z.int().check(z.gte(0)), root: z.string() }),
  ),
})

/** Thrown when a witness cannot start; the message says what to do. */
export class WitnessError extends Error {
  override readonly name: string = 'WitnessError'
}

export interface WitnessState {
  /** the written form of its public key */
  witness: string
  logs: ReadonlyMap<string, Seen>
}

export function writeState({ witness, logs }: WitnessState): string {
  const list = [...logs].map(([origin, { size, root }]) => ({ origin, size, root: encodeBase64(root) }))
  return `${JSON.stringify({ format: 'eaas/witness/state/v1', witness, logs: list })}\n`
}

/** Reads the text of a state file. @throws WitnessError if it is not exactly as a witness writes it */
export function readState(text: string): WitnessState {
  const state = parse(text)
  if (state === undefined || writeState(state) !== text)
    throw new WitnessError(
      'The state of the witness is damaged. Restore the newest copy of it; without what it signed before, a witness would sign anything.',
    )
  return state
}

/** Reads a state file. @throws WitnessError if it is missing or damaged */
export async function readStateFile(path: string): Promise<WitnessState> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
    throw new WitnessError(
      `There is no state of a witness: ${path}. To begin a new witness: eaas-audit witness --create --name NAME. If this one signed anything ` +
        'before, restore the newest copy of its state instead: without it, it would sign anything.',
    )
  })
  return readState(text)
}

/** Replaces a state file, durably once this resolves. @throws WitnessError if it cannot be written */
export async function replaceStateFile(path: string, state: WitnessState): Promise<void> {
  // The cosignature is made only afterwards, so a crash before the new state is stored leaves none.
  await replaceFile(path, writeState(state)).catch((error: NodeJS.ErrnoException) => {
    throw new WitnessError(explainUnwritten(path, error))
  })
}

function parse(text: string): WitnessState | undefined {
  const { data } = stateSchema.safeParse(readJson(text))
  if (!data) return undefined
  const seen = new Map<string, Seen>()
  for (const { origin, size, root: encoded } of data.logs) {
    const root = findBase64(encoded, HASH_BYTES)
    if (root) seen.set(origin, { size, root })
  }
  return seen.size === data.logs.length ? { witness: data.witness, logs: seen } : undefined
}
